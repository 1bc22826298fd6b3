"""Changes reach pods that run, and pods that wait in the queue; tokens are renewed in time."""

from __future__ import annotations

import base64
import json

import pytest

from orlop.api.kinds import CLUSTER_TRUST_BUNDLE, CONFIG_MAP, POD, SECRET
from orlop.api.objects import Key
from orlop.kubelet.planning.live_plan import TokenRenewal, pieces
from orlop.kubelet.planning.live_updates import _knows_itself

from ..conftest import eventually
from ..objects import a_container, a_pod

KEY = Key("default", "settings")


async def config(site, immutable=False, **data):
    body = {"metadata": {"name": "settings"}, "data": data}
    if immutable:
        body["immutable"] = True
    await site.api.create(CONFIG_MAP, body, namespace="default")


def volume(**source):
    return [{"name": "v", **(source or {"configMap": {"name": "settings"}})}]


def plan_of(site, name="web"):
    return json.loads((site.folder(name) / "plan.json").read_text())


def contents(files):
    return {file["path"]: base64.b64decode(file["data"]).decode() for file in files}


async def connected(site, revision=0):
    """An agent that can be told, with the revision that it says it has."""
    agent = await site.agent()
    agent.tell({"type": "hello", "job": agent.job, "node": "n1", "seq": 0, "revision": revision})
    await agent.hear("welcome")
    return agent


async def test_a_changed_config_map_is_told_to_the_agent_as_it_happens(site):
    await config(site, a="1", b="2")
    await site.create(volumes=volume())
    agent = await connected(site)
    await site.api.patch(CONFIG_MAP, KEY, {"data": {"a": "one", "b": None, "c": "3"}})
    told = await agent.hear("volume-files")
    assert (told["volume"], contents(told["files"])) == ("v", {"a": "one", "c": "3"})
    revision = (await agent.hear("plan-revision"))["revision"]
    assert plan_of(site)["revision"] == revision == 1


async def test_an_agent_that_comes_back_hears_what_it_missed(site):
    await config(site, a="1")
    await site.create(volumes=volume())
    await site.submitted()
    await site.api.patch(CONFIG_MAP, KEY, {"data": {"a": "2"}})
    await eventually(lambda: plan_of(site).get("revision") == 1, "the plan is made anew")
    agent = await connected(site, revision=0)
    told = await agent.hear("volume-files")
    assert contents(told["files"]) == {"a": "2"}
    again = await connected(site, revision=1)  # nothing new: the next word is of the next change
    await site.api.patch(CONFIG_MAP, KEY, {"data": {"a": "3"}})
    assert contents((await again.hear("volume-files"))["files"]) == {"a": "3"}


async def test_a_pod_in_the_queue_starts_with_what_is_so_then(site):
    await config(site, a="1")
    env = [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "a"}}}]
    container = a_container(command=["echo", "$(A)"], env=env)
    await site.create("web", container, volumes=volume())
    await site.submitted()
    await site.api.patch(CONFIG_MAP, KEY, {"data": {"a": "2"}})
    await eventually(lambda: plan_of(site).get("revision") == 1, "the plan is made anew")
    (planned,) = plan_of(site)["containers"]
    assert ["A", "2"] in planned["env"]
    assert planned["argv"][-1] == "2"


def certificate(words):
    return f"-----BEGIN CERTIFICATE-----\n{words}\n-----END CERTIFICATE-----\n"


async def test_what_the_cluster_trusts_reaches_pods_as_it_changes(site):
    body = {"metadata": {"name": "roots"}, "spec": {"trustBundle": certificate("old")}}
    await site.api.create(CLUSTER_TRUST_BUNDLE, body)
    source = {"clusterTrustBundle": {"name": "roots", "path": "ca.pem"}}
    await site.create(volumes=volume(projected={"sources": [source]}))
    agent = await connected(site)
    change = {"spec": {"trustBundle": certificate("new")}}
    await site.api.patch(CLUSTER_TRUST_BUNDLE, Key("", "roots"), change)
    told = await agent.hear("volume-files")
    assert contents(told["files"]) == {"ca.pem": certificate("new")}


async def has_event(site, reason):
    return any(found == reason for _, found, _ in await site.events())


async def test_a_pod_waits_for_what_the_cluster_is_to_trust(site):
    source = {"clusterTrustBundle": {"name": "roots", "path": "ca.pem"}}
    await site.create(volumes=volume(projected={"sources": [source]}))
    await eventually(lambda: has_event(site, "FailedMount"), "it says what is missing")
    body = {"metadata": {"name": "roots"}, "spec": {"trustBundle": certificate("new")}}
    await site.api.create(CLUSTER_TRUST_BUNDLE, body)
    await site.submitted()


async def test_new_labels_reach_the_downward_api(site):
    items = [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]
    await site.create(volumes=volume(downwardAPI={"items": items}))
    agent = await connected(site)
    await site.api.patch(POD, Key("default", "web"), {"metadata": {"labels": {"x": "new"}}})
    told = await agent.hear("volume-files")
    assert contents(told["files"]) == {"labels": 'x="new"'}


@pytest.mark.parametrize(
    ("path", "expected"), [("metadata.labels", True), ("metadata.namespace", False)]
)
def test_only_who_holds_its_labels_cares_for_them(path, expected):
    items = [{"path": "x", "fieldRef": {"fieldPath": path}}]
    in_volume = a_pod(volumes=volume(projected={"sources": [{"downwardAPI": {"items": items}}]}))
    env = [{"name": "X", "valueFrom": {"fieldRef": {"fieldPath": path}}}]
    in_variable = a_pod(a_container(env=env))
    assert _knows_itself(in_volume) is _knows_itself(in_variable) is expected


async def test_what_is_immutable_or_gone_stays_as_it_was(site):
    await config(site, immutable=True, a="1")
    vault = {"metadata": {"name": "vault"}, "stringData": {"k": "s"}}
    await site.api.create(SECRET, vault, namespace="default")
    volumes = [*volume(), {"name": "s", "secret": {"secretName": "vault"}}]
    await site.create(volumes=volumes)
    await connected(site)
    await site.api.delete(CONFIG_MAP, KEY)
    await config(site, a="2")
    await site.api.delete(SECRET, Key("default", "vault"))

    async def told():
        return any("vault" in message for _, _, message in await site.events())

    await eventually(told, "the missing secret is told")
    planned = {one["name"]: contents(one["files"]) for one in plan_of(site)["volumes"]}
    assert (planned["v"], planned["s"]) == ({"a": "1"}, {"k": "s"})


async def test_a_pod_that_waited_for_a_config_map_goes_when_it_comes(site):
    await site.create(volumes=volume())

    async def told():
        return any("not found" in message for _, _, message in await site.events())

    await eventually(told, "it waits")
    await config(site, a="1")
    await site.submitted()


def jwt(**claims):
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"x.{body}.y"


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        (jwt(iat=1000, exp=2000), 1800),
        (jwt(iat=0, exp=10_000_000), 86_400),
        (jwt(iat=0, exp=31_536_000, **{"kubernetes.io": {"warnafter": 3607}}), 0.8 * 3607),
        ("", 0),
        ("a.b.c", 0),
        (jwt(sub="me"), 0),
    ],
    ids=["four fifths", "a day", "as it should have been", "nothing", "nonsense", "no times"],
)
def test_a_token_is_renewed_after(token, expected):
    assert TokenRenewal().due(token) == pytest.approx(expected)


def test_pieces_put_together_are_the_files():
    data = base64.b64encode(b"z" * 1_000_000).decode()
    files = [{"path": "a", "data": "", "mode": 1}, {"path": "b", "data": data, "mode": 2}]
    files += [{"path": f"f{n}", "data": "QQ==", "mode": 3} for n in range(5000)]
    joined = []
    for piece in pieces(files):
        assert len(json.dumps(piece)) < 1 << 20
        for part in piece:
            if part.pop("append", False):
                joined[-1]["data"] += part["data"]
            else:
                joined.append(part)
    assert joined == files
