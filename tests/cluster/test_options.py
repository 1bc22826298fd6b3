"""What a spec can ask for beyond plain Slurm: accounting, REST, limits, GPUs, quick failure."""

from __future__ import annotations

import json
import subprocess
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.cluster import cgroups, rest
from tests.cluster.cluster import SlurmCluster
from tests.cluster.commands import CommandFailed
from tests.cluster.fixtures import StartSlurm
from tests.cluster.process import wait_until
from tests.cluster.slurm_conf import slurm_conf
from tests.cluster.spec import HEAD, QUICK_TO_FAIL, Partition, Spec

ACCOUNTING = Spec(nodes=2, accounting=True, rest=True)
LIMITS = Spec(nodes=2, cgroups=True, gpus=4)


def submit(cluster: SlurmCluster, *words: str) -> str:
    answer = cluster.run(HEAD, ["sbatch", "--parsable", *words], user=cluster.user)
    return answer.stdout.strip()


def job_state(cluster: SlurmCluster, job: str) -> str:
    show = ["squeue", "--noheader", "--states=all", f"--jobs={job}", "--format=%T"]
    return cluster.run(HEAD, show, check=False).stdout.strip()


def wait_for_state(cluster: SlurmCluster, job: str, *states: str, timeout: float = 60) -> None:
    wait_until(lambda: job_state(cluster, job) in states, f"job {job} is {states}", timeout, 0.1)


def test_sacct_knows_ended_jobs_and_their_account(slurm_with: StartSlurm) -> None:
    cluster = slurm_with(ACCOUNTING)
    cluster.run(HEAD, ["srun", "--job-name=counted", "true"], user=cluster.user)
    ask = ["sacct", "-X", "--parsable2", "--noheader", "--name=counted", "--format=state,account"]

    def answer() -> str:
        return cluster.run(HEAD, ask, user=cluster.user).stdout.strip()

    wait_until(lambda: answer() == "COMPLETED|research", "sacct has the job", 20, 0.1)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--account=nosuch"], "Invalid account"),
        (["--qos=nosuch"], "Invalid qos"),
        (["--partition=nosuch"], "invalid partition"),
    ],
)
def test_a_wrong_account_qos_or_partition_is_refused(
    slurm_with: StartSlurm, words: list[str], said: str
) -> None:
    with pytest.raises(CommandFailed, match=said):
        submit(slurm_with(ACCOUNTING), *words, "--wrap=true")


def test_accounting_is_prepared_for_both_accounts_and_all_qos(slurm_with: StartSlurm) -> None:
    for words in (["--account=teaching"], ["--qos=high"], ["--qos=low"]):
        assert submit(slurm_with(ACCOUNTING), *words, "--wrap=true").isdigit()


def test_slurmrestd_answers_on_its_unix_socket(slurm_with: StartSlurm) -> None:
    cluster = slurm_with(ACCOUNTING)
    ask = ["curl", "-s", "--unix-socket", str(cluster.rest_socket)]
    url = f"http://localhost/slurm/{rest.version()}/ping"
    assert is_up(cluster.run(HEAD, [*ask, url], user=cluster.user).stdout)


def test_slurmrestd_takes_tokens_on_tcp(slurm_with: StartSlurm) -> None:
    cluster = slurm_with(ACCOUNTING)
    script = f"""
        token=$(scontrol token | cut -d= -f2)
        curl -s -H "X-SLURM-USER-NAME: $USER" -H "X-SLURM-USER-TOKEN: $token" \
            http://head:6820/slurm/{rest.version()}/ping
    """
    assert is_up(cluster.run("n1", ["sh", "-c", script], user=cluster.user).stdout)


def is_up(answer: str) -> bool:
    """What slurmctld answered to a ping: `ping` until Slurm 23, `pinged` since."""
    ping = json.loads(answer)["pings"][0]
    return bool(ping.get("pinged", ping.get("ping")) == "UP")


@pytest.mark.parametrize(
    ("plugins", "version", "openapi"),
    [
        (
            ["openapi_v0_0_37.so", "openapi_v0_0_38.so", "openapi_dbv0_0_38.so"],
            "v0.0.38",
            ["openapi/v0.0.38", "openapi/v0.0.38,openapi/dbv0.0.38"],
        ),
        (
            ["data_parser_v0_0_9.so", "data_parser_v0_0_42.so", "openapi_slurmctld.so"],
            "v0.0.42",
            ["openapi/slurmctld", "openapi/slurmctld,openapi/slurmdbd"],
        ),
    ],
    ids=["Slurm 22.05", "Slurm 24.11"],
)
def test_slurmrestd_is_asked_for_the_newest_version_it_has(
    plugins: list[str], version: str, openapi: list[str]
) -> None:
    assert rest.version(plugins) == version
    assert [rest.openapi(accounting, plugins) for accounting in (False, True)] == openapi


def test_a_job_over_its_memory_is_out_of_memory(slurm_with: StartSlurm) -> None:
    cluster = slurm_with(LIMITS)
    job = submit(cluster, "--mem=50M", "--wrap", "python3 -c 'bytearray(200 << 20)'")
    wait_for_state(cluster, job, "OUT_OF_MEMORY", timeout=20)


def test_what_leaves_its_session_still_ends_with_its_job(slurm_with: StartSlurm) -> None:
    cluster = slurm_with(LIMITS)
    escape = "setsid sleep 7654 >/dev/null 2>&1 & sleep 0.2"
    cluster.run(HEAD, ["srun", "-wn1", "sh", "-c", escape], user=cluster.user)
    wait_until(lambda: "sleep 7654" not in cluster.run("n1", ["ps", "ax"]).stdout, "it is gone", 10)


def test_gpus_are_counted_and_given_to_jobs(slurm_with: StartSlurm) -> None:
    cluster = slurm_with(Spec(nodes=2, gpus=4))
    inner = "echo $CUDA_VISIBLE_DEVICES; sleep 0.3"
    command = ["srun", "-wn1", "--gres=gpu:2", "sh", "-c", inner]
    children = [
        cluster.popen(HEAD, command, user=cluster.user, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    assert sorted(child.communicate()[0].strip() for child in children) == ["0,1", "2,3"]
    with pytest.raises(CommandFailed, match="configuration is not available"):
        cluster.run(HEAD, ["srun", "--gres=gpu:5", "true"], user=cluster.user)


def test_a_job_sees_only_its_own_gpus(slurm_with: StartSlurm) -> None:
    cluster = slurm_with(LIMITS)
    opened = "cat /dev/nvidia0; cat /dev/nvidia1; true"
    words = ["srun", "-wn2", "--gres=gpu:1", "sh", "-c", opened]
    first, second = cluster.run(HEAD, words, user=cluster.user).stderr.splitlines()
    # The fake devices have no driver behind them: the kernel tries the first and finds none.
    assert first.endswith("No such device or address")
    assert second.endswith("Operation not permitted")


def test_a_cluster_with_cgroups_leaves_none(new_slurm: StartSlurm) -> None:
    cluster = new_slurm(Spec(nodes=1, cgroups=True))
    cluster.run(HEAD, ["srun", "true"], user=cluster.user)
    groups = [
        hierarchy.mount / cgroups.name_of(cluster.root) for hierarchy in cgroups.hierarchies()
    ]
    assert all(group.exists() for group in groups)
    cluster.stop()
    assert not any(group.exists() for group in groups)


def test_a_power_cut_is_node_fail_and_the_node_comes_back(new_slurm: StartSlurm) -> None:
    cluster = new_slurm(Spec(nodes=2, settings=QUICK_TO_FAIL))
    lost = submit(cluster, "-wn2", "--no-requeue", "--wrap", "sleep 600")
    moved = submit(cluster, "-wn2", "--requeue", "--wrap", "sleep 600")
    for job in (lost, moved):
        wait_for_state(cluster, job, "RUNNING")
    cluster.power_off("n2")
    wait_for_state(cluster, lost, "NODE_FAIL", timeout=40)
    wait_for_state(cluster, moved, "PENDING", timeout=40)
    assert cluster.node_states() == {"n1": "idle", "n2": "down*"}
    cluster.power_on("n2")
    wait_until(lambda: cluster.node_states()["n2"] in ("idle", "mixed"), "n2 is back")


def test_a_jobs_time_limit_can_be_made_to_pass_now(slurm: SlurmCluster) -> None:
    job = submit(slurm, "--time=5", "--wrap", "sleep 600")
    wait_for_state(slurm, job, "RUNNING")
    times = ["squeue", "--noheader", f"--jobs={job}", "--format=%S %e"]
    start, end = (datetime.fromisoformat(t) for t in slurm.run(HEAD, times).stdout.split())
    assert end - start == timedelta(minutes=5)
    slurm.expire(job)
    start, end = (datetime.fromisoformat(t) for t in slurm.run(HEAD, times).stdout.split())
    assert end - start < timedelta(minutes=1)
    slurm.run(HEAD, ["scancel", job])


def test_settings_replace_ours_and_add_to_them() -> None:
    spec = Spec(
        nodes=1,
        partitions=(Partition("p", settings={"OverTimeLimit": "2"}),),
        settings={"MinJobAge": "2", "KillWait": "1"},
    )
    lines = slurm_conf(Path("/some/root"), spec).splitlines()
    assert "MinJobAge=2" in lines
    assert [line for line in lines if line.startswith("KillWait")] == ["KillWait=1"]
    assert "PartitionName=p Nodes=ALL State=UP OverTimeLimit=2" in lines


def test_a_spec_survives_the_way_to_its_file_and_back() -> None:
    for spec in (Spec(), ACCOUNTING, LIMITS, Spec(runtimes=(), settings=QUICK_TO_FAIL)):
        assert Spec.from_json(json.loads(json.dumps(spec.to_json()))) == spec
