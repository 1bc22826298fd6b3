"""Cores of their own for containers that ask for whole ones."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

from orlop.agent.container.cpusets import bound_cores, dealt

from ..pods import container

SEES = "grep Cpus_allowed_list /proc/self/status"


def some(name: str, cores: int = 0, *, init: bool = False, policy: str = "") -> SimpleNamespace:
    return SimpleNamespace(name=name, cores=cores, init=init, restart_policy=policy)


@pytest.mark.parametrize(
    ("containers", "expected"),
    [
        ([some("a", 2), some("b", 1)], {"a": [4, 5], "b": [6]}),
        ([some("a", 2), some("b"), some("c")], {"a": [4, 5], "b": [6, 7], "c": [6, 7]}),
        ([some("i", 4, init=True), some("a", 1), some("b", 3)], {"a": [4], "b": [5, 6, 7]}),
        ([some("s", 1, init=True, policy="Always"), some("a", 3)], {"s": [4], "a": [5, 6, 7]}),
        ([some("a", 4), some("b")], {"a": [4, 5, 6, 7]}),
        ([some("a", 3), some("b", 2)], {}),
        ([some("a"), some("b")], {}),
    ],
    ids=["each", "the-rest-shares", "init", "sidecar", "no-rest", "too-few", "nobody-asks"],
)
def test_cores_are_dealt(containers, expected):
    assert dealt(containers, [4, 5, 6, 7]) == expected


def test_a_job_that_is_not_bound_has_no_cores_to_deal():
    count = len(os.sched_getaffinity(0))
    assert bound_cores({"SLURM_CPUS_ON_NODE": str(count)}) == sorted(os.sched_getaffinity(0))
    assert bound_cores({"SLURM_CPUS_ON_NODE": str(count + 1)}) == []
    assert bound_cores({}) == []


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core cannot be dealt to two")
def test_two_containers_run_on_cores_of_their_own(run_pod, runtime):
    one, two = sorted(os.sched_getaffinity(0))[:2]
    pod = run_pod(
        container("a", script=SEES, cores=1),
        container("b", script=SEES, cores=1),
        runtime=runtime,
        prefix=("taskset", "-c", f"{one},{two}"),
        env={"SLURM_CPUS_ON_NODE": "2"},
    )
    seen = {name: pod.lines(name)[0].split()[1] for name in ("a", "b")}
    assert seen == {"a": str(one), "b": str(two)}
