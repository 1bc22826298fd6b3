"""The plugin as kubectl runs it, on objects as the kubelet writes them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from orlop import wellknown
from orlop.api.kinds import EVENT, POD
from orlop.api.objects import Key, uid_of
from orlop.cli.kubectl_plugin.kubectl_slurm import slurm

SPEC = {"nodeName": "main", "containers": [{"name": "main", "image": "busybox"}]}


def allocated(status: str, reason: str, message: str):
    return {"type": wellknown.ALLOCATED, "status": status, "reason": reason, "message": message}


def pod(name: str, **annotations: str):
    metadata = {"name": name, "namespace": "default", "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": SPEC}


def failed(code: int):
    ended = {"exitCode": code, "reason": "Error", "message": "no such file"}
    return {
        "phase": "Failed",
        "reason": "Cancelled",
        "message": "job 19 was cancelled",
        "containerStatuses": [
            {
                "name": "main",
                "image": "busybox",
                "imageID": "",
                "ready": False,
                "restartCount": 0,
                "state": {"terminated": ended},
            }
        ],
    }


@pytest.fixture(scope="module")
def pods(home):
    running = {wellknown.JOB_ID: "17", wellknown.NODE_LIST: "n3"}
    conditions = [allocated("True", "Running", "job 17 runs on n3")]
    home.create(POD, pod("runs", **running), {"phase": "Running", "conditions": conditions})
    waiting = [allocated("False", "Priority", "jobs of higher priority are before it")]
    made = home.create(
        POD, pod("waits", **{wellknown.JOB_ID: "18"}), {"phase": "Pending", "conditions": waiting}
    )
    home.create(POD, pod("failed", **{wellknown.JOB_ID: "19"}), failed(2))
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "waits.1", "namespace": "default"},
        "involvedObject": {
            "kind": "Pod",
            "namespace": "default",
            "name": "waits",
            "uid": uid_of(made),
        },
        "type": "Normal",
        "reason": "Submitted",
        "message": "job 18 is submitted",
    }
    home.create(EVENT, event)
    folder = home.paths.pod("default", "waits", uid_of(made))
    folder.mkdir(parents=True)
    (folder / "job.sh").write_text("#!/bin/bash\n#SBATCH --time=2\n")
    yield home
    for name in ("runs", "waits", "failed"):
        home.delete(POD, Key("default", name))


def test_kubectl_finds_the_plugin_on_path(pods, environment):
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["kubectl", "slurm", "queue"],
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": path},
    )
    assert "waits" in done.stdout, done.stderr


def test_the_queue_lists_what_waits_and_runs(pods, environment, runner):
    lines = runner.invoke(slurm, ["queue"]).output.splitlines()
    assert lines[0].split() == ["JOB", "PARTITION", "POD", "PHASE", "NODES", "REASON"]
    assert [line.split() for line in lines[1:]] == [
        ["17", "main", "runs", "Running", "n3"],
        ["18", "main", "waits", "Pending", "-", "Priority"],
    ]


def test_all_namespaces_are_told_apart(pods, environment, runner):
    assert "default/waits" in runner.invoke(slurm, ["queue", "-A"]).output


def test_an_empty_queue_is_said(pods, environment, runner):
    assert "nothing" in runner.invoke(slurm, ["queue", "-n", "kube-system"]).output


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("waits", ["Pending", "job 18", "partition main", "Priority", "before it", "Submitted"]),
        ("runs", ["Running", "job 17", "on n3"]),
        ("pod/failed", ["Failed", "Cancelled", "exit code 2", "no such file"]),
    ],
)
def test_why_tells_a_pods_story(pods, environment, runner, name, expected):
    said = runner.invoke(slurm, ["why", name]).output
    assert [word for word in expected if word not in said] == []


def test_the_script_is_the_one_of_the_pods_folder(pods, environment, runner):
    assert runner.invoke(slurm, ["script", "waits"]).output == "#!/bin/bash\n#SBATCH --time=2\n"


def test_a_pod_that_was_never_submitted_has_no_script(pods, environment, runner):
    said = runner.invoke(slurm, ["script", "runs"])
    assert "not been submitted" in str(said.exception)


def test_usage_without_jobs_asks_nobody(pods, environment, runner):
    assert "no pod" in runner.invoke(slurm, ["usage", "-n", "kube-system"]).output
