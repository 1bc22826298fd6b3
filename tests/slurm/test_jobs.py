"""The engine on a real Slurm: submitting, following, ending."""

from __future__ import annotations

import asyncio
import time

import pytest

from orlop.engine import JobState
from orlop.errors import ConfigError, SubmitRejected

from .conftest import Site

pytestmark = pytest.mark.slurm


def has_ended(job) -> bool:
    return job.state.has_ended


def is_running(job) -> bool:
    return job.state is JobState.RUNNING


async def until(is_so) -> None:
    async with asyncio.timeout(30):
        while not is_so():  # noqa: ASYNC110  what another process does
            await asyncio.sleep(0.05)


async def test_it_says_which_slurm_it_is(rootless: Site):
    assert (await rootless.engine.version()).startswith("Slurm 2")


async def test_partitions_are_machines(rootless: Site):
    (machine,) = await rootless.engine.machines()
    assert (machine.name, machine.is_default, machine.hosts) == ("main", True, ("n1", "n2"))
    assert (machine.cpus, machine.memory_mib) == (16, 16000)
    assert machine.is_ready
    assert machine.is_schedulable


async def test_a_pod_is_a_job_under_its_own_name(rootless: Site):
    submission = rootless.submission()
    job = await rootless.engine.submit(submission)
    found = await rootless.wait_for(job, is_running)
    assert found.pod_uid == submission.pod["metadata"]["uid"]
    assert found.name == f"default/{submission.pod['metadata']['name']}"
    assert found.partition == "main"
    assert len(found.nodes) == 1
    assert found.submitted is not None
    assert found.started is not None
    assert abs(found.started - time.time()) < 30
    await rootless.engine.cancel(job)
    assert (await rootless.wait_for(job, has_ended)).state is JobState.CANCELLED


async def test_the_script_stays_in_the_folder_for_its_owner_alone(rootless: Site):
    submission = rootless.submission(("/bin/true",))
    await rootless.engine.submit(submission)
    script = submission.folder / "job.sh"
    assert script.stat().st_mode & 0o777 == 0o700
    assert "python=/bin/true\n" in script.read_text()


async def test_asked_twice_it_answers_the_same_job(rootless: Site):
    submission = rootless.submission(("/bin/true",))
    job = await rootless.engine.submit(submission)
    assert await rootless.engine.submit(submission) == job
    assert await rootless.another_engine().submit(submission) == job
    assert await rootless.jobs_in_slurm() == [job]


async def test_what_the_agent_prints_and_its_environment(rootless: Site):
    submission = rootless.submission(("/usr/bin/env",))
    job = await rootless.engine.submit(submission)
    await rootless.wait_for(job, has_ended)
    lines = (submission.folder / "slurm.out").read_text().splitlines()
    env = dict(line.split("=", 1) for line in lines)
    assert env["SLURM_JOB_ID"] == job
    assert env["PWD"] == str(submission.folder)
    assert env["HOME"] == rootless.commands.environ["HOME"]
    assert env["USER"] == rootless.user
    assert env["PATH"] == rootless.commands.environ["PATH"]


async def test_nothing_of_the_control_planes_environment_gets_into_a_job(rootless: Site):
    secret = {**rootless.commands.environ, "SECRET_TOKEN": "hidden"}
    engine = rootless.another_engine(commands=type(rootless.commands)(secret))
    submission = rootless.submission(("/usr/bin/env",))
    job = await engine.submit(submission)
    await rootless.wait_for(job, has_ended)
    assert "SECRET_TOKEN" not in (submission.folder / "slurm.out").read_text()
    assert "hidden" not in (submission.folder / "job.sh").read_text()


@pytest.mark.parametrize(
    ("command", "state"),
    [
        (("/bin/true",), JobState.COMPLETED),
        (("/bin/sh", "-c", "exit 3"), JobState.FAILED),
    ],
)
async def test_how_a_job_ended(rootless: Site, command, state):
    job = await rootless.submit(*command)
    found = await rootless.wait_for(job, has_ended)
    assert found.state is state
    assert found.ended is not None
    assert (await rootless.engine.ended([job]))[job].state is state


async def test_a_job_that_nobody_knows_is_left_out(rootless: Site):
    assert await rootless.engine.ended(["999999"]) == {}
    assert await rootless.engine.ended([]) == {}


async def test_terminate_reaches_the_agent_and_not_its_children(rootless: Site):
    """A container's processes are the agent's to end."""
    agent = (
        "import os, signal, subprocess, time\n"
        "child = subprocess.Popen(['sleep', '600'])\n"
        "def end(*_):\n"
        "    print('TERM, child', child.poll(), flush=True)\n"
        "    child.kill()\n"
        "    os._exit(0)\n"
        "signal.signal(signal.SIGTERM, end)\n"
        "print('ready', flush=True)\n"
        "time.sleep(600)\n"
    )
    submission = rootless.submission(("/usr/bin/python3", "-c", agent))
    job = await rootless.engine.submit(submission)
    output = submission.folder / "slurm.out"
    await until(lambda: output.exists() and "ready" in output.read_text())
    await rootless.engine.terminate(job)
    assert (await rootless.wait_for(job, has_ended)).state is JobState.COMPLETED
    lines = output.read_text().splitlines()
    assert [line for line in lines if not line.startswith("slurmstepd")] == [
        "ready",
        "TERM, child None",
    ]


async def test_terminate_cancels_a_job_that_still_waits(rootless: Site):
    job = await rootless.submit(begin="now+1hour")
    assert (await rootless.wait_for(job, lambda job: job.reason == "BeginTime")).started is None
    started = time.monotonic()
    await rootless.engine.terminate(job)
    assert time.monotonic() - started < 5
    assert (await rootless.wait_for(job, has_ended)).state is JobState.CANCELLED


async def test_ending_what_has_ended_or_never_was_is_no_error(rootless: Site):
    job = await rootless.submit("/bin/true")
    await rootless.wait_for(job, has_ended)
    for gone in (job, "999999"):
        await rootless.engine.terminate(gone)
        await rootless.engine.cancel(gone)


async def test_many_jobs_are_cancelled_in_a_few_commands(rootless: Site, monkeypatch):
    jobs = [await rootless.submit(begin="now+1hour") for _ in range(20)]
    commands: list[str] = []
    original = type(rootless.commands).run

    async def counted(self, program, *arguments, **more):
        commands.append(program)
        return await original(self, program, *arguments, **more)

    monkeypatch.setattr(type(rootless.commands), "run", counted)
    await asyncio.gather(*(rootless.engine.cancel(job) for job in jobs))
    assert commands.count("scancel") <= 2
    found = await rootless.engine.jobs()
    assert {found[job].state for job in jobs} == {JobState.CANCELLED}


async def test_a_held_job_says_so_with_its_remedy(rootless: Site):
    job = await rootless.submit(hold="true")
    found = await rootless.wait_for(job, lambda job: job.reason == "JobHeldUser")
    assert f"scontrol release {job}" in found.message
    await rootless.engine.cancel(job)


async def test_a_requeued_job_waits_again_and_counts_it(rootless: Site):
    job = await rootless.submit(requeue="true")
    await rootless.wait_for(job, is_running)
    await rootless.commands.run("scontrol", "requeue", job)
    found = await rootless.wait_for(job, lambda job: job.restarts == 1)
    assert found.state in (JobState.PENDING, JobState.COMPLETING)
    await rootless.engine.cancel(job)


async def test_a_suspended_job_is_suspended_and_can_be_ended(rootless: Site):
    job = await rootless.submit()
    await rootless.wait_for(job, is_running)
    await rootless.commands.run("scontrol", "suspend", job)
    await rootless.wait_for(job, lambda job: job.state is JobState.SUSPENDED)
    await rootless.engine.terminate(job)
    await rootless.wait_for(job, has_ended)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"partition": "nosuch"}, ["invalid partition", "nosuch", "partitions: main"]),
        ({"mem": "99T"}, ["memory", "lower the memory request", "partitions: main"]),
        ({"gres": "gpu:9"}, ["gres", "sinfo -o %G"]),
        ({"constraint": "nosuch"}, ["feature", "sinfo -o %f"]),
        ({"nodelist": "n99"}, ["Invalid node name", "sinfo -N"]),
        ({"reservation": "nosuch"}, ["reservation", "scontrol show res"]),
        ({"licenses": "nosuch:1"}, ["license", "scontrol show lic"]),
        ({"of-tomorrow": "1"}, ["unrecognized option", "of-tomorrow"]),
    ],
)
async def test_a_refused_job_says_why_and_what_to_do(rootless: Site, options, words):
    submission = rootless.submission(**options)
    with pytest.raises(SubmitRejected) as caught:
        await rootless.engine.submit(submission)
    for word in words:
        assert word.lower() in str(caught.value).lower()
    assert not (submission.folder / "submit").exists()
    assert await rootless.engine.jobs() == {}


async def test_a_refused_pod_can_be_submitted_once_it_is_right(rootless: Site):
    submission = rootless.submission(("/bin/true",), mem="99T")
    with pytest.raises(SubmitRejected):
        await rootless.engine.submit(submission)
    submission.pod["metadata"]["annotations"].clear()
    job = await rootless.engine.submit(submission)
    assert list(await rootless.engine.jobs()) == [job]


async def test_a_pod_that_cannot_be_is_refused_before_slurm_is_asked(rootless: Site):
    with pytest.raises(ConfigError, match="--array cannot be used"):
        await rootless.submit(array="1-3")


async def test_a_time_limit_ends_the_job_as_timed_out(rootless: Site):
    """Moved to now, for Slurm's shortest limit is a minute; it looks at limits twice a minute."""
    job = await rootless.submit(time="5")
    await rootless.wait_for(job, is_running)
    await rootless.commands.run("scontrol", "update", f"JobId={job}", "EndTime=now")
    found = await rootless.wait_for(job, has_ended)
    assert (found.state, found.reason) == (JobState.TIMEOUT, "TimeLimit")
    assert "reached its time limit" in found.message
