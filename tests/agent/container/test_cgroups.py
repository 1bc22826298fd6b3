"""Limits of containers: found in files like the kernel's, and kept by the kernel itself."""

from __future__ import annotations

import contextlib
import os
import pwd
import time
from pathlib import Path

import pytest

from orlop.agent.container import cgroups as module
from orlop.agent.container.cgroups import Cgroups

from ..pods import IS_ROOT, container

MEMORY_V1 = Path("/sys/fs/cgroup/memory")


class Tree:
    """Files as /proc and a cgroup mount show them, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mount = folder / "cgroup"

    def v1(self, path="/slurm/job_1/step_batch", root="/"):
        for controller in ("memory", "cpu"):
            (self.mount / controller / path[1:]).mkdir(parents=True)
        lines = [f"30 25 0:1 {root} {self.mount}/{c} rw - cgroup cgroup rw,{c}" for c in
                 ("memory", "cpu", "freezer")]  # fmt: skip
        own = [f"4:memory:{path}", f"3:cpu,cpuacct:{path}", f"2:freezer:{path}", "0::/"]
        return self.find(own, lines)

    def v2(self, path="/slurm/job_1/user"):
        (self.mount / path[1:]).mkdir(parents=True)
        return self.find([f"0::{path}"], [f"30 25 0:1 / {self.mount} rw - cgroup2 cgroup2 rw"])

    def find(self, own, mounts):
        (self.folder / "own").write_text("\n".join(own) + "\n")
        (self.folder / "mountinfo").write_text("\n".join(mounts) + "\n")
        return Cgroups(str(self.folder / "own"), str(self.folder / "mountinfo"))


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path)


def test_version_1_gets_a_cgroup_for_each_controller(tree):
    group = tree.v1().create("c-0", 50 << 20, 1500)
    memory, cpu = (Path(folder) for folder in group.folders)
    assert memory == tree.mount / "memory/slurm/job_1/step_batch/orlop-c-0"
    assert (memory / "memory.limit_in_bytes").read_text() == str(50 << 20)
    assert (cpu / "cpu.cfs_quota_us").read_text() == "150000"
    assert group.procs == [f"{memory}/cgroup.procs", f"{cpu}/cgroup.procs"]


@pytest.mark.parametrize(
    ("path", "peak"),
    [("/slurm/job_1/step_batch", 5 << 20), ("/system.slice/slurmd.service", 0), ("/", 0)],
    ids=["the job's", "slurmd's", "the machine's"],
)
def test_the_most_memory_is_that_of_the_job_and_not_of_all_that_runs_there(tree, path, peak):
    cgroups = tree.v1(path)
    counted = tree.mount / "memory" / path[1:] / "memory.max_usage_in_bytes"
    counted.write_text(f"{5 << 20}\n")
    assert cgroups.peak() == peak


def test_version_2_moves_the_agent_to_a_leaf_and_limits_beside_it(tree):
    cgroups = tree.v2()
    own = tree.mount / "slurm/job_1/user"
    assert (own / "orlop-agent/cgroup.procs").read_text() == "0"
    assert (own / "cgroup.subtree_control").read_text() == "+memory +cpu"
    (folder,) = cgroups.create("c-0", 50 << 20, 1500).folders
    assert Path(folder, "memory.max").read_text() == str(50 << 20)
    assert Path(folder, "memory.oom.group").read_text() == "1"
    assert Path(folder, "cpu.max").read_text() == "150000 100000"


def test_limits_of_a_pod_are_around_those_of_its_containers(tree):
    cgroups = tree.v1()
    cgroups.limit_pod(100 << 20, 2000)
    pod = tree.mount / "memory/slurm/job_1/step_batch/orlop-pod"
    assert (pod / "memory.limit_in_bytes").read_text() == str(100 << 20)
    memory, cpu = (Path(folder) for folder in cgroups.create("c-0", 0, 0).folders)
    assert memory == pod / "orlop-c-0"
    assert cpu == tree.mount / "cpu/slurm/job_1/step_batch/orlop-pod/orlop-c-0"
    assert not (memory / "memory.limit_in_bytes").exists()


def test_a_pods_memory_alone_leaves_its_cpu_free(tree):
    cgroups = tree.v1()
    cgroups.limit_pod(100 << 20, 0)
    (memory,) = cgroups.create("c-0", 0, 0).folders
    assert memory.endswith("orlop-pod/orlop-c-0")


def test_version_2_passes_controllers_on_below_the_pod(tree):
    cgroups = tree.v2()
    cgroups.limit_pod(100 << 20, 500)
    pod = tree.mount / "slurm/job_1/user/orlop-pod"
    assert (pod / "memory.max").read_text() == str(100 << 20)
    assert (pod / "cpu.max").read_text() == "50000 100000"
    assert (pod / "cgroup.subtree_control").read_text() == "+memory +cpu"
    (folder,) = cgroups.create("c-0", 50 << 20, 0).folders
    assert folder == str(pod / "orlop-c-0")
    assert (pod / "orlop-c-0/memory.max").read_text() == str(50 << 20)


def test_a_pod_without_limits_has_no_cgroup(tree):
    cgroups = tree.v1()
    cgroups.limit_pod(0, 0)
    assert cgroups.create("c-0", 0, 0).folders == []


def test_a_cgroup_namespace_is_seen_from_inside(tree):
    cgroups = tree.v1(root="/slurm")
    assert not cgroups.limits_memory, "our part of it is elsewhere in this mount"
    (tree.mount / "memory/job_1/step_batch").mkdir(parents=True)
    again = tree.find(
        ["4:memory:/slurm/job_1/step_batch"],
        [f"30 25 0:1 /slurm {tree.mount}/memory rw - cgroup cgroup rw,memory"],
    )
    assert again.limits_memory


@pytest.mark.parametrize("limit", [1 << 30, 0])
def test_where_no_cgroup_can_be_made_it_says_what_still_holds(tree, limit):
    lines = [f"30 25 0:1 / {tree.mount}/memory rw - cgroup cgroup rw,memory"]
    job = tree.mount / "memory/job"
    job.mkdir(parents=True)
    if limit:
        (job / "memory.limit_in_bytes").write_text(f"{limit}\n")
    cgroups = tree.find(["4:memory:/job/step"], lines)
    assert not cgroups.limits_memory
    assert ("whole job (1024 MiB)" in cgroups.memory_problem) == bool(limit)
    assert cgroups.create("c-0", 1 << 20, 0).folders == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [("oom_kill_disable 0\nunder_oom 0\noom_kill 1\n", True), ("oom_kill 0\n", False), ("", False)],
)
def test_an_oom_kill_is_read_from_the_counter(tree, text, expected):
    group = tree.v1().create("c-0", 1 << 20, 0)
    Path(group.events).write_text(text)
    assert group.has_oom_kill(9) is expected


def test_a_kill_in_the_jobs_own_cgroup_is_blamed_on_one_container(tree, monkeypatch):
    monkeypatch.setattr(module, "_writable", lambda folder: "")  # as Slurm has it on version 2
    cgroups = tree.v2()
    first, second = (cgroups.create(name, 1 << 20, 0) for name in ("a-0", "b-0"))
    assert not first.has_oom_kill(9)
    (tree.mount / "slurm/job_1/user/memory.events").write_text("oom 1\noom_kill 1\n")
    assert not first.has_oom_kill(15), "the kernel kills by SIGKILL"
    assert second.has_oom_kill(9)
    assert not first.has_oom_kill(9)


@pytest.mark.parametrize("path", ["/system.slice/slurmd.service", "/"])
def test_a_kill_in_a_cgroup_that_others_share_is_not_blamed_on_ours(tree, monkeypatch, path):
    monkeypatch.setattr(module, "_writable", lambda folder: "")
    group = tree.v2(path).create("a-0", 1 << 20, 0)
    (tree.mount / path[1:] / "memory.events").write_text("oom 1\noom_kill 1\n")
    assert not group.has_oom_kill(9)


def test_without_any_cgroup_no_file_of_the_working_directory_is_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    group = Cgroups(str(tmp_path / "none"), str(tmp_path / "none")).create("a-0", 1 << 20, 0)
    (tmp_path / "memory.events").write_text("oom 1\noom_kill 1\n")
    assert not group.has_oom_kill(9)


@pytest.mark.parametrize(("memory", "cpu"), [(1 << 20, 500), (1 << 20, 0), (0, 500), (0, 0)])
def test_where_only_cpus_are_ours_to_limit_the_jobs_kills_count(tree, monkeypatch, memory, cpu):
    monkeypatch.setattr(module, "_writable", lambda folder: folder if "/cpu/" in folder else "")
    group = tree.v1().create("a-0", memory, cpu)
    events = tree.mount / "memory/slurm/job_1/step_batch/memory.oom_control"
    events.write_text("oom_kill 1\n")
    assert len(group.folders) == bool(cpu)
    assert group.has_oom_kill(9)


def test_what_is_not_limited_for_each_container_is_said(tree, monkeypatch):
    monkeypatch.setattr(module, "_writable", lambda folder: "")
    cgroups = tree.v2()
    assert "kills a container that is over its limit" in cgroups.memory_problem
    assert "share the CPUs" in cgroups.cpu_problem
    monkeypatch.undo()
    assert (tree.v2("/ours").memory_problem, tree.v2("/also").cpu_problem) == ("", "")


def test_no_cgroups_at_all_is_no_failure(tmp_path):
    cgroups = Cgroups(str(tmp_path / "none"), str(tmp_path / "none"))
    assert "not limited" in cgroups.memory_problem


@pytest.fixture
def step():
    """A memory cgroup like that of a Slurm step: it belongs to the job's user."""
    if not (IS_ROOT and (MEMORY_V1 / "cgroup.procs").exists()):
        pytest.skip("needs root, and a machine with the memory controller of cgroup version 1")
    folder = MEMORY_V1 / f"orlop-agent-test-{os.getpid()}"
    folder.mkdir()
    (folder / "memory.limit_in_bytes").write_text(str(512 << 20))
    for path in (folder, folder / "cgroup.procs"):
        os.chown(path, pwd.getpwnam("orlop-test").pw_uid, -1)
    yield folder
    for _ in range(100):
        with contextlib.suppress(OSError):
            for left in folder.glob("orlop-*"):
                left.rmdir()
            folder.rmdir()
            return
        time.sleep(0.05)


HUNGRY = "x=$(head -c {}m /dev/zero | tr '\\0' x); echo ${{#x}}"


def test_containers_share_what_their_pod_may_have(step, make_pod, runtime):
    pod = make_pod(
        container("fat", script=HUNGRY.format(200)),
        container("slim", script="sleep 2; echo alive"),
        runtime=runtime,
        spec={"memoryLimit": 40 << 20},
        cgroups=(step,),
    ).run()
    assert {"reason": "OOMKilled", "exitCode": 137}.items() <= pod.status("fat").items()
    assert pod.lines("slim") == ["alive"]
    assert not list(step.glob("orlop-*"))


def test_a_container_over_its_memory_is_killed_alone(step, make_pod, runtime):
    pod = make_pod(
        container("fat", script=HUNGRY.format(200), memoryLimit=30 << 20),
        container("slim", script="sleep 2; echo alive", memoryLimit=30 << 20),
        runtime=runtime,
        cgroups=(step,),
    ).run()
    assert {"reason": "OOMKilled", "exitCode": 137}.items() <= pod.status("fat").items()
    assert pod.lines("slim") == ["alive"]
    assert pod.status("slim")["exitCode"] == 0
    assert pod.records("condition") == []
    assert list(step.glob("orlop-*")) == []


def test_an_oom_killed_container_is_restarted_by_policy(step, make_pod):
    pod = make_pod(
        container(script=HUNGRY.format(200), memoryLimit=30 << 20),
        cgroups=(step,),
        spec={"restartPolicy": "OnFailure"},
    ).start()
    pod.wait_for(lambda: len(pod.records_of("terminated")) == 2)
    assert {record["reason"] for record in pod.records_of("terminated")} == {"OOMKilled"}


def test_a_container_within_its_memory_is_left_alone(step, make_pod):
    pod = make_pod(container(script=HUNGRY.format(5), memoryLimit=100 << 20), cgroups=(step,)).run()
    assert pod.code == 0


def test_without_a_cgroup_of_ours_a_condition_says_so(run_pod):
    pod = run_pod(container(memoryLimit=30 << 20))
    (condition,) = pod.records("condition")
    assert (condition["condition"], condition["status"]) == ("orlop.dev/MemoryLimited", "False")
    assert "memory is" in condition["message"]


def test_without_a_cgroup_of_ours_a_limit_of_cpus_is_told(run_pod):
    (condition,) = run_pod(container(cpuLimit=500)).records("condition")
    assert (condition["condition"], condition["status"]) == ("orlop.dev/CPULimited", "False")


def test_without_limits_nothing_is_said(run_pod):
    assert run_pod(container()).records("condition") == []
