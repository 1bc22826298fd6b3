"""The whole of Slurm as one ordinary user: it runs jobs, and leaves nothing behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys

import pytest

from tests.cluster.process import Process, wait_until
from tests.cluster.rootless import RootlessSlurm, free_ports, sweep_rootless
from tests.cluster.spec import HEAD
from tools.devroot import PROJECT, DevRoot


def test_srun_runs_on_both_nodes(rootless_slurm: RootlessSlurm) -> None:
    command = ["srun", "-N2", "sh", "-c", "echo $SLURMD_NODENAME"]
    assert sorted(rootless_slurm.run(HEAD, command).stdout.split()) == ["n1", "n2"]


def test_every_daemon_runs_as_the_user(rootless_slurm: RootlessSlurm) -> None:
    listed = rootless_slurm.run(HEAD, ["ps", "-o", "user:32=,comm=", "-u", rootless_slurm.user])
    lines = [line.split() for line in listed.stdout.splitlines()]
    commands = [command for user, command in lines if user == rootless_slurm.user]
    assert {"munged", "slurmctld", "slurmd"} <= set(commands)


def test_jobs_find_the_clusters_own_home(rootless_slurm: RootlessSlurm) -> None:
    command = ["srun", "sh", "-c", "echo $HOME; touch ~/was-here"]
    assert rootless_slurm.run("n1", command).stdout.strip() == str(rootless_slurm.home)
    assert (rootless_slurm.home / "was-here").exists()


def test_no_other_user_and_no_other_node_can_be_asked_for(rootless_slurm: RootlessSlurm) -> None:
    for node, user in (("n1", "root"), ("n9", None)):
        with pytest.raises(LookupError, match="alone"):
            rootless_slurm.run(node, ["true"], user=user)


def test_slurmctld_stops_and_starts(rootless_slurm: RootlessSlurm) -> None:
    rootless_slurm.stop_slurmctld()
    assert not rootless_slurm.slurmctld_answers()
    rootless_slurm.start_slurmctld()
    assert rootless_slurm.run(HEAD, ["srun", "true"]).returncode == 0


def test_two_live_side_by_side_and_stop_ends_jobs_too(
    rootless_slurm: RootlessSlurm, orlop_dev_root: DevRoot
) -> None:
    root = orlop_dev_root.clusters / f"rootless-{os.getpid()}-other"
    with RootlessSlurm(root, nodes=1) as other:
        command = ["srun", "--quiet", "sh", "-c", "echo $$; exec sleep 1000"]
        srun = other.popen(HEAD, command, stdout=subprocess.PIPE, text=True)
        job = Process.of(int(srun.stdout.readline() if srun.stdout else 0))
        assert rootless_slurm.run(HEAD, ["squeue", "--noheader"]).stdout == ""
    srun.communicate()
    wait_until(lambda: not job.is_alive(), "the job is gone", timeout=10)
    assert not root.exists()


RUN_AND_HANG = """
import sys, time
from pathlib import Path
from tests.cluster import RootlessSlurm
cluster = RootlessSlurm(Path(sys.argv[1]), nodes=1)
cluster.start()
cluster.run("head", ["sbatch", "--wrap", "sleep 1000"])
print("up", flush=True)
time.sleep(1000)
"""


def test_what_a_killed_test_run_left_is_swept(
    rootless_slurm: RootlessSlurm, orlop_dev_root: DevRoot
) -> None:
    folder = orlop_dev_root.clusters / f"sweep-{os.getpid()}"
    root = folder / "one"
    argv = [sys.executable, "-c", RUN_AND_HANG, str(root)]
    with subprocess.Popen(argv, cwd=PROJECT, stdout=subprocess.PIPE) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == b"up\n"
        sweep_rootless(folder)
        assert root.exists(), "its run is still alive"
        run.send_signal(signal.SIGKILL)
    sweep_rootless(folder)
    assert not root.exists()
    assert not list(RootlessSlurm(root)._processes())
    shutil.rmtree(folder)


def test_free_ports_are_all_different() -> None:
    assert len(set(free_ports(20))) == 20
