"""The command line on a real Slurm of several hosts with one shared home."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest

from orlop.cli.home import record
from orlop.cli.home.record import Record
from orlop.settings import Paths
from tests.cluster.cluster import SlurmCluster

T = TypeVar("T")
Done = subprocess.CompletedProcess[str]

POD = """
apiVersion: v1
kind: Pod
metadata: {name: counts, annotations: {slurm.orlop.dev/time: "5"}}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  containers:
  - {name: main, image: host, command: [sh, -c, "echo counting; sleep 600"]}
"""


@dataclass
class User:
    """The cluster's user with an Orlop home of their own, on whichever host."""

    cluster: SlurmCluster
    paths: Paths

    def run(self, *argv: str, host: str = "head", text: str | None = None) -> Done:
        env = {
            "ORLOP_HOME": str(self.paths.home),
            "KUBECONFIG": str(self.paths.kubeconfig),
        }
        return self.cluster.run(
            host, list(argv), user=self.cluster.user, env=env, input=text, timeout=120, check=False
        )

    def record(self) -> Record:
        known = record.read(self.paths)
        assert known is not None
        return known

    def jobs(self) -> list[str]:
        return self.run("squeue", "-h", "-o", "%i").stdout.split()


def eventually(probe: Callable[[], T], what: str, timeout: float = 60.0) -> T:
    deadline = time.monotonic() + timeout
    while not (answer := probe()):
        assert time.monotonic() < deadline, f"not within {timeout:.0f} s: {what}"
        time.sleep(0.2)
    return answer


@pytest.fixture
def user(
    slurm: SlurmCluster, installed_orlop: Path, request: pytest.FixtureRequest
) -> Iterator[User]:
    paths = Paths(slurm.home / f"cli-{abs(hash(request.node.name))}")
    someone = User(slurm, paths)
    yield someone
    someone.run("orlop", "down", "--purge", "--yes")
    eventually(lambda: not someone.jobs(), "its jobs have ended")


def test_up_finds_slurm_its_partitions_and_the_runtimes(user):
    version = user.run("sinfo", "--version").stdout.split()[-1]
    said = user.run("orlop", "up")
    assert said.returncode == 0, said.stderr
    assert f"Slurm {version}\n" in said.stdout
    assert "main* (4 hosts, 32 CPUs" in said.stdout
    assert "crun" in said.stdout
    status = json.loads(user.run("orlop", "status", "-o", "json").stdout)
    assert status["engine"]["version"] == f"Slurm {version}"


def test_the_doctor_finds_a_new_site_healthy_and_leaves_it_as_it_is(user):
    said = user.run("orlop", "doctor")
    assert said.returncode == 0, said.stdout + said.stderr
    assert "partition        main*" in said.stdout
    assert not user.paths.home.exists()


def test_one_home_has_one_control_plane_whichever_host_is_asked(user):
    user.run("orlop", "up")
    first = user.record()
    again = user.run("orlop", "up", host="n2")
    assert again.returncode == 0
    assert "already up on head" in again.stdout
    refused = user.run("orlop", "up", "--foreground", host="n2")
    assert refused.returncode == 1
    assert "head" in refused.stderr
    assert user.record() == first
    there = user.run("orlop", "down", host="n2")
    assert there.returncode == 1
    assert "ssh head orlop down" in there.stderr


def test_the_kubeconfig_works_from_every_host(user):
    user.run("orlop", "up")
    for host in ("head", "n1", "n4"):
        assert user.run("kubectl", "get", "nodes", host=host).returncode == 0


def test_the_plugin_shows_jobs_scripts_and_use(user):
    user.run("orlop", "up")
    assert user.run("kubectl", "apply", "-f", "-", text=POD).returncode == 0
    eventually(lambda: "Running" in user.run("kubectl", "slurm", "queue").stdout, "it runs")
    (job,) = user.jobs()
    assert job in user.run("kubectl", "slurm", "queue").stdout
    assert "#SBATCH --time=5" in user.run("kubectl", "slurm", "script", "counts").stdout
    assert f"job {job}" in user.run("kubectl", "slurm", "why", "counts").stdout
    header, row = user.run("kubectl", "slurm", "usage", "counts").stdout.splitlines()
    used = dict(zip(header.split(), row.split(), strict=True))
    assert (used["POD"], used["JOB"], used["STATE"]) == ("counts", job, "RUNNING")


@pytest.mark.timeout(200)
def test_the_control_plane_as_a_job_survives_its_requeue(user):
    said = user.run("orlop", "up", "--in-job", "--flags", "--nodelist=n1")
    assert said.returncode == 0, said.stderr
    assert "ssh -N -L" in said.stdout
    before = user.record()
    assert (before.host, user.jobs()) == ("n1", [before.job])
    user.run("scontrol", "update", f"jobid={before.job}", "nodelist=")
    assert user.run("scontrol", "requeue", before.job).returncode == 0
    eventually(lambda: user.record().started > before.started, "it is up again", 150)
    eventually(lambda: user.run("kubectl", "get", "ns").returncode == 0, "it answers")
    assert user.record().job == before.job
    assert user.run("orlop", "down").returncode == 0
    eventually(lambda: not user.jobs(), "its job has ended")


def test_a_control_plane_that_waits_is_submitted_once_and_taken_out_by_down(user):
    hold = ("--in-job", "--flags", "--hold")
    for _ in range(2):  # the user loses patience, and tries again
        user.run("timeout", "--signal=INT", "4", "orlop", "up", *hold)
    assert len(user.jobs()) == 1
    said = user.run("orlop", "down")
    assert "out of the queue" in said.stdout, said.stderr
    eventually(lambda: not user.jobs(), "its job has left the queue")
    assert "not running" in user.run("orlop", "down").stdout


def test_a_job_that_slurm_refuses_is_an_error_with_slurms_words(user):
    said = user.run("orlop", "up", "--in-job", "--flags", "--partition=nosuch")
    assert said.returncode == 1
    assert "invalid partition" in said.stderr
    assert user.jobs() == []


def test_a_control_plane_that_fails_in_its_job_is_told_with_its_log(user):
    user.run("mkdir", "-p", "-m", "700", str(user.paths.home))
    user.run("touch", str(user.paths.pki))
    said = user.run("orlop", "up", "--in-job")
    assert said.returncode == 1
    assert "ended before it was up" in said.stderr
    assert str(user.paths.log_file) in said.stderr
    user.run("rm", str(user.paths.pki))
    user.run("tee", str(user.paths.cluster_uid), text="uid\n")
