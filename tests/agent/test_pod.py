"""Lives of whole pods, by the real agent with crun: restarts, ends, requeues, what it leaves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from .pods import IS_ROOT, container, files


def processes_of(pod):
    """Processes on this machine that belong to a pod: they carry its name as their hostname."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                environ = (entry / "environ").read_bytes()
            except OSError:
                continue
            if f"HOSTNAME={pod.folder.name}".encode() in environ:
                found.append(int(entry.name))
    return found


def scratch_of(pod):
    return list(Path("/tmp").glob(f"orlop-*-uid-{pod.folder.name}-*"))


def test_init_containers_run_in_order_then_the_containers(run_pod):
    pod = run_pod(
        container("main"),
        init=[container("one"), container("two")],
    )
    states = [(record["name"], record["state"]) for record in pod.records("container")]
    assert states[1:] == [
        ("one", "running"), ("one", "terminated"), ("two", "running"), ("two", "terminated"),
        ("main", "running"), ("main", "terminated"),
    ]  # fmt: skip
    assert pod.code == 0


def test_a_failing_init_container_fails_the_pod(run_pod):
    pod = run_pod(container("main"), init=[container("i", script="echo no >&2; exit 5")])
    assert pod.code == 5
    assert pod.status("i")["exitCode"] == 5
    assert pod.status("main")["reason"] == "PodInitializing"
    assert pod.records()[-1] == {**pod.records()[-1], "type": "finished", "phase": "Failed"}


def test_a_failing_init_container_is_tried_again_by_policy(make_pod):
    mounts = [{"volume": "v", "path": "/v"}]
    pod = make_pod(
        container("main", script="echo at last"),
        init=[container("i", script="echo x >> /v/n; test $(wc -l < /v/n) = 2", mounts=mounts)],
        volumes=[{"name": "v", "kind": "emptyDir"}],
        spec={"restartPolicy": "OnFailure"},
    ).run()
    assert pod.code == 0
    assert pod.status("i")["restart"] == 1
    assert pod.lines("main") == ["at last"]


def test_restarts_keep_a_log_each_and_a_fresh_root(make_pod, runtime):
    # On the node's own root nothing is fresh but the container's own mounts.
    script = "echo run; test -e /data/seen || { touch /data/seen; exit 1; }; exit 0"
    pod = make_pod(
        container(script=script, mounts=[{"volume": "v", "path": "/data"}]),
        runtime=runtime,
        volumes=[{"name": "v", "kind": "emptyDir"}],
        spec={"restartPolicy": "OnFailure"},
    ).run()
    assert (pod.lines("c", 0), pod.lines("c", 1)) == (["run"], ["run"])
    ends = [r["exitCode"] for r in pod.records("container") if r["state"] == "terminated"]
    assert ends == [1, 0]
    assert pod.code == 0


def test_a_restarted_container_finds_nothing_of_its_last_run(make_pod):
    pod = make_pod(
        container(script="test -e /left && exit 0; touch /left; ls /; exit 1"),
        spec={"restartPolicy": "OnFailure"},
    ).start()
    pod.wait_for(lambda: "BackOff" in pod.events())
    assert pod.status()["reason"] == "CrashLoopBackOff"
    assert pod.status()["restart"] == 2
    pod.process.terminate()
    pod.wait()


def test_a_crash_loop_waits_ten_seconds_before_its_second_restart(make_pod):
    spec = {"restartPolicy": "Always"}
    pod = make_pod(container(script="exit 1"), spec=spec).start()
    pod.wait_for(lambda: len(pod.records_of("running")) == 3, timeout=20)
    runs = [record["startedAt"] for record in pod.records_of("running")]
    assert runs[1] - runs[0] < 2
    assert 9.9 < runs[2] - runs[1] < 12
    pod.process.terminate()
    pod.wait()


def test_the_active_deadline_ends_the_pod(run_pod):
    pod = run_pod(container(script="exec sleep 60"), spec={
        "activeDeadlineSeconds": 1, "terminationGracePeriodSeconds": 0,
    })  # fmt: skip
    (finished,) = pod.records("finished")
    assert (finished["phase"], finished["reason"]) == ("Failed", "DeadlineExceeded")
    assert pod.records("terminating")[0]["why"] == "deadline"
    assert pod.code == 137


def test_the_termination_message_is_what_the_container_wrote(run_pod):
    pod = run_pod(
        container("a", script="echo default > /dev/termination-log"),
        container("b", script="echo elsewhere > /run/why", terminationMessagePath="/run/why"),
    )
    assert pod.status("a")["message"] == "default\n"
    assert pod.status("b")["message"] == "elsewhere\n"


@pytest.mark.parametrize(
    ("policy", "code", "message"),
    [
        ("File", 1, None),
        ("FallbackToLogsOnError", 1, "last words\n"),
        ("FallbackToLogsOnError", 0, None),
    ],
)
def test_the_log_is_the_termination_message_where_that_is_the_policy(
    run_pod, policy, code, message
):
    script = f"echo last words; exit {code}"
    pod = run_pod(container(script=script, terminationMessagePolicy=policy))
    assert pod.status().get("message") == message


def test_long_lines_are_kept_in_parts(run_pod):
    pod = run_pod(container(script="head -c 40000 /dev/zero | tr '\\0' x; echo; printf end"))
    raw = (pod.folder / "logs/c/0.log").read_text().splitlines()
    kinds = [(line.split(" ")[2], len(line.split(" ", 3)[3])) for line in raw]
    assert kinds == [("P", 16384), ("P", 16384), ("F", 40000 - 2 * 16384), ("F", 3)]


def test_a_million_lines_are_all_kept(run_pod):
    pod = run_pod(container(script="seq 1 1000000"))
    lines = pod.lines()
    assert len(lines) == 1_000_000
    assert lines[-1] == "1000000"


def test_nothing_is_left_on_the_node(run_pod, runtime):
    pod = run_pod(
        container(script="sleep 100 & exec setsid sh -c 'sleep 100 & exit 0'"), runtime=runtime
    )
    assert processes_of(pod) == []
    assert scratch_of(pod) == []


def test_all_of_the_pod_dies_with_its_agent(make_pod, runtime):
    script = "sleep 300 & setsid sleep 300 & echo ready; wait"
    pod = make_pod(container("a", script=script), container("b", script=script), runtime=runtime)
    pod.start().wait_for_line("ready", "a")
    pod.wait_for_line("ready", "b")
    assert processes_of(pod)
    pod.process.kill()
    pod.wait()
    pod.wait_for(lambda: not processes_of(pod), timeout=5)


def test_what_a_killed_agent_left_is_removed_by_the_next_on_the_node(make_pod):
    killed = make_pod(container(script="echo ready; exec sleep 300")).start()
    killed.wait_for_line("ready")
    killed.process.kill()
    killed.wait()
    assert scratch_of(killed)
    other = make_pod(container(script="sleep 0.5")).run()
    assert scratch_of(killed) == []
    assert other.code == 0


def test_a_signal_while_the_agent_starts_is_not_lost(make_pod):
    """Not even one second is left of the grace: a container that was about to start has none."""
    for delay in (0.0, 0.005, 0.01, 0.02, 0.03, 0.04, 0.05):
        pod = make_pod(container(script="exec sleep 60"), spec={"terminationGracePeriodSeconds": 0})
        pod.start()
        pod.wait_for(lambda pod=pod: (pod.folder / "claim").exists())
        time.sleep(delay)
        pod.process.terminate()
        pod.wait()


def test_a_second_job_for_the_pod_ends_at_once(make_pod):
    pod = make_pod(container(script="echo ready; exec sleep 60")).start()
    pod.wait_for_line("ready")
    second = subprocess.run(
        [pod.python, "-I", pod.stage.agent, pod.folder],
        env={"SLURM_JOB_ID": "18"}, capture_output=True, text=True, check=False, timeout=10,
    )  # fmt: skip
    assert second.returncode == 75
    assert "run by job 17 on n1 already; job 18 ends here" in second.stderr
    assert len(pod.records("started")) == 1


def test_a_requeued_job_goes_on_with_the_journal(make_pod):
    pod = make_pod(container(script="echo ready; exec sleep 60")).start()
    pod.wait_for_line("ready")
    pod.process.kill()
    pod.wait()
    pod.env = {"SLURM_RESTART_COUNT": "1", "SLURMD_NODENAME": "n2"}
    pod.start().wait_for_line("ready", restart=1)
    records = pod.records()
    assert [record["seq"] for record in records] == list(range(1, len(records) + 1))
    starts = pod.records("started")
    assert [(s["restart"], s["node"]) for s in starts] == [(0, "n1"), (1, "n2")]
    lost = next(r for r in records if r.get("reason") == "ContainerStatusUnknown")
    assert (lost["restart"], lost["exitCode"]) == (0, 137)
    assert lost["seq"] > starts[1]["seq"]
    assert json.loads((pod.folder / "claim").read_text())["node"] == "n2"
    pod.process.terminate()
    pod.wait()


def test_a_job_requeued_after_a_signal_runs_its_pod_again(make_pod):
    script = "echo ready; trap 'exit 0' TERM; while :; do sleep 0.05; done"
    pod = make_pod(container(script=script)).start()
    pod.wait_for_line("ready")
    pod.process.terminate()
    pod.wait()
    pod.env = {"SLURM_RESTART_COUNT": "1"}
    pod.start().wait_for_line("ready", restart=1)
    pod.process.terminate()
    pod.wait()


def test_a_pod_that_is_over_is_not_run_again(run_pod):
    pod = run_pod(container(script="echo once"))
    before = pod.records()
    pod.env = {"SLURM_RESTART_COUNT": "1"}
    assert pod.run().code == 0
    assert pod.records() == before


def test_a_torn_line_of_the_journal_is_cut_off(make_pod):
    pod = make_pod(container())
    first = {"seq": 1, "time": 1.0, "type": "started", "job": "17", "restart": 0, "node": "n1"}
    (pod.folder / "journal").write_text(json.dumps(first) + '\n{"seq":2,"ti')
    if IS_ROOT:
        subprocess.run(["chown", f"{pod.user}:", pod.folder / "journal"], check=True)
    pod.env = {"SLURM_RESTART_COUNT": "1"}
    pod.run()
    assert pod.code == 0
    assert [record["seq"] for record in pod.records()][:2] == [1, 2]


def test_a_hostpath_that_is_not_there_fails_the_pod_with_the_reason(run_pod):
    volume = {"name": "data", "kind": "hostPath", "path": "/no/such/data", "type": "Directory"}
    pod = run_pod(container(), volumes=[volume])
    words = 'MountVolume.SetUp failed for volume "data" : hostPath type check failed'
    (finished,) = pod.records("finished")
    assert (finished["phase"], finished["reason"]) == ("Failed", "FailedMount")
    assert words in finished["message"]
    assert pod.events() == ["FailedMount"]


def test_a_plan_of_another_version_is_refused_with_a_remedy(make_pod):
    pod = make_pod(container(), plan={"version": 99}).run()
    assert pod.code == 75
    assert "plan version 99" in pod.output


def test_no_container_can_see_the_pods_folder(make_pod, stage):
    pod = make_pod(container(script=f"ls {stage.folder}/ 2>&1; true")).run()
    assert "No such file" in pod.lines()[0]


def test_volumes_with_secrets_are_not_on_the_nodes_disk(make_pod):
    mounts = [{"volume": "s", "path": "/s"}]
    script = "cat /s/token; echo; grep ' /s ' /proc/mounts | cut -d ' ' -f 3; sleep 60"
    pod = make_pod(container(script=script, mounts=mounts), volumes=[files("s", token="geheim")])
    pod.start().wait_for(lambda: len(pod.lines()) == 2)
    assert pod.lines() == ["geheim", "tmpfs"]
    (scratch,) = scratch_of(pod)
    found = subprocess.run(["grep", "-r", "geheim", scratch], capture_output=True, check=False)
    assert found.stdout == b""
    os.kill(pod.process.pid, signal.SIGTERM)
    pod.wait()


def test_the_last_record_says_what_the_pod_has_used(run_pod, runtime):
    burn = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"
    pod = run_pod(container(script=burn), runtime=runtime)
    used = pod.records("finished")[0]["usage"]
    assert used["cpu"] > 0
    assert used["elapsed"] > 0
    assert used["memory"] > 100_000
