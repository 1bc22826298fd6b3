"""Kernel parameters of a pod's own ipc namespace."""

from __future__ import annotations

import pytest

from orlop.agent.pod.sysctls import can_be_set, set_all

from ..pods import container

READS = "cat /proc/sys/kernel/shm_rmid_forced /proc/sys/fs/mqueue/msg_max"
WANTED = [
    {"name": "kernel.shm_rmid_forced", "value": "1"},
    {"name": "fs/mqueue/msg_max", "value": "33"},
]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("kernel.shmmax", True),
        ("kernel/shmall", True),
        ("kernel.msgmnb", True),
        ("kernel.sem", True),
        ("fs.mqueue.msg_max", True),
        ("net.core.somaxconn", False),
        ("kernel.core_pattern", False),
        ("vm.swappiness", False),
        ("kernel.semaphore", False),
    ],
)
def test_only_those_of_an_ipc_namespace_can_be_set(name, expected):
    assert can_be_set(name) is expected


def test_a_pod_has_its_own_parameters(run_pod, runtime):
    pod = run_pod(container(script=READS), spec={"sysctls": WANTED}, runtime=runtime)
    assert pod.lines() == ["1", "33"]


def test_with_the_nodes_ipc_they_are_refused(run_pod):
    pod = run_pod(container(script=READS), spec={"sysctls": WANTED, "shared": ["hostIpc"]})
    (end,) = pod.records("finished")
    assert end["reason"] == "SysctlForbidden"
    words = 'forbidden sysctl: "kernel.shm_rmid_forced" not allowed with host ipc enabled'
    assert end["message"] == words


def test_what_the_kernel_refuses_is_told(tmp_path):
    with pytest.raises(OSError, match="does not let an ordinary user set it"):
        set_all([{"name": "kernel.shmmax", "value": "1"}], True, str(tmp_path))


def test_a_plan_from_elsewhere_cannot_set_more():
    with pytest.raises(OSError, match="not allowlisted"):
        set_all([{"name": "kernel.core_pattern", "value": "|/x"}], True)
