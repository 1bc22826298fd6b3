"""One job per folder, whoever is killed in the middle: the submit protocol, on a real Slurm and
with stand-ins for sbatch where the real one cannot be made slow.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import resource
import subprocess
import textwrap
import time
from pathlib import Path

import pytest

from orlop.engine import JobState
from orlop.errors import EngineUnavailable
from orlop.slurm.commands import Commands
from orlop.slurm.submit.sbatch import LOCK_FILE, Folder, job_id

from ..conftest import Site

SLOW_SBATCH = """#!/bin/sh
echo $$ >> {log}
sleep {before}
{real} "$@"
status=$?
sleep {after}
exit $status
"""


def slow_sbatch(site: Site, folder: Path, before: float = 0.0, after: float = 0.0) -> Commands:
    """Commands whose sbatch waits before it submits, or after it has printed the job's number."""
    folder.mkdir(exist_ok=True)
    program = folder / "sbatch"
    log = folder / "starts"
    text = SLOW_SBATCH.format(log=log, before=before, after=after, real="/usr/bin/sbatch")
    program.write_text(text)
    program.chmod(0o755)
    environ = {**site.commands.environ, "PATH": f"{folder}:{site.commands.environ['PATH']}"}
    return Commands(environ, timeout=20.0)


def starts(folder: Path) -> int:
    log = folder / "starts"
    return len(log.read_text().split()) if log.exists() else 0


@pytest.mark.parametrize(
    ("output", "job"),
    [
        ("17\n", "17"),
        ("17;cluster\n", "17"),
        ("a warning\n17\n", "17"),
        ("17", None),
        ("", None),
        ("\n", None),
        ("Submitted batch job\n", None),
    ],
)
def test_the_number_counts_once_its_line_is_whole(output, job):
    assert job_id(output) == job


def test_a_second_hold_keeps_the_lock_when_the_first_lets_go(tmp_path):
    first, second = Folder(tmp_path), Folder(tmp_path)
    assert first.try_lock()
    assert not second.try_lock()
    lent = first.lend()
    first.release()
    assert not second.try_lock()
    os.close(lent)
    assert second.try_lock()
    second.release()


@pytest.mark.parametrize(
    ("claim", "job"),
    [('{"job": "17", "restart": 0}', "17"), ('{"job": 17}', "17"), ("", None), ("{}", None)],
)
def test_the_claim_of_an_agent_names_its_job(tmp_path, claim, job):
    (tmp_path / "claim").write_text(claim)
    assert Folder(tmp_path).claimed() == job


def test_without_a_claim_nobody_ran(tmp_path):
    assert Folder(tmp_path).claimed() is None


@pytest.mark.slurm
@pytest.mark.parametrize("asked_before", [False, True], ids=["at first", "in step"])
async def test_two_submits_at_once_are_one_job(rootless: Site, asked_before: bool):
    submission = rootless.submission()
    engines = [rootless.engine, rootless.another_engine(), rootless.another_engine()]
    if asked_before:  # then nothing lies between them: each sees that nobody has begun
        await asyncio.gather(*(engine.site.facts() for engine in engines))
    jobs = await asyncio.gather(*(engine.submit(submission) for engine in engines))
    assert len(set(jobs)) == 1
    assert await rootless.jobs_in_slurm() == [jobs[0]]
    await rootless.engine.cancel(jobs[0])


@pytest.mark.slurm
async def test_a_submit_that_is_cancelled_leaves_sbatch_to_end_and_is_found(rootless: Site):
    bin_folder = rootless.home / "slow-1"
    bin_folder.parent.mkdir(parents=True, exist_ok=True)
    slow = rootless.another_engine(commands=slow_sbatch(rootless, bin_folder, before=1.0))
    submission = rootless.submission()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await slow.submit(submission)
    job = await rootless.engine.submit(submission)
    assert starts(bin_folder) == 1
    assert await rootless.jobs_in_slurm() == [job]
    await rootless.engine.cancel(job)


CONTROL_PLANE = """
import asyncio, json, sys
from pathlib import Path
from orlop.engine import Submission
from orlop.settings import Paths, Settings
from orlop.slurm.commands import Commands
from orlop.slurm.jobs import SlurmEngine

home, uid, folder, environ, pod = json.loads(sys.argv[1])
engine = SlurmEngine(Settings(), Paths(Path(home)), uid, Commands(environ, 20.0))
submission = Submission(pod, Path(folder), ("/bin/sleep", "600"), "main")
asyncio.run(engine.submit(submission))
"""


def control_plane(
    python: Path, site: Site, submission, commands: Commands
) -> subprocess.Popen[bytes]:
    import json

    facts = [str(site.home), site.cluster_uid, str(submission.folder)]
    argument = json.dumps([*facts, dict(commands.environ), submission.pod])
    code = textwrap.dedent(CONTROL_PLANE)
    return subprocess.Popen([python, "-c", code, argument], env=dict(commands.environ), cwd="/")


@pytest.mark.slurm
@pytest.mark.parametrize(("before", "after"), [(1.5, 0.0), (0.0, 1.5)])
async def test_a_control_plane_killed_in_the_middle_of_sbatch_submits_once(
    rootless: Site, installed_orlop: Path, before, after
):
    bin_folder = rootless.home / f"slow-{before}-{after}"
    rootless.home.mkdir(parents=True, exist_ok=True)
    commands = slow_sbatch(rootless, bin_folder, before, after)
    submission = rootless.submission()
    killed = control_plane(installed_orlop / "python", rootless, submission, commands)
    async with asyncio.timeout(20):
        while not starts(bin_folder):  # noqa: ASYNC110  what another process does
            await asyncio.sleep(0.02)
    killed.kill()
    killed.wait()
    job = await rootless.engine.submit(submission)
    await asyncio.sleep(max(before, after))
    assert starts(bin_folder) == 1
    assert await rootless.jobs_in_slurm() == [job]
    await rootless.engine.cancel(job)


@pytest.mark.slurm
async def test_a_job_whose_number_was_lost_is_found_by_its_comment(rootless: Site):
    submission = rootless.submission()
    job = await rootless.engine.submit(submission)
    (submission.folder / "submit").write_text("")
    assert await rootless.another_engine().submit(submission) == job
    assert (submission.folder / "submit").read_text() == f"{job}\n"
    assert await rootless.jobs_in_slurm() == [job]
    await rootless.engine.cancel(job)


@pytest.mark.slurm
async def test_a_job_whose_number_was_lost_is_known_by_its_agents_claim(rootless: Site):
    submission = rootless.submission()
    (submission.folder / "submit").write_text("")
    (submission.folder / "claim").write_text('{"job": "4711", "restart": 0, "node": "n1"}')
    assert await rootless.engine.submit(submission) == "4711"
    assert await rootless.jobs_in_slurm() == []


@pytest.mark.slurm
async def test_an_sbatch_that_was_begun_but_never_arrived_is_begun_again(rootless: Site):
    submission = rootless.submission(("/bin/true",))
    (submission.folder / "submit").write_text("")
    job = await rootless.engine.submit(submission)
    found = await rootless.wait_for(job, lambda job: job.state.has_ended)
    assert found.state is JobState.COMPLETED


@pytest.mark.slurm
async def test_somebody_elses_sbatch_is_waited_for_but_not_for_ever(rootless: Site):
    submission = rootless.submission()
    with (submission.folder / LOCK_FILE).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        impatient = Commands(rootless.commands.environ, timeout=0.3)
        started = time.monotonic()
        with pytest.raises(EngineUnavailable, match="earlier sbatch"):
            await rootless.another_engine(commands=impatient).submit(submission)
        assert time.monotonic() - started < 5
    assert await rootless.jobs_in_slurm() == []


@pytest.mark.slurm
async def test_an_sbatch_that_hangs_is_killed_and_the_job_found_later(rootless: Site):
    bin_folder = rootless.home / "hangs"
    rootless.home.mkdir(parents=True, exist_ok=True)
    commands = slow_sbatch(rootless, bin_folder, after=30.0)
    hanging = rootless.another_engine(commands=Commands(commands.environ, timeout=1.0))
    submission = rootless.submission()
    with pytest.raises(EngineUnavailable, match="did not answer within 1 s"):
        await hanging.submit(submission)
    job = await rootless.engine.submit(submission)
    assert await rootless.jobs_in_slurm() == [job]
    await rootless.engine.cancel(job)


@pytest.mark.slurm
async def test_a_hundred_pods_at_once_are_submitted_once_each(rootless: Site):
    submissions = [rootless.submission(begin="now+1hour") for _ in range(100)]
    jobs = await asyncio.gather(*(rootless.engine.submit(each) for each in submissions))
    assert len(set(jobs)) == 100
    assert sorted(await rootless.jobs_in_slurm()) == sorted(jobs)
    await asyncio.gather(*(rootless.engine.cancel(job) for job in jobs))


@pytest.mark.slurm
async def test_a_thousand_pods_at_once_need_few_open_files(rootless: Site):
    """Login nodes allow a thousand or so."""
    submissions = [rootless.submission(hold="true") for _ in range(300)]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 150, hard))
    try:
        jobs = await asyncio.gather(*(rootless.engine.submit(each) for each in submissions))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    await asyncio.gather(*(rootless.engine.cancel(job) for job in jobs))
    assert len(set(jobs)) == 300


@pytest.mark.slurm
async def test_a_folder_that_cannot_be_written_is_told_with_the_remedy(rootless: Site):
    submission = rootless.submission()
    submission.folder.rmdir()
    with pytest.raises(EngineUnavailable, match="No such file or directory; check space, quota"):
        await rootless.engine.submit(submission)


@pytest.mark.slurm
async def test_a_job_whose_number_found_no_room_is_found_again_and_not_submitted_twice(
    rootless: Site,
):
    """A full disk or quota: sbatch succeeds, and what it prints is lost."""
    folder = rootless.home / "full"
    folder.mkdir(parents=True)
    program = folder / "sbatch"
    program.write_text('#!/bin/sh\n/usr/bin/sbatch "$@" > /dev/full\nexit 0\n')
    program.chmod(0o755)
    path = f"{folder}:{rootless.commands.environ['PATH']}"
    environ = {**rootless.commands.environ, "PATH": path}
    submission = rootless.submission()
    broken = rootless.another_engine(commands=Commands(environ, timeout=20.0))
    with pytest.raises(EngineUnavailable, match="check space and quota"):
        await broken.submit(submission)
    job = await broken.submit(submission)
    assert await rootless.jobs_in_slurm() == [job]
    await rootless.engine.cancel(job)
