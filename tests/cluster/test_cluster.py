"""What the rest of the tests stand on: nodes that are nodes, a Slurm that is Slurm."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cluster.cluster import SlurmCluster, clear, sweep
from tests.cluster.commands import CommandFailed
from tests.cluster.fixtures import StartSlurm
from tests.cluster.process import Process, wait_until
from tests.cluster.spec import HEAD, Partition, Spec
from tests.cluster.state import State
from tools.devroot import PLAIN_USER, PROJECT, DevRoot

NODES = ["n1", "n2", "n3", "n4"]


def srun(cluster: SlurmCluster, *words: str) -> list[str]:
    return sorted(cluster.run(HEAD, ["srun", *words], user=cluster.user).stdout.split())


def test_a_job_of_four_nodes_runs_on_four_hosts(slurm: SlurmCluster) -> None:
    assert srun(slurm, "-N4", "hostname") == NODES


def test_every_node_has_an_address_of_its_own(slurm: SlurmCluster) -> None:
    addresses = {
        name: slurm.run(name, ["hostname", "-I"]).stdout.split()[0] for name in slurm.nodes
    }
    assert addresses == slurm.spec.addresses


def test_nodes_reach_each_other_by_name(slurm: SlurmCluster) -> None:
    connect = "import socket; print(socket.create_connection(('head', 6817), 5).getpeername()[0])"
    answer = slurm.run("n2", ["/usr/bin/python3", "-c", connect], user=slurm.user)
    assert answer.stdout.strip() == slurm.head_address


@pytest.mark.parametrize("folder", ["/tmp", "/dev/shm", "/run/lock", "/run/user/$(id -u)"])
def test_a_nodes_local_folders_are_its_own(slurm: SlurmCluster, folder: str) -> None:
    slurm.run("n1", ["sh", "-c", f"echo here > {folder}/seen"], user=slurm.user)
    look = ["sh", "-c", f"ls {folder}"]
    assert "seen" in slurm.run("n1", look, user=slurm.user).stdout
    assert "seen" not in slurm.run("n2", look, user=slurm.user).stdout


def test_the_home_is_shared_and_the_same_path_everywhere(slurm: SlurmCluster) -> None:
    slurm.run("n1", ["sh", "-c", "echo from n1 > ~/note"], user=slurm.user)
    (slurm.home / "reply").write_text("from outside")
    seen = srun(slurm, "-wn3", "sh", "-c", "cat ~/note $HOME/reply; echo; eval echo ~$USER")
    assert seen == [str(slurm.home), "from", "from", "n1", "outside"]


def test_a_job_without_its_submitters_environment_finds_the_same_home(slurm: SlurmCluster) -> None:
    home = "import os; print(os.path.expanduser('~'))"
    assert srun(slurm, "--export=NONE", "/usr/bin/python3", "-c", home) == [str(slurm.home)]


def test_commands_run_as_root_unless_a_user_is_named(slurm: SlurmCluster) -> None:
    assert slurm.run("n1", ["id", "-un"]).stdout.strip() == "root"
    assert slurm.run("n1", ["id", "-un"], user=slurm.user).stdout.strip() == slurm.user
    assert slurm.run("n1", ["id", "-un"], user=PLAIN_USER).stdout.strip() == PLAIN_USER


def test_the_user_has_no_capabilities(slurm: SlurmCluster) -> None:
    status = slurm.run("n1", ["grep", "CapEff", "/proc/self/status"], user=slurm.user)
    assert int(status.stdout.split()[1], 16) == 0


def test_a_command_gets_input_and_environment_and_gives_its_code(slurm: SlurmCluster) -> None:
    script = ["sh", "-c", 'cat; echo "$WORD"; exit 3']
    result = slurm.run("n1", script, env={"WORD": "a b"}, input="typed\n", check=False)
    assert (result.returncode, result.stdout) == (3, "typed\na b\n")
    with pytest.raises(CommandFailed, match="on n1 ended with 3"):
        slurm.run("n1", script)


def test_a_command_that_takes_too_long_is_ended(slurm: SlurmCluster) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        slurm.run("n1", ["sleep", "4321"], timeout=0.2)
    assert "sleep 4321" not in slurm.run("n1", ["ps", "ax"]).stdout


def test_a_signal_reaches_the_command_itself(slurm: SlurmCluster) -> None:
    trap = ["sh", "-c", "trap 'echo caught; exit 5' TERM; echo ready; while :; do sleep 0.05; done"]
    with slurm.popen("n1", trap, user=slurm.user, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        child.terminate()
        assert child.stdout.readline() == "caught\n"
    assert child.returncode == 5


def test_orphans_on_a_node_are_reaped(slurm: SlurmCluster) -> None:
    slurm.run("n1", ["sh", "-c", "(sleep 0.01 &) ; exit 0"])
    time.sleep(0.1)
    assert "<defunct>" not in slurm.run("n1", ["ps", "ax"]).stdout


def test_names_and_addresses_outside_the_cluster_fail_at_once(slurm: SlurmCluster) -> None:
    began = time.monotonic()
    for target in ("nowhere.example", "192.0.2.1"):
        connect = f"import socket; socket.create_connection(('{target}', 80), 30)"
        for node in ("head", "n1"):
            result = slurm.run(node, ["/usr/bin/python3", "-c", connect], check=False)
            assert result.returncode == 1
    assert time.monotonic() - began < 5


def test_partitions_and_features_are_those_of_the_spec(new_slurm: StartSlurm) -> None:
    partitions = (Partition("a", settings={"Default": "YES"}), Partition("b", "n2"))
    spec = Spec(nodes=2, partitions=partitions, features={"n2": "fat"}, settings={"KillWait": "2"})
    cluster = new_slurm(spec)
    table = cluster.run(HEAD, ["sinfo", "-h", "-N", "-o", "%P %N %f"]).stdout.splitlines()
    assert sorted(line.strip() for line in table) == ["a* n1 (null)", "a* n2 fat", "b n2 fat"]
    assert srun(cluster, "-Cfat", "hostname") == ["n2"]
    config = cluster.run(HEAD, ["scontrol", "show", "config"]).stdout
    assert "KillWait                = 2 sec" in config


def test_power_off_ends_what_runs_on_a_node_and_power_on_brings_it_back(
    new_slurm: StartSlurm,
) -> None:
    cluster = new_slurm(Spec(nodes=2))
    with cluster.popen("n2", ["sleep", "1000"]) as child:
        cluster.power_off("n2")
        assert child.wait(5) == -signal.SIGKILL
    with pytest.raises(RuntimeError, match=r"node n2 of .* is off"):
        cluster.run("n2", ["true"])
    cluster.power_on("n2")
    cluster.wait_idle()
    assert srun(cluster, "-N2", "hostname") == ["n1", "n2"]


def test_slurmctld_stops_and_comes_back_with_its_jobs(new_slurm: StartSlurm) -> None:
    cluster = new_slurm(Spec(nodes=1))
    job = cluster.run(
        HEAD, ["sbatch", "--parsable", "--wrap", "sleep 300"], user=cluster.user
    ).stdout.strip()
    queue = ["squeue", "-h", "-o", "%i %t"]
    wait_until(lambda: cluster.run(HEAD, queue).stdout == f"{job} R\n", "the job runs")
    cluster.stop_slurmctld()
    assert "DOWN" in cluster.run(HEAD, ["scontrol", "ping"], check=False).stdout
    cluster.start_slurmctld()
    assert cluster.run(HEAD, queue).stdout == f"{job} R\n"


def test_two_clusters_live_side_by_side(slurm: SlurmCluster, new_slurm: StartSlurm) -> None:
    other = new_slurm(Spec(nodes=2))
    assert srun(slurm, "-N4", "hostname") == NODES
    assert srun(other, "-N2", "hostname") == ["n1", "n2"]
    other.run("n1", ["touch", str(other.home / "mine")])
    assert not (slurm.home / "mine").exists()


def test_another_process_can_attach(slurm: SlurmCluster) -> None:
    assert srun(SlurmCluster.attach(slurm.root), "-N2", "hostname") == ["n1", "n2"]


def test_stop_leaves_neither_processes_nor_mounts_nor_the_folder(
    orlop_dev_root: DevRoot, namespaces_of_root: None
) -> None:
    root = orlop_dev_root.clusters / f"gone-{os.getpid()}"
    with SlurmCluster(root, Spec(nodes=1)) as cluster:
        first = [node.init for node in cluster.nodes.values()]
    assert not any(process.is_alive() for process in first)
    assert not root.exists()
    assert str(root) not in Path("/proc/self/mountinfo").read_text()


RUN_AND_HANG = """
import sys, time
from pathlib import Path
from tests.cluster import SlurmCluster, Spec
cluster = SlurmCluster(Path(sys.argv[1]), Spec(nodes=1))
cluster.start()
print("up", flush=True)
time.sleep(1000)
"""


def test_a_killed_test_run_leaves_nothing_running_and_the_next_sweeps(
    tmp_path: Path, namespaces_of_root: None
) -> None:
    root = tmp_path / "clusters" / "one"
    argv = [sys.executable, "-c", RUN_AND_HANG, str(root)]
    with subprocess.Popen(argv, cwd=PROJECT, stdout=subprocess.PIPE) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == b"up\n"
        nodes = list(State.load(root).nodes.values())
        assert [process.is_alive() for process in nodes] == [True, True]
        run.kill()
    wait_until(lambda: not any(process.is_alive() for process in nodes), "the nodes are gone", 5)
    sweep(tmp_path / "clusters")
    assert not root.exists()


def test_a_folder_that_holds_something_else_is_not_cleared(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(FileExistsError, match="something else than a cluster"):
        clear(tmp_path)
    assert (tmp_path / "thesis.tex").exists()


def test_a_process_number_used_again_is_not_taken_for_the_old_process() -> None:
    mine = Process.of(os.getpid())
    assert mine.is_alive()
    assert not Process(mine.pid, mine.start_time + 1, mine.boot).is_alive()
    assert not Process(mine.pid, mine.start_time, "another boot").is_alive()
