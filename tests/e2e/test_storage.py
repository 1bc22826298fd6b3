"""Claims, volumes and files of running pods, on the real Slurm with both runtimes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.site import Site, eventually, pod, terminated

RUNTIMES = ["crun", "apptainer"]
CLAIM = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}


def stateful_set(runtime: str) -> dict[str, Any]:
    script = "echo start >> /data/starts; trap 'exit 0' TERM; sleep 3600 & wait"
    container = {
        "name": "main",
        "image": "busybox",
        "command": ["sh", "-c", script],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    template = {
        "metadata": {"labels": {"app": "db"}, "annotations": {"orlop.dev/runtime": runtime}},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 2},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db"},
        "spec": {
            "replicas": 3,
            "serviceName": "db",
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {"app": "db"}},
            "template": template,
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": CLAIM}],
        },
    }


def folders(site: Site) -> dict[str, Path]:
    """The folders of all bound claims, by claim."""
    found = {}
    for volume in site.get("pv")["items"]:
        claim = volume["spec"]["claimRef"]
        if claim["namespace"] == site.namespace:
            found[claim["name"]] = Path(volume["spec"]["hostPath"]["path"])
    return found


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_stateful_set_survives_the_deletion_of_its_pods_with_its_data(
    site: Site, runtime: str
) -> None:
    site.apply(stateful_set(runtime))
    site.kubectl("rollout", "status", "statefulset/db", "--timeout=60s", timeout=70)
    before = {one["metadata"]["uid"] for one in site.pods("app=db")}
    for number in range(3):
        site.kubectl("exec", f"db-{number}", "--", "sh", "-c", f"echo mine-{number} > /data/id")
    site.kubectl("delete", "pod", "-l", "app=db", "--wait=true")
    site.kubectl("rollout", "status", "statefulset/db", "--timeout=60s", timeout=70)
    after = site.pods("app=db")
    assert len(after) == 3
    assert not before & {one["metadata"]["uid"] for one in after}
    for number in range(3):
        seen = site.kubectl("exec", f"db-{number}", "--", "cat", "/data/id", "/data/starts")
        assert seen == f"mine-{number}\nstart\nstart\n"
    kept = folders(site)
    assert sorted(kept) == ["data-db-0", "data-db-1", "data-db-2"]
    assert all(path.stat().st_uid == path.parent.stat().st_uid for path in kept.values())
    assert all(path.parent.stat().st_mode & 0o777 == 0o700 for path in kept.values())
    site.kubectl("delete", "statefulset", "db")
    site.kubectl("delete", "pvc", "--all", "--timeout=40s")
    eventually(lambda: not any(path.parent.exists() for path in kept.values()), "data are removed")


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_ephemeral_image_and_limited_volumes(site: Site, runtime: str) -> None:
    """Three kinds in one pod: a claim of its own, an image, a folder that it overfills."""
    script = (
        "echo x > /eph/note && cat /eph/note; cat /image/etc/passwd | head -1;"
        "touch /image/x 2>/dev/null || echo read-only; head -c 3000000 /dev/zero > /small/big;"
        "sleep 60"
    )
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in ("eph", "image", "small")]
    volumes = [
        {"name": "eph", "ephemeral": {"volumeClaimTemplate": {"spec": CLAIM}}},
        {"name": "image", "image": {"reference": "python"}},
        {"name": "small", "emptyDir": {"sizeLimit": "1Mi"}},
    ]
    manifest = pod("many", "busybox", script, container={"volumeMounts": mounts}, volumes=volumes)
    manifest["metadata"]["annotations"] = {"orlop.dev/runtime": runtime}
    site.apply(manifest)
    ended = site.wait_phase("many", "Succeeded", "Failed")
    lines = site.kubectl("logs", "many").splitlines()
    assert lines, site.story("many")
    assert lines[0] == "x"
    assert lines[1].startswith("root:")
    assert lines[2] == "read-only"
    assert ended["status"]["reason"] == "Evicted"
    assert ended["status"]["message"].strip() == (
        'Usage of EmptyDir volume "small" exceeds the limit "1Mi".'
    )
    assert terminated(ended)["exitCode"] == 137
    path = folders(site)["many-eph"]
    site.kubectl("delete", "pod", "many")
    eventually(lambda: not path.exists(), "the claim went with its pod, and the data with it")


def test_data_of_another_user_and_of_odd_modes_are_removed_too(site: Site) -> None:
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "odd"}}
    site.apply({**claim, "spec": CLAIM})
    script = "umask 077; mkdir -p /d/a/b; echo x > /d/a/b/c; ln -s / /d/a/root; chmod 0 /d/a/b"
    volumes = [{"name": "d", "persistentVolumeClaim": {"claimName": "odd"}}]
    mounts = {"volumeMounts": [{"name": "d", "mountPath": "/d"}]}
    context = {"runAsUser": 1234, "runAsGroup": 1234, "fsGroup": 4321}
    manifest = pod("odd", "busybox", script, container=mounts, volumes=volumes)
    manifest["spec"]["securityContext"] = context
    site.apply(manifest)
    site.wait_phase("odd", "Succeeded")
    path = folders(site)["odd"]
    assert path.is_dir()
    site.kubectl("delete", "pod/odd", "pvc/odd", "--timeout=40s")
    eventually(lambda: not path.parent.exists(), "all of it is removed")


def test_a_pod_waits_for_its_claim_and_no_job_is_submitted(site: Site) -> None:
    volumes = [{"name": "d", "persistentVolumeClaim": {"claimName": "late"}}]
    mounts = {"volumeMounts": [{"name": "d", "mountPath": "/d"}]}
    site.apply(pod("waits", "busybox", "touch /d/x", container=mounts, volumes=volumes))
    words = 'persistentvolumeclaim "late" not found'
    eventually(lambda: any(words in m for _, m in site.events("waits")), words)
    assert site.squeue("%i", "--name", f"{site.namespace}/waits") == []
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "late"}}
    site.apply({**claim, "spec": CLAIM})
    site.wait_phase("waits", "Succeeded")
    assert (folders(site)["late"] / "x").exists()


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_changed_config_map_reaches_a_running_pod(site: Site, runtime: str) -> None:
    """Its files at once, also after the control plane was away; its variables with a restart."""
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}}
    site.apply({**settings, "data": {"colour": "blue"}})
    reference = {"configMapKeyRef": {"name": "settings", "key": "colour"}}
    fields = {
        "volumeMounts": [
            {"name": "s", "mountPath": "/live"},
            {"name": "s", "mountPath": "/pinned", "subPath": "colour"},
        ],
        "env": [{"name": "COLOUR", "valueFrom": reference}],
    }
    line = "echo $(cat /live/colour) $(cat /pinned) $COLOUR"
    script = f"while [ ! -e /tmp/stop ]; do {line}; sleep 0.2; done"
    volumes = [{"name": "s", "configMap": {"name": "settings"}}]
    manifest = pod("live", "busybox", script, container=fields, volumes=volumes)
    manifest["metadata"]["annotations"] = {"orlop.dev/runtime": runtime}
    manifest["spec"] |= {"restartPolicy": "Always", "terminationGracePeriodSeconds": 0}
    site.apply(manifest)
    site.wait_phase("live", "Running")

    def is_said(words: str) -> bool:
        return words in site.kubectl("logs", "live", "--tail=3").splitlines()

    eventually(lambda: is_said("blue blue blue"), "the first colour")
    site.apply({**settings, "data": {"colour": "green"}})
    eventually(lambda: is_said("green blue blue"), "a new file, the old sub-path and variable")
    site.kubectl("exec", "live", "--", "touch", "/tmp/stop")
    eventually(lambda: is_said("green green green"), "all of it in the next run")
    if runtime == RUNTIMES[0]:
        site.kill()
        site.up()
        site.apply({**settings, "data": {"colour": "red"}})
        eventually(lambda: is_said("red green green"), "the agent hears of it again")
    site.kubectl("delete", "pod", "live")
