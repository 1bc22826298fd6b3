"""The agent as the batch script of a real Slurm job: its signals, its cgroups, its requeue."""

from __future__ import annotations

import shutil
import time

import pytest

from orlop.agent.build import build
from tests.cluster import cgroups
from tests.cluster.spec import Spec

from .pods import PYTHON, Pod, Stage, container, give

TRAP = "echo ready; trap 'echo stopping; exit 0' TERM; while :; do sleep 0.05; done"


@pytest.fixture(scope="module")
def cluster(slurm_with):
    return slurm_with(Spec(nodes=2, cgroups=True, gpus=4))


@pytest.fixture(scope="module")
def shared(cluster):
    """Pods, images and the agent in the user's home, as on a real site."""
    folder = cluster.home / "agent-test"
    folder.mkdir()
    yield Stage(folder, build(folder / "agent.pyz"))
    shutil.rmtree(folder)


@pytest.fixture
def submit(cluster, shared):
    """Submits pods as jobs, which are gone at the end of the test."""
    jobs = []

    def submit(*containers, flags=(), **options):
        pod = shared.pod(*containers, user=cluster.user, **options)
        script = pod.folder / "job.sh"
        script.write_text(f"#!/bin/sh\nexec {PYTHON} -I {shared.agent} {pod.folder}\n")
        give(pod.folder, cluster.user)
        options = ["--parsable", "--mem=200", f"--output={pod.folder}/slurm.out", *flags]
        done = cluster.run("head", ["sbatch", *options, str(script)], user=cluster.user)
        pod.job = done.stdout.strip()
        jobs.append(pod.job)
        return pod

    yield submit
    cluster.run("head", ["scancel", *jobs], user=cluster.user, check=False)
    cluster.wait_idle()


def finished(pod: Pod) -> dict:
    return pod.wait_for(lambda: (pod.records("finished") or [None])[-1], timeout=60)


@pytest.mark.parametrize("runtime", ["crun", "apptainer", "host"])
def test_a_job_runs_its_pod(submit, runtime):
    pod = submit(container(script="echo $SLURM_JOB_ID; hostname; exit 3"), runtime=runtime,
                 plan={"passEnv": ["SLURM_JOB_ID"]})  # fmt: skip
    assert finished(pod)["phase"] == "Failed"
    assert pod.lines() == [pod.job, pod.folder.name]
    assert pod.status()["exitCode"] == 3
    (started,) = pod.records("started")
    assert started["job"] == pod.job
    assert started["node"] in ("n1", "n2")
    assert started["addresses"][0].startswith("10.77.0.")


@pytest.mark.parametrize("runtime", ["crun", "apptainer", "host"])
def test_scancel_ends_the_pod_gracefully(submit, cluster, runtime):
    pod = submit(container(script=TRAP), runtime=runtime)
    pod.wait_for_line("ready")
    cluster.run("head", ["scancel", pod.job], user=cluster.user)
    assert finished(pod)["reason"] == "Terminated"
    assert "stopping" in pod.lines()
    assert pod.status()["exitCode"] == 0
    assert [record["why"] for record in pod.records("terminating")] == ["signal"]


def test_what_does_not_stop_is_killed_and_recorded_before_slurm_kills_all(submit, cluster):
    wait = float(cluster.run("head", ["scontrol", "show", "config"]).stdout
                 .split("KillWait")[1].split()[1])  # fmt: skip
    pod = submit(
        container(script="echo ready; exec sleep 300"),
        flags=[f"--export=ALL,ORLOP_KILL_WAIT={wait}"],
        spec={"terminationGracePeriodSeconds": 300},
    )
    pod.wait_for_line("ready")
    cluster.run("head", ["scancel", pod.job], user=cluster.user)
    # An agent that Slurm had killed with the rest would not have written it.
    assert finished(pod)["reason"] == "Terminated"
    assert pod.status()["signal"] == 9


@pytest.mark.parametrize("runtime", ["crun", "apptainer", "host"])
def test_a_container_over_its_memory_is_killed_alone_in_its_job(submit, cluster, runtime):
    hungry = "x=$(head -c 150m /dev/zero | tr '\\0' x); echo ${#x}"
    pod = submit(
        container("fat", script=hungry, memoryLimit=20 << 20),
        container("slim", script="sleep 2; echo alive", memoryLimit=20 << 20),
        runtime=runtime,
    )
    finished(pod)
    assert {"reason": "OOMKilled", "exitCode": 137}.items() <= pod.status("fat").items()
    assert pod.lines("slim") == ["alive"]
    # Where Slurm gives a job's user no cgroups, the agent measures, and says so.
    expected = [] if cgroups.are_the_users(cluster) else ["orlop.dev/MemoryLimited"]
    assert [record["condition"] for record in pod.records("condition")] == expected


def test_a_requeued_job_goes_on(submit, cluster):
    pod = submit(container(script=TRAP), flags=["--requeue"])
    pod.wait_for_line("ready")
    cluster.run("head", ["scontrol", "requeue", pod.job], user=cluster.user)
    pod.wait_for(lambda: "ready" in pod.lines(restart=1), timeout=60)
    assert [record["restart"] for record in pod.records("started")] == [0, 1]


def test_nothing_of_a_killed_job_goes_on(submit, cluster):
    mark = f"300.{time.time_ns() % 1_000_000}"
    pod = submit(container(script=f"setsid sleep {mark} & echo ready; exec sleep {mark}"))
    pod.wait_for_line("ready")
    cluster.run("head", ["scancel", "--signal=KILL", "--batch", pod.job], user=cluster.user)

    def left():
        found = ""
        for node in ("n1", "n2"):
            found += cluster.run(node, ["pgrep", "-f", f"sleep {mark}"], check=False).stdout
        return found

    pod.wait_for(lambda: not left(), timeout=20)


SEES = """
for file in /dev/nvidia*; do [ -c $file ] && echo ${file#/dev/}; done
ls /usr/local/nvidia/lib64 2>/dev/null
env | grep -e CUDA -e NVIDIA | sort
echo told; exec sleep 300
"""
SHARED = ["nvidia-uvm", "nvidiactl", "libcuda.so.1", "libnvidia-ml.so.1"]


def told(pod: Pod, name: str = "c") -> list[str]:
    """All that a container has said, once it has said all; several jobs may start at once."""
    return pod.wait_for(lambda: (lines := pod.lines(name)) and lines[-1] == "told" and lines, 90)


@pytest.mark.parametrize("runtime", ["crun", "apptainer", "native"])
def test_each_pod_sees_its_own_gpus_and_no_others(submit, runtime):
    """Three at the same time on one node of four GPUs, whose cgroups hide the others'."""
    pods = []
    for gpus in (1, 2, 0):
        flags = ["-wn1", *([f"--gres=gpu:{gpus}"] if gpus else [])]
        pods.append(submit(container(script=SEES, gpus=gpus), runtime=runtime, flags=flags))
    seen = [told(pod)[:-1] for pod in pods]
    own = [[line for line in lines if line not in SHARED] for lines in seen]
    devices = [line for lines in own for line in lines if line.startswith("nvidia")]
    assert len(set(devices)) == 3
    assert len(devices) == 3
    assert [line for line in own[0] if "=" in line] == ["CUDA_VISIBLE_DEVICES=0"]
    assert [line for line in own[1] if "=" in line] == ["CUDA_VISIBLE_DEVICES=0,1"]
    assert seen[2] == ["NVIDIA_VISIBLE_DEVICES=void"]
    for lines in seen[:2]:
        assert [line for line in lines if line in SHARED] == SHARED


def test_the_gpus_of_a_pod_are_dealt_to_its_containers(submit):
    pod = submit(
        container("one", script=SEES, gpus=1),
        container("two", script=SEES, gpus=2),
        container("none", script=SEES),
        flags=["-wn2", "--gres=gpu:3"],
    )
    seen = {}
    for name in ("one", "two", "none"):
        seen[name] = {line for line in told(pod, name) if line.startswith("nvidia")} - {*SHARED}
    assert [len(seen[name]) for name in ("one", "two", "none")] == [1, 2, 0]
    assert not seen["one"] & seen["two"]


@pytest.mark.parametrize("runtime", ["crun", "apptainer", "native"])
def test_what_the_node_mounts_later_is_seen_where_asked(submit, cluster, runtime):
    """Slurm's nodes mount file systems on demand; root does it here."""
    shared = f"/tmp/shared-{runtime}"
    make = f"mkdir -p {shared} && mount -t tmpfs x {shared} && mount --make-shared {shared}"
    cluster.run("n1", ["sh", "-c", f"{make} && mkdir {shared}/later"])
    waits = "echo ready; until [ -e /d/later/file ]; do sleep 0.1; done; echo seen"
    mounts = [{"volume": "v", "path": "/d", "propagates": True}]
    pod = submit(
        container(script=waits, mounts=mounts),
        runtime=runtime,
        flags=["-wn1"],
        volumes=[{"name": "v", "kind": "hostPath", "path": shared, "type": ""}],
    )
    pod.wait_for(lambda: pod.lines() == ["ready"], timeout=60)
    cluster.run("n1", ["sh", "-c", f"mount -t tmpfs y {shared}/later && touch {shared}/later/file"])
    finished(pod)
    assert pod.lines() == ["ready", "seen"]


def test_huge_pages_are_a_folder_where_the_node_has_them(submit, cluster):
    made = "mkdir -p /tmp/huge && mount -t hugetlbfs -o mode=1777 huge /tmp/huge"
    cluster.run("n2", ["sh", "-c", made])
    mounts = [{"volume": "v", "path": "/d"}]
    pod = submit(
        container(script="grep ' /d hugetlbfs' /proc/mounts | wc -l; mkdir /d/x", mounts=mounts),
        flags=["-wn2"],
        volumes=[{"name": "v", "kind": "emptyDir", "medium": "HugePages"}],
    )
    finished(pod)
    assert pod.lines() == ["1"]
    pod.wait_for(lambda: not cluster.run("n2", ["ls", "/tmp/huge"]).stdout)
