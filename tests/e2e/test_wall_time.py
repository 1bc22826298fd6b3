"""Pods and their time limits on a real Slurm: they know their end, are warned, and are followed."""

from __future__ import annotations

import json

import pytest

from orlop.api.objects import is_deleting, is_ready
from tests.cluster.spec import HEAD
from tests.e2e.site import Obj, Site, eventually, pod

SLURM = "slurm.orlop.dev/"
END = SLURM + "end-time"
LONG = 240.0  # seconds; Slurm looks at limits every 30 s, and requeues after some more

SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "web"},
    "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]},
}


def deployment() -> Obj:
    """A web server that is followed as early as can be, so that nothing here is a race."""
    server = {
        "name": "web",
        "image": "busybox",
        "command": ["sh", "-c", "mkdir /www; echo hi > /www/index.html; httpd -f -p 8080 -h /www"],
        "readinessProbe": {"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1},
        # As everywhere: a pod serves on until nobody is sent to it any more.
        "lifecycle": {"preStop": {"exec": {"command": ["sleep", "5"]}}},
        "volumeMounts": [{"name": "self", "mountPath": "/etc/self"}],
        "env": [{
            "name": "END",
            "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{END}']"}},
        }],
    }  # fmt: skip
    item = {"path": "end", "fieldRef": {"fieldPath": f"metadata.annotations['{END}']"}}
    template = {
        "metadata": {
            "labels": {"app": "web"},
            "annotations": {SLURM + "time": "60", SLURM + "replace": "3600"},
        },
        "spec": {
            "terminationGracePeriodSeconds": 8,
            "containers": [server],
            "volumes": [{"name": "self", "downwardAPI": {"items": [item]}}],
        },
    }
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    head = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}}
    return {**head, "spec": spec}


CLIENT = """
import time, urllib.request
while True:
    try:
        urllib.request.urlopen("http://web/", timeout=60).read()
        print("ok", flush=True)
    except OSError as error:
        print("FAILED", error, flush=True)
    time.sleep(0.05)
"""


def ready(site: Site) -> list[Obj]:
    return [one for one in site.pods("app=web") if is_ready(one) and not is_deleting(one)]


def annotation(site: Site, name: str, key: str) -> str:
    return str((site.pod(name)["metadata"].get("annotations") or {}).get(key, ""))


@pytest.mark.timeout(600)
def test_a_service_outlives_the_time_limit_of_its_pod(site: Site) -> None:
    """An administrator shortens the limit; the pod hears of it, and another takes its place."""
    for one in (SERVICE, deployment()):
        site.apply(one)
    [old] = eventually(lambda: ready(site), "the server is ready", 90)
    name = old["metadata"]["name"]
    client = pod("client", "python", "", terminationGracePeriodSeconds=0)
    client["spec"]["containers"][0]["command"] = ["python", "-c", CLIENT]
    site.apply(client)
    site.wait_phase("client", "Running", timeout=90)
    eventually(lambda: "ok" in site.kubectl("logs", "client"), "the client is served", 90)

    first = eventually(lambda: annotation(site, name, END), "the pod has an end")
    assert site.kubectl("exec", name, "--", "sh", "-c", "echo $END").strip()
    job = annotation(site, name, SLURM + "job-id")
    update = ["scontrol", "update", f"JobId={job}", "EndTime=now+150seconds"]
    site.cluster.run(HEAD, update)

    def followed() -> list[Obj]:
        return [one for one in ready(site) if one["metadata"]["name"] != name]

    def knows() -> bool:
        told = site.run("kubectl", "-n", site.namespace, "exec", name, "--", "cat",
                        "/etc/self/end", check=False).stdout.strip()  # fmt: skip
        return (told != "" and told != first) or bool(followed())

    eventually(knows, "the pod knows its new end", 60)
    eventually(followed, "another pod is ready", 180)
    gone = ["get", "pod", name, "--ignore-not-found", "-o", "name"]
    eventually(lambda: not site.kubectl(*gone), "the old pod is gone", 120)
    said = site.kubectl("logs", "client").split()
    assert said.count("FAILED") == 0, site.kubectl("logs", "client", "--tail=50")
    assert "Expiring" in {reason for reason, _ in site.events(name)}


CHECKPOINT = """
echo "run $ORLOP_RESTART_COUNT"
[ -e /data/checkpoint ] && exec cat /data/checkpoint
trap 'echo half done > /data/checkpoint; exit 9' USR1
while :; do sleep 1; done
"""


def job() -> Obj:
    annotations = {"time": "2", "signal": "USR1@110", "on-timeout": "successor"}
    main = {
        "name": "main",
        "image": "busybox",
        "command": ["sh", "-c", CHECKPOINT],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    template = {
        "metadata": {"annotations": {SLURM + key: value for key, value in annotations.items()}},
        "spec": {
            "restartPolicy": "Never",
            "containers": [main],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
        },
    }
    head = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "steps"}}
    return {**head, "spec": {"backoffLimit": 0, "template": template}}


CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "data"},
    "spec": {
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": "1Mi"}},
    },
}
AGAIN = 'echo "run $ORLOP_RESTART_COUNT $SLURM_RESTART_COUNT"; [ "$ORLOP_RESTART_COUNT" = 1 ]'


@pytest.mark.timeout(600)
def test_work_goes_on_over_a_time_limit(site: Site) -> None:
    """A Job that checkpoints when it is warned, ranks that all are, pods that are requeued."""
    again = pod("again", "busybox", f"{AGAIN} || sleep 600")
    again["metadata"]["annotations"] = {SLURM + "on-timeout": "requeue", SLURM + "time": "5"}
    ranks = pod("ranks", "busybox", "trap 'echo warned; exit 0' USR1; while :; do sleep 0.2; done")
    asked = {"time": "2", "signal": "USR1@110", "nodes": "2", "ntasks": "4"}
    ranks["metadata"]["annotations"] = {SLURM + key: value for key, value in asked.items()}
    saves = pod("saves", "busybox", CHECKPOINT)
    asked = {"time": "2", "signal": "USR1@110", "on-timeout": "requeue"}
    saves["metadata"]["annotations"] = {SLURM + key: value for key, value in asked.items()}
    claim = {"persistentVolumeClaim": {"claimName": "data"}}
    mount = {"name": "data", "mountPath": "/data", "subPath": "saves"}
    saves["spec"]["volumes"] = [{"name": "data", **claim}]
    saves["spec"]["containers"][0]["volumeMounts"] = [mount]
    for one in (CLAIM, job(), ranks, saves, again):
        site.apply(one)
    site.wait_phase("again", "Running")
    site.cluster.expire(annotation(site, "again", SLURM + "job-id"))

    def is_complete() -> bool:
        conditions = site.get("job", "steps")["status"].get("conditions") or []
        return any(c["type"] == "Complete" and c["status"] == "True" for c in conditions)

    eventually(is_complete, "the Job has gone on and is complete", LONG)
    pods = sorted(site.pods("job-name=steps"), key=lambda one: one["metadata"]["creationTimestamp"])
    assert [one["status"]["phase"] for one in pods] == ["Failed", "Succeeded"], json.dumps(pods)
    told = [site.kubectl("logs", one["metadata"]["name"]).split() for one in pods]
    assert told == [["run", "0"], ["run", "1", "half", "done"]]
    assert "TimeLimitNear" in {reason for reason, _ in site.events(pods[0]["metadata"]["name"])}

    site.wait_phase("ranks", "Succeeded", timeout=LONG)
    assert site.kubectl("logs", "ranks").split().count("warned") == 4

    site.wait_phase("again", "Succeeded", timeout=LONG)
    assert site.kubectl("logs", "again").split() == ["run", "1", "1"]
    assert "Requeued" in {reason for reason, _ in site.events("again")}
    site.wait_phase("saves", "Succeeded", timeout=LONG)
    assert site.kubectl("logs", "saves").split() == ["run", "1", "half", "done"]
