from __future__ import annotations

import json

import pytest

from orlop import wellknown
from orlop.api.kinds import NODE, POD
from orlop.api.objects import Key
from orlop.cli.commands.status import NOT_RUNNING
from orlop.cli.home import record
from orlop.cli.main import orlop

WAITING = {
    "phase": "Pending",
    "conditions": [
        {
            "type": wellknown.ALLOCATED,
            "status": "False",
            "reason": "Priority",
            "message": "jobs of higher priority are before it",
        }
    ],
}


def pod(name: str, node: str = "main", **annotations: str):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "annotations": annotations},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "busybox"}]},
    }


@pytest.fixture(scope="module")
def busy(home):
    """A node, a running pod and a waiting one."""
    ready = [{"type": "Ready", "status": "True", "reason": "x", "message": "partition main is up"}]
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "main"}}
    home.create(NODE, node, {"conditions": ready, "capacity": {"cpu": "32", "memory": "31Gi"}})
    home.create(POD, pod("runs"), {"phase": "Running"})
    home.create(POD, pod("waits", **{wellknown.JOB_ID: "17"}), WAITING)
    home.create(POD, pod("ended"), {"phase": "Succeeded"})
    yield home
    home.delete(NODE, Key("", "main"))
    for name in ("runs", "waits", "ended"):
        home.delete(POD, Key("default", name))


def test_people_see_everything_on_one_screen(busy, environment, runner):
    said = runner.invoke(orlop, ["status"])
    assert said.exit_code == 0, said.output
    rows = {line.split()[0]: line.split() for line in said.output.splitlines() if line}
    assert rows["main"][:5] == ["main", "True", "32", "31Gi", "2"]
    assert rows["default/waits"][1:3] == ["17", "Priority"]
    assert "1 Pending, 1 Running, 1 Succeeded" in said.output
    assert "local (Linux" in said.output
    assert str(busy.paths.home) in said.output


def test_scripts_get_the_same_as_json(busy, environment, runner):
    said = json.loads(runner.invoke(orlop, ["status", "--output", "json"]).output)
    assert said["controlPlane"]["running"]
    assert said["controlPlane"]["answers"]
    assert said["engine"]["name"] == "local"
    assert said["nodes"] == [
        {
            "name": "main",
            "ready": "True",
            "cpus": "32",
            "memory": "31Gi",
            "pods": 2,
            "message": "partition main is up",
        }
    ]
    assert said["pods"] == {"Pending": 1, "Running": 1, "Succeeded": 1}
    assert [entry["pod"] for entry in said["queue"]] == ["default/waits"]


def test_a_home_without_a_control_plane_says_how_to_start_it(empty_home, runner):
    said = runner.invoke(orlop, ["status"])
    assert said.exit_code == NOT_RUNNING
    assert "`orlop up` starts it" in said.output


def test_one_that_was_stopped_is_not_running(empty_home, runner):
    empty_home.run.mkdir(parents=True)
    record.write(empty_home, record.mine(port=7, engine="local").stopped())
    said = runner.invoke(orlop, ["status", "-o", "json"])
    assert said.exit_code == NOT_RUNNING
    assert json.loads(said.output)["controlPlane"] == {"running": False, "answers": False}


def test_one_that_lives_but_is_silent_is_told_apart(empty_home, home, runner):
    empty_home.run.mkdir(parents=True)
    record.write(empty_home, record.mine(url="https://127.0.0.1:1", port=1, engine="local"))
    text = home.paths.kubeconfig.read_text()
    url = record.read(home.paths).url
    empty_home.kubeconfig.write_text(text.replace(url, "https://127.0.0.1:1"))
    said = runner.invoke(orlop, ["status"])
    assert said.exit_code == 1
    assert "does not answer" in said.output
