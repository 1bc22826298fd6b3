"""The test cluster by hand: started by one command, used and stopped by others."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from tests.cluster.process import wait_until
from tools.devroot import PROJECT, TEST_USER, DevRoot

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def command(namespaces_of_root: None, orlop_dev_root: DevRoot) -> Iterator[Command]:
    """`python -m tests.cluster`, with a cluster of two nodes up."""
    root = orlop_dev_root.clusters / f"by-hand-{os.getpid()}"

    def call(*words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "tests.cluster", "--root", str(root), *words]
        done = subprocess.run(
            argv, cwd=PROJECT, capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 0 or not check, done.stderr
        return done

    assert "up in" in call("up", "--nodes=2", "--runtimes=crun", "--set=KillWait=3").stdout
    yield call
    call("down")
    assert not root.exists()


def test_up_is_harmless_where_a_cluster_is_up(command: Command) -> None:
    assert "already up" in command("up").stdout


def test_a_command_runs_as_the_clusters_user_on_the_node_named(command: Command) -> None:
    assert command("run", "n2", "sh", "-c", "hostname; id -un").stdout == f"n2\n{TEST_USER}\n"
    assert command("run", "--user=root", "n1", "id", "-un").stdout == "root\n"


def test_a_commands_exit_code_is_passed_on(command: Command) -> None:
    assert command("run", "head", "sh", "-c", "exit 7", check=False).returncode == 7
    assert command("run", "head", "sh", "-c", "kill -9 $$", check=False).returncode == 137


def test_what_was_asked_for_at_the_start_holds(command: Command) -> None:
    assert command("run", "head", "srun", "-N2", "hostname").stdout.split()
    assert (
        "KillWait                = 3 sec"
        in command("run", "head", "scontrol", "show", "config").stdout
    )
    assert command("run", "head", "which", "apptainer", check=False).returncode == 1


def test_status_shows_nodes_and_jobs(command: Command) -> None:
    job = command("run", "head", "sbatch", "--parsable", "--hold", "--wrap=true").stdout.strip()
    shown = command("status").stdout
    assert "n[1-2]" in shown
    assert job in shown
    command("run", "head", "scancel", job)


def test_power_goes_off_and_on(command: Command) -> None:
    command("power-off", "n2")
    gone = command("run", "n2", "true", check=False)
    assert (gone.returncode, "is off" in gone.stderr) == (1, True)
    command("power-on", "n2")
    assert command("run", "n2", "hostname").stdout == "n2\n"


def test_slurmctld_stops_and_starts(command: Command) -> None:
    command("stop-slurmctld")
    assert command("run", "head", "scontrol", "ping", check=False).returncode == 1
    command("start-slurmctld")
    wait_until(lambda: "idle" in command("status").stdout, "the nodes are back", pause=0.2)


def test_a_cluster_that_is_not_there_is_a_sentence_not_a_traceback(command: Command) -> None:
    argv = [sys.executable, "-m", "tests.cluster", "--root", "/nonexistent", "status"]
    done = subprocess.run(argv, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.stderr == "tests.cluster: no cluster in /nonexistent; `up` starts one\n"
    assert done.returncode == 1
