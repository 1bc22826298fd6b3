"""A Deployment is rolled to a new image and back under a client that notices nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.e2e.site import NotYet, Obj, Site, eventually, pod

# Each request on a connection of its own, through the service's name; a line a second.
CLIENT = """
import json, time, urllib.request
counts, failures, said = {}, [], 0.0
while True:
    try:
        with urllib.request.urlopen("http://web/", timeout=10) as answer:
            who = answer.read().decode().strip()
        counts[who] = counts.get(who, 0) + 1
    except OSError as error:
        failures.append(f"{time.time():.3f} {error}")
    if time.time() - said > 1:
        said = time.time()
        print(json.dumps({"counts": counts, "failures": failures}), flush=True)
    time.sleep(0.02)
"""
SERVER = "mkdir /www && hostname > /www/index.html && exec httpd -f -p 80 -h /www"


def deployment(image: str) -> Obj:
    probe = {"httpGet": {"port": 80, "path": "/"}, "periodSeconds": 1}
    web = {
        "name": "web",
        "image": image,
        "command": ["sh", "-c", SERVER],
        "readinessProbe": probe,
        # As everywhere: time in which nobody is sent here any more, before the server ends.
        "lifecycle": {"preStop": {"sleep": {"seconds": 2}}},
    }
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [web]}}
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2, "maxUnavailable": 1}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 4,
            "strategy": rolling,
            "selector": {"matchLabels": {"app": "web"}},
            "template": template,
        },
    }


SERVICE: Obj = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "web"},
    "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
}


class Client:
    """What a client of the service has seen so far."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def said(self) -> Obj:
        lines = self._site.kubectl("logs", "client", "--tail=1").splitlines()
        return json.loads(lines[-1]) if lines else {"counts": {}, "failures": []}

    def wait_until_all_answer(self) -> set[str]:
        """The names of the four pods that are there, once each has answered."""
        pods = {one["metadata"]["name"] for one in running(self._site)}

        def silent() -> set[str]:
            return pods - set(self.said()["counts"])

        try:
            eventually(lambda: not silent(), f"answers of {pods}", timeout=60)
        except NotYet as error:
            now = [one["metadata"]["name"] for one in running(self._site)]
            raise NotYet(f"{error}; the client says {self.said()}; pods are {now}") from None
        return pods


def running(site: Site) -> list[Obj]:
    pods = site.pods("app=web")
    return [one for one in pods if "deletionTimestamp" not in one["metadata"]]


@contextmanager
def client_of(site: Site) -> Iterator[Client]:
    script = f"exec python3 -c '{CLIENT}'"
    site.apply(pod("client", "host", script, terminationGracePeriodSeconds=0))
    site.wait_phase("client", "Running")
    yield Client(site)


def images(site: Site) -> set[str]:
    return {one["spec"]["containers"][0]["image"] for one in running(site)}


@pytest.mark.timeout(300)
def test_a_rollout_and_its_undoing_cost_a_client_no_request(site: Site) -> None:
    site.apply(SERVICE)
    site.apply(deployment("busybox"))
    site.kubectl("rollout", "status", "deployment/web", "--timeout=90s", timeout=100)
    with client_of(site) as client:
        first = client.wait_until_all_answer()

        site.kubectl("set", "image", "deployment/web", "web=busybox:docker")
        site.kubectl("rollout", "status", "deployment/web", "--timeout=90s", timeout=100)
        assert images(site) == {"busybox:docker"}
        second = client.wait_until_all_answer()
        assert not first & second

        site.kubectl("rollout", "undo", "deployment/web")
        site.kubectl("rollout", "status", "deployment/web", "--timeout=90s", timeout=100)
        assert images(site) == {"busybox"}
        client.wait_until_all_answer()
        said = client.said()
    assert said["failures"] == []
    assert len(said["counts"]) == 12, "four pods of each of three revisions"
