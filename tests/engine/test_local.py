"""Pods as processes of this host: they queue, run, end, and outlive whoever started them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from orlop.engine import Gang, JobState, Submission
from orlop.engine.local import LocalEngine
from orlop.engine.processes import descendants
from orlop.errors import SubmitRejected, WaitingForGang
from orlop.settings import Paths


@pytest.fixture
def paths(tmp_path):
    (tmp_path / "pods").mkdir()
    return Paths(tmp_path)


@pytest.fixture
async def engine(paths):
    engine = LocalEngine(paths, cpus=2)
    yield engine
    for job in await engine.jobs():
        await engine.cancel(job)
    engine.close()


def a_submission(paths, script, name="web", cpu="100m"):
    folder = paths.pods / f"default_{name}_uid-{name}"
    folder.mkdir()
    resources = {"requests": {"cpu": cpu}} if cpu else {}
    pod = {
        "metadata": {"namespace": "default", "name": name, "uid": f"uid-{name}"},
        "spec": {"containers": [{"name": "main", "resources": resources}]},
    }
    return Submission(pod, folder, ("/bin/sh", "-c", script), "here")


async def reached(engine, job, *states, timeout=5.0):
    async with asyncio.timeout(timeout):
        while True:
            found = (await engine.jobs())[job]
            if found.state in states:
                return found
            await asyncio.sleep(0.01)


async def until(probe, timeout=5.0):
    async with asyncio.timeout(timeout):
        while True:
            if answer := probe():
                return answer
            await asyncio.sleep(0.01)


def pid_of(folder):
    """The process that the agent's shell recorded; None until it did."""
    record = folder / "process"
    lines = record.read_text().splitlines() if record.exists() else []
    return int(lines[1].split()[0]) if len(lines) == 2 else None


async def test_the_host_is_the_one_machine(engine):
    [machine] = await engine.machines()
    assert machine.cpus == 2
    assert machine.memory_mib > 100
    assert machine.is_default
    assert "2 CPUs" in await engine.version()


@pytest.mark.parametrize(
    ("script", "state", "reason"),
    [
        ("true", JobState.COMPLETED, ""),
        ("exit 3", JobState.FAILED, "ExitCode3"),
        ("kill -9 $$", JobState.FAILED, "ExitCode-9"),
    ],
)
async def test_a_job_runs_and_ends_as_its_process_does(engine, paths, script, state, reason):
    job = await engine.submit(a_submission(paths, script))
    ended = await reached(engine, job, state)
    assert ended.reason == reason
    assert (ended.pod_uid, ended.name) == ("uid-web", "default/web")
    assert ended.submitted <= ended.ended
    assert (await engine.ended([job]))[job].state is state


async def test_a_job_finds_its_number_and_little_else_in_its_environment(
    engine, paths, monkeypatch
):
    monkeypatch.setenv("SECRET", "s3cret")
    submission = a_submission(paths, "env; pwd; cat; echo oops >&2")
    job = await engine.submit(submission)
    await reached(engine, job, JobState.COMPLETED)
    said = (submission.folder / "slurm.out").read_text()
    assert f"ORLOP_JOB_ID={job}" in said
    assert "s3cret" not in said
    assert said.endswith("/\noops\n")


async def test_a_running_job_is_in_a_session_of_its_own(engine, paths):
    submission = a_submission(paths, "sleep 60")
    job = await engine.submit(submission)
    found = await reached(engine, job, JobState.RUNNING)
    assert abs(found.started - time.time()) < 5
    assert found.nodes
    pid = await until(lambda: pid_of(submission.folder))
    assert os.getsid(pid) == pid
    assert (await engine.ended([job])) == {}


async def test_asked_again_it_answers_the_same_job(engine, paths):
    submission = a_submission(paths, "sleep 60")
    first = await engine.submit(submission)
    assert await engine.submit(submission) == first
    assert list(await engine.jobs()) == [first]


async def test_jobs_wait_for_cpus_and_smaller_ones_pass(engine, paths):
    big = await engine.submit(a_submission(paths, "sleep 0.3", "big", cpu="1500m"))
    waits = await engine.submit(a_submission(paths, "true", "waits", cpu="1"))
    small = await engine.submit(a_submission(paths, "sleep 60", "small", cpu="500m"))
    states = {i: job.state for i, job in (await engine.jobs()).items()}
    assert [states[i] for i in (big, waits, small)] == [
        JobState.RUNNING,
        JobState.PENDING,
        JobState.RUNNING,
    ]
    told = (await engine.jobs())[waits]
    assert told.reason == "Resources"
    assert "1 of the 2 CPUs" in told.message
    await reached(engine, waits, JobState.COMPLETED)


async def test_a_pod_larger_than_the_host_is_rejected_with_the_remedy(engine, paths):
    submission = a_submission(paths, "true", cpu="3")
    with pytest.raises(SubmitRejected, match=r"asks for 3 CPUs and .* has 2; lower"):
        await engine.submit(submission)
    assert await engine.jobs() == {}


async def test_the_largest_init_container_counts_where_it_is_larger(engine, paths):
    submission = a_submission(paths, "true", cpu="1")
    limits = {"limits": {"cpu": "3"}}
    submission.pod["spec"]["initContainers"] = [{"name": "init", "resources": limits}]
    with pytest.raises(SubmitRejected, match="3 CPUs"):
        await engine.submit(submission)


async def test_pods_that_ask_for_nothing_all_run(engine, paths):
    for number in range(6):
        await engine.submit(a_submission(paths, "sleep 60", f"p{number}", cpu=""))
    assert {job.state for job in (await engine.jobs()).values()} == {JobState.RUNNING}


async def test_terminate_lets_the_agent_end_by_itself(engine, paths):
    submission = a_submission(paths, "trap 'exit 7' TERM; echo up; while :; do sleep 0.02; done")
    job = await engine.submit(submission)
    output = submission.folder / "slurm.out"
    await until(lambda: output.exists() and "up" in output.read_text())
    await engine.terminate(job)
    assert (await reached(engine, job, JobState.FAILED)).reason == "ExitCode7"


async def test_cancel_ends_everything_below_the_agent(engine, paths):
    submission = a_submission(paths, "trap '' TERM; sleep 61 & setsid sleep 62 & wait")
    job = await engine.submit(submission)
    await reached(engine, job, JobState.RUNNING)
    pid = await until(lambda: pid_of(submission.folder))
    await until(lambda: len(descendants(pid)) == 2)
    below = descendants(pid)
    await engine.cancel(job)
    await reached(engine, job, JobState.CANCELLED)
    await asyncio.sleep(0.05)
    assert not [p for p in below if Path(f"/proc/{p}/cmdline").exists() and _is_alive(p)]
    await engine.cancel(job)  # once more does no harm


def _is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_a_waiting_job_that_is_cancelled_never_starts(engine, paths):
    await engine.submit(a_submission(paths, "sleep 60", "first", cpu="2"))
    submission = a_submission(paths, "true", "second", cpu="2")
    job = await engine.submit(submission)
    await engine.cancel(job)
    assert (await engine.jobs())[job].state is JobState.CANCELLED
    assert not (submission.folder / "process").exists()


async def test_what_nobody_knows_is_left_out_and_hurts_nobody(engine):
    await engine.cancel("99")
    await engine.terminate("99")
    assert await engine.ended(["99"]) == {}


async def test_jobs_whose_folder_is_gone_are_forgotten(engine, paths):
    submission = a_submission(paths, "true")
    job = await engine.submit(submission)
    await reached(engine, job, JobState.COMPLETED)
    subprocess.run(["rm", "-r", submission.folder], check=True)
    assert await engine.jobs() == {}


async def test_the_next_control_plane_finds_running_waiting_and_ended_jobs(paths, engine):
    running = await engine.submit(a_submission(paths, "sleep 0.5", "running", cpu="2"))
    waiting = await engine.submit(a_submission(paths, "true", "waiting", cpu="2"))
    engine.close()
    heir = LocalEngine(paths, cpus=2)
    states = {i: job.state for i, job in (await heir.jobs()).items()}
    assert states == {running: JobState.RUNNING, waiting: JobState.PENDING}
    assert (await heir.jobs())[running].pod_uid == "uid-running"
    await reached(heir, running, JobState.COMPLETED)
    await reached(heir, waiting, JobState.COMPLETED)
    third = await heir.submit(a_submission(paths, "true", "third"))
    assert third not in (running, waiting)
    heir.close()
    assert (await LocalEngine(paths).jobs())[running].state is JobState.COMPLETED


async def test_a_job_from_before_a_reboot_was_lost_with_its_node(paths, engine):
    submission = a_submission(paths, "true")
    job = await engine.submit(submission)
    await reached(engine, job, JobState.COMPLETED)
    (submission.folder / "end").unlink()
    record = submission.folder / "process"
    record.write_text("another-boot\n" + record.read_text().splitlines()[1] + "\n")
    heir = LocalEngine(paths)
    found = (await heir.jobs())[job]
    assert found.state is JobState.NODE_FAIL
    assert "restarted" in found.reason
    heir.close()


async def test_a_number_used_again_by_another_process_is_no_mistake(paths, engine):
    submission = a_submission(paths, "true")
    job = await engine.submit(submission)
    await reached(engine, job, JobState.COMPLETED)
    (submission.folder / "end").unlink()
    record = submission.folder / "process"
    boot, stat = record.read_text().splitlines()
    fields = stat.split()
    record.write_text(f"{boot}\n{os.getpid()} {' '.join(fields[1:])}\n")
    heir = LocalEngine(paths)
    assert (await heir.jobs())[job].state is JobState.COMPLETED
    await heir.cancel(job)  # must not be us
    heir.close()


KILLED = """
import asyncio, json, os, sys
from orlop.engine import Submission
from orlop.engine.local import LocalEngine
from orlop.settings import Paths
from pathlib import Path

async def main():
    paths = Paths(Path(sys.argv[1]))
    engine = LocalEngine(paths, cpus=1)
    print("ready", flush=True)
    for folder in sorted(paths.pods.iterdir()):
        pod = json.loads((folder / "pod.json").read_text())
        script = f'echo "$ORLOP_JOB_ID" >> {folder}/runs; sleep 0.05'
        await engine.submit(Submission(pod, folder, ("/bin/sh", "-c", script), "here"))
    while True:
        await asyncio.sleep(0.01)
        if all(job.state.has_ended for job in (await engine.jobs()).values()):
            print("done", flush=True)
            return

asyncio.run(main())
"""


@pytest.mark.parametrize("pause", [0.0, 0.01, 0.03, 0.07, 0.15])
def test_killed_at_any_moment_no_job_is_lost_or_started_twice(paths, pause):
    for number in range(8):
        submission = a_submission(paths, "", f"p{number}", cpu="250m")
        (submission.folder / "pod.json").write_text(json.dumps(submission.pod))
    argv = [sys.executable, "-c", KILLED, str(paths.home)]
    for _ in range(2):
        with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout.readline() == "ready\n"
            time.sleep(pause)
            process.send_signal(signal.SIGKILL)
    said = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=True).stdout
    assert said == "ready\ndone\n"
    runs = [(folder / "runs").read_text().split() for folder in paths.pods.iterdir()]
    assert all(len(each) == 1 for each in runs), runs
    assert len({each[0] for each in runs}) == 8


# Gangs


def a_member(paths, name, peers, script="sleep 60", cpu="1", size=2, room=""):
    alone = a_submission(paths, script, name, cpu)
    uids = frozenset(f"uid-{peer}" for peer in [name, *peers])
    gang = Gang("default/gang/g", "default/g", size, uids, room)
    return Submission(alone.pod, alone.folder, alone.command, alone.machine, gang)


async def test_members_of_a_gang_start_together(engine, paths):
    first, second = a_member(paths, "a", "b"), a_member(paths, "b", "a")
    with pytest.raises(WaitingForGang, match="1 of 2 members"):
        await engine.submit(first)
    assert not await engine.jobs()
    await engine.submit(second)
    await engine.submit(first)  # its turn again: it was submitted with the other
    assert [job.state for job in (await engine.jobs()).values()] == [JobState.RUNNING] * 2


async def test_a_gang_that_does_not_fit_lets_others_pass_and_holds_nothing(engine, paths):
    busy = await engine.submit(a_submission(paths, "sleep 60", "busy", "1"))
    for member in (a_member(paths, "a", "b"), a_member(paths, "b", "a")):
        try:
            await engine.submit(member)
        except WaitingForGang:
            continue
    small = await engine.submit(a_submission(paths, "sleep 60", "small", "1"))
    states = {job.name: job.state for job in (await engine.jobs()).values()}
    assert states["default/a"] is states["default/b"] is JobState.PENDING
    assert states["default/small"] is JobState.RUNNING
    for job in (busy, small):
        await engine.cancel(job)
    for identity, job in (await engine.jobs()).items():
        if job.name in ("default/a", "default/b"):
            await reached(engine, identity, JobState.RUNNING, timeout=30.0)


async def test_a_gang_that_was_half_accepted_is_completed_by_the_next_engine(paths):
    engine = LocalEngine(paths, cpus=2)
    members = [a_member(paths, "a", "b"), a_member(paths, "b", "a")]
    engine._accept(members[0], together=2)  # and there it was killed
    engine.close()
    later = LocalEngine(paths, cpus=2)
    try:
        (waiting,) = (await later.jobs()).values()
        assert (waiting.state, waiting.reason) == (JobState.PENDING, "WaitingForGang")
        await later.submit(members[1])
        assert [job.state for job in (await later.jobs()).values()] == [JobState.RUNNING] * 2
    finally:
        for job in await later.jobs():
            await later.cancel(job)
        later.close()


async def test_a_replacement_starts_where_others_of_its_gang_run(engine, paths):
    for member in (a_member(paths, "a", "b", "exit 1"), a_member(paths, "b", "a")):
        try:
            await engine.submit(member)
        except WaitingForGang:
            continue
    job = await engine.submit(a_member(paths, "c", "b", "exit 0"))
    await reached(engine, job, JobState.COMPLETED, timeout=30.0)


ONE_MORE = '[{"spec":{"containers":[{"resources":{"requests":{"cpu":"1"}}}]}}]'


async def test_room_is_held_for_who_comes_later(engine, paths):
    """Of two CPUs one is the gang's that nobody uses yet: others wait, the late one does not."""
    early = await engine.submit(a_member(paths, "a", "", size=1, room=ONE_MORE))
    other = await engine.submit(a_submission(paths, "exit 0", "other", "1"))
    assert (await engine.jobs())[other].state is JobState.PENDING
    late = await engine.submit(a_member(paths, "b", "a", "exit 0"))
    await reached(engine, late, JobState.COMPLETED, timeout=30.0)
    assert (await engine.jobs())[other].state is JobState.PENDING
    await engine.cancel(early)
    await reached(engine, other, JobState.COMPLETED, timeout=30.0)


async def test_a_gang_waits_until_there_is_room_for_all_that_comes(engine, paths):
    busy = await engine.submit(a_submission(paths, "sleep 60", "busy", "1"))
    early = await engine.submit(a_member(paths, "a", "", size=1, room=ONE_MORE))
    assert (await engine.jobs())[early].state is JobState.PENDING
    await engine.cancel(busy)
    await reached(engine, early, JobState.RUNNING, timeout=30.0)


async def test_a_gang_that_can_never_fit_is_refused(engine, paths):
    with pytest.raises(WaitingForGang):
        await engine.submit(a_member(paths, "a", "b", cpu="2"))
    with pytest.raises(SubmitRejected, match="the 2 members of gang default/g ask for 4 CPUs"):
        await engine.submit(a_member(paths, "b", "a", cpu="2"))
