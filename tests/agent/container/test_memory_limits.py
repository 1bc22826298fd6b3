"""Memory limits where no cgroup keeps them: measured, and whoever is over is killed alone."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

from orlop.agent.container import memory_limits
from orlop.agent.container.memory_limits import Watch, limits_of, proportional
from orlop.agent.container.stats import PAGE, Process

from ..pods import RUNTIMES, container

MIB = 1 << 20
HOLD = "x=$(head -c 60m /dev/zero | tr '\\0' x); echo ${{#x}}; {}"


def plan(pod=0, ranks=None, **limits):
    containers = [
        SimpleNamespace(name=name, memory_limit=mib * MIB) for name, mib in limits.items()
    ]
    whole = SimpleNamespace(memory_limit=pod * MIB)
    return SimpleNamespace(pod=whole, containers=containers, ranks=ranks)


class Processes:
    """A /proc with one process of each container: what it has, and what it seems to have."""

    def __init__(self, folder, seems=None, **used):
        self.proc = str(folder)
        self._runs = []
        for pid, (name, mib) in enumerate(used.items(), start=100):
            (folder / str(pid)).mkdir()
            rollup = f"Rss: 1 kB\nPss: {(mib + 7) << 10} kB\nPss_File: {7 << 10} kB\n"
            (folder / str(pid) / "smaps_rollup").write_text(rollup)
            resident = (seems or used)[name] * MIB // PAGE
            run = SimpleNamespace(name=name, has_ended=False)
            self._runs.append((run, {pid: Process(1, 0, resident, 0)}))

    def members(self):
        return self._runs


@pytest.mark.parametrize(
    ("limits", "used", "expected"),
    [
        ({"a": 10}, {"a": 11, "b": 99}, ["a"]),
        ({"a": 10}, {"a": 9, "b": 99}, []),
        ({"a": 10, "b": 10}, {"a": 11, "b": 12}, ["a", "b"]),
        ({"pod": 20}, {"a": 9, "b": 12}, ["b"]),
        ({"pod": 20, "a": 5}, {"a": 9, "b": 12}, ["a"]),
        ({"pod": 20}, {"a": 9, "b": 9}, []),
    ],
    ids=["over its own", "another's does not matter", "both", "the pod's: the largest", "own first",
         "within the pod's"],
)  # fmt: skip
def test_who_is_over_is_found(tmp_path, limits, used, expected):
    watch = Watch(plan(**limits), Processes(tmp_path, **used), lambda _: None)
    assert [run.name for run, _ in watch.excess()] == expected


def test_pages_that_processes_share_do_not_count_for_each(tmp_path):
    processes = Processes(tmp_path, seems={"a": 40}, a=9)
    assert Watch(plan(a=10), processes, lambda _: None).excess() == []


def test_ranks_are_slurms_to_limit():
    assert limits_of(plan(ranks={"container": "a"}, a=10, b=20)) == {"b": 20 * MIB}


@pytest.mark.parametrize(
    ("files", "mib"),
    [
        ({"smaps_rollup": "Pss: 9216 kB\nPss_File: 2048 kB\nAnonymous: 1024 kB\n"}, 7),
        ({"smaps_rollup": "Pss: 9216 kB\nAnonymous: 5120 kB\n"}, 5),
        ({"smaps_rollup": "Pss: 4096 kB\nAnonymous: 5120 kB\n"}, 4),
        ({"statm": f"9999 {8 * MIB // PAGE} {2 * MIB // PAGE} 1 0 1 0\n"}, 6),
        ({"smaps_rollup": "", "statm": f"9999 {8 * MIB // PAGE} 0 1 0 1 0\n"}, 8),
    ],
    ids=["now", "before Linux 5.3", "before it, shared since a fork", "closed to us", "empty"],
)
def test_every_kernel_tells_what_a_process_has_in_no_file(tmp_path, files, mib):
    (tmp_path / "1").mkdir()
    for name, text in files.items():
        (tmp_path / "1" / name).write_text(text)
    assert proportional(str(tmp_path), 1) == mib * MIB


def test_a_process_that_is_gone_has_nothing(tmp_path):
    assert proportional(str(tmp_path), 1) == 0


def test_our_own_memory_is_what_the_kernel_says():
    held = bytearray(os.urandom(MIB)) * 30
    assert proportional("/proc", os.getpid()) >= len(held)


def test_who_has_ended_by_itself_was_not_killed():
    run = SimpleNamespace(has_ended=True, was_over_memory=False)
    memory_limits.end(run, {os.getpid()})
    assert not run.was_over_memory


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_without_cgroups_a_container_over_its_memory_is_killed_alone(run_pod, runtime):
    pod = run_pod(
        container("fat", script=HOLD.format("exec sleep 60"), memoryLimit=30 * MIB),
        container("slim", script="sleep 2",
                  memoryLimit=30 * MIB),
        runtime=runtime,
    )  # fmt: skip
    assert {"reason": "OOMKilled", "exitCode": 137}.items() <= pod.status("fat").items()
    assert pod.status("slim")["exitCode"] == 0


def test_without_cgroups_a_container_within_its_memory_is_left_alone(run_pod):
    pod = run_pod(container(script=HOLD.format("sleep 1"), memoryLimit=200 * MIB))
    assert pod.status()["exitCode"] == 0
