"""The plan as the agent reads it."""

from __future__ import annotations

import json
import signal

import pytest

from orlop.agent import plan
from orlop.agent.plan import Mount, User, signal_number

SMALLEST = {
    "version": 1,
    "pod": {"namespace": "default", "name": "p", "uid": "u"},
    "containers": [{"name": "c", "argv": ["true"]}],
}


def read(tmp_path, **changes):
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({**SMALLEST, **changes}))
    return plan.read(str(path))


def test_the_smallest_plan_has_kubernetes_defaults(tmp_path):
    found = read(tmp_path)
    assert found.pod.restart_policy == "Always"
    assert (found.pod.grace, found.pod.deadline, found.pod.hostname) == (30.0, 0.0, "p")
    (container,) = found.containers
    assert (container.cwd, container.rootfs, container.user) == ("/", "", None)
    assert container.message_path == "/dev/termination-log"
    assert container.stop_signal == signal.SIGTERM


def test_no_grace_is_not_the_default_grace(tmp_path):
    pod = {**SMALLEST["pod"], "terminationGracePeriodSeconds": 0}
    assert read(tmp_path, pod=pod).pod.grace == 0.0


def test_init_containers_come_first(tmp_path):
    found = read(tmp_path, initContainers=[{"name": "i", "argv": ["true"]}])
    assert [(c.name, c.init) for c in found.containers] == [("i", True), ("c", False)]


def test_a_full_container_is_read(tmp_path):
    full = {
        "name": "c",
        "rootfs": "/images/x/rootfs",
        "argv": ["a", "b"],
        "env": [["A", "1"], ["A", "2"]],
        "user": {"uid": 5, "gid": 6, "groups": [7]},
        "mounts": [{"volume": "v", "path": "/p", "readOnly": True, "subPath": "s"}],
        "memoryLimit": 100,
        "stopSignal": "SIGQUIT",
    }
    (container,) = read(tmp_path, containers=[full]).containers
    assert container.env == [("A", "1"), ("A", "2")]
    assert container.user == User(5, 6, [7])
    assert container.mounts == [Mount("v", "/p", True, "s")]
    assert (container.memory_limit, container.stop_signal) == (100, signal.SIGQUIT)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"version": 2}, "plan version 2, this agent reads 1"),
        ({"containers": [{"name": "c"}]}, "the plan has no 'argv'"),
    ],
)
def test_what_is_wrong_with_a_plan_is_said(tmp_path, changes, words):
    with pytest.raises(ValueError, match=words):
        read(tmp_path, **changes)


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("", 15), ("TERM", 15), ("SIGTERM", 15), ("sigquit", 3), ("9", 9), ("SIGUSR1", 10),
        ("SIGRTMIN+3", signal.SIGRTMIN + 3), ("NONSENSE", 15),
    ],
)  # fmt: skip
def test_stop_signals_are_read_as_images_write_them(name, number):
    assert signal_number(name) == number


def test_marks_in_a_plan_become_the_nodes_addresses(tmp_path, monkeypatch):
    monkeypatch.setattr(plan, "own_addresses", lambda file: ["10.77.0.1", "192.0.2.7"])
    marked = {"name": "c", "argv": ["serve", "--at=\0hostIP\0"], "env": [["A", "\0hostIPs\0"]]}
    (container,) = read(tmp_path, containers=[marked], kubelet={}).containers
    assert container.argv == ["serve", "--at=10.77.0.1"]
    assert container.env == [("A", "10.77.0.1,192.0.2.7")]


def test_a_pod_has_its_nodes_network_unless_it_is_given_its_own(tmp_path):
    assert read(tmp_path).network is None
    assert read(tmp_path, network={"podIP": "10.244.3.7"}).network == {"podIP": "10.244.3.7"}
