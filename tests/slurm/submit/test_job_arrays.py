"""Pods that ask for the same at once, as one job array on a real Slurm."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from orlop.engine import JobState, Submission
from orlop.errors import EngineUnavailable, SubmitDeferred, SubmitRejected
from orlop.slurm.commands import Commands
from orlop.slurm.submit import job_arrays
from orlop.slurm.submit.job_arrays import Array
from orlop.slurm.submit.sbatch import LOCK_FILE, Folder

from ..conftest import Site
from ..pods import pod, spec_of

# The last argument is the folder, which each task of an array is given its own of.
WAITS = ("/bin/sh", "-c", "exec sleep 600", "folder")
OWNER = {"kind": "Job", "name": "burst", "uid": "b1", "controller": True}


def has_ended(job) -> bool:
    return job.state.has_ended


def owned(owner=OWNER, **more):
    found = pod(**more)
    found["metadata"]["ownerReferences"] = [owner]
    return found


def folders(root: Path, count: int) -> list[Path]:
    made = [root / "pods" / f"default_pod-{n}_uid-{n}" for n in range(count)]
    for folder in made:
        folder.mkdir(parents=True)
    return made


# Which pods go together


def test_pods_of_one_owner_that_ask_for_the_same_go_together():
    first, second = owned(), owned()
    second["metadata"] |= {"name": "web-2", "uid": "77"}
    assert job_arrays.shape(first, spec_of(first)) == job_arrays.shape(second, spec_of(second))


@pytest.mark.parametrize(
    "other",
    [
        owned({**OWNER, "uid": "b2"}),
        owned(annotations={"slurm.orlop.dev/time": "5"}),
        owned(annotations={"slurm.orlop.dev/job-name": "mine"}),
        owned(terminationGracePeriodSeconds=600, activeDeadlineSeconds=9000),
        pod(),
    ],
    ids=["another owner", "another limit", "a name of its own", "more time", "no owner"],
)
def test_pods_that_differ_in_what_slurm_sees_do_not(other):
    mine = owned()
    assert job_arrays.shape(mine, spec_of(mine)) != job_arrays.shape(other, spec_of(other))


def test_an_array_has_the_name_of_the_owner_or_the_one_that_was_asked_for():
    mine = owned()
    assert job_arrays.name_of(mine, spec_of(mine)) == "default/burst"
    named = owned(annotations={"slurm.orlop.dev/job-name": "mine"})
    assert job_arrays.name_of(named, spec_of(named)) == "mine"


# Its folder


def test_a_pod_finds_its_number_by_the_arrays_answer(tmp_path: Path):
    pods = folders(tmp_path, 3)
    array = Array.make(tmp_path / "arrays", pods)
    assert [Folder(each).job() for each in pods] == [None] * 3
    assert all(Folder(each).was_begun for each in pods)
    (array.folder / "submit").write_text("17;cluster\n")
    assert [Folder(each).job() for each in pods] == ["17_0", "17_1", "17_2"]


def test_whoever_locks_a_pod_waits_for_its_arrays_sbatch(tmp_path: Path):
    (one,) = folders(tmp_path, 1)
    array = Array.make(tmp_path / "arrays", [one])
    holder = Folder(array.folder)
    assert holder.try_lock()
    mine = Folder(one)
    assert not mine.try_lock()
    holder.release()
    assert mine.try_lock()
    mine.release()


def test_a_dissolved_array_leaves_its_pods_as_they_were(tmp_path: Path):
    pods = folders(tmp_path, 2)
    array = Array.make(tmp_path / "arrays", pods)
    array.dissolve(pods)
    assert [list(each.iterdir()) for each in pods] == [[], []]
    assert not array.folder.exists()


def test_arrays_are_swept_when_the_last_of_their_pods_is_gone(tmp_path: Path):
    pods = folders(tmp_path, 2)
    array = Array.make(tmp_path / "arrays", pods)
    for path in pods[0].iterdir():
        path.unlink()
    pods[0].rmdir()
    job_arrays.sweep(tmp_path / "arrays")
    assert array.folder.exists()
    for path in pods[1].iterdir():
        path.unlink()
    pods[1].rmdir()
    job_arrays.sweep(tmp_path / "arrays")
    assert not array.folder.exists()


@pytest.mark.parametrize(
    ("comment", "task"),
    [("orlop:c:array-0123", "x"), ("orlop:c:array-../../etc", "0"), ("orlop:c:some-uid", "0")],
)
def test_a_task_that_nobody_knows_is_no_pod(tmp_path: Path, comment: str, task: str):
    assert job_arrays.member(tmp_path, comment, task) is None


# On Slurm


def burst(site: Site, count: int, command=("/bin/true",), **options: str) -> list[Submission]:
    return [site.submission(command, owner="burst", **options) for _ in range(count)]


async def submitted(site: Site, pods: list[Submission], engine=None) -> list[str]:
    engine = engine or site.engine
    return list(await asyncio.gather(*(engine.submit(each) for each in pods)))


class Counted(Commands):
    """Counts the sbatch calls of a burst."""

    sbatches = 0

    def argv(self, program: str, *arguments: str) -> list[str]:
        Counted.sbatches += program == "sbatch"
        return super().argv(program, *arguments)


@pytest.mark.slurm
async def test_a_burst_is_a_handful_of_sbatch_calls_and_each_pod_has_its_own_task(rootless: Site):
    Counted.sbatches = 0
    commands = Counted(rootless.commands.environ, timeout=30.0)
    engine = rootless.another_engine(commands=commands)
    pods = burst(rootless, 60, ("/bin/sh", "-c", 'echo "$0"'))
    jobs = await submitted(rootless, pods, engine)
    assert len(set(jobs)) == 60
    assert Counted.sbatches <= 5
    listed = await engine.jobs()
    for each, job in zip(pods, jobs, strict=True):
        metadata = each.pod["metadata"]
        assert (listed[job].pod_uid, listed[job].name) == (
            metadata["uid"],
            f"default/{metadata['name']}",
        )
    await rootless.wait_for(jobs[-1], has_ended)


@pytest.mark.slurm
async def test_a_crowd_without_an_owner_goes_together_and_a_few_keep_their_names(rootless: Site):
    Counted.sbatches = 0
    commands = Counted(rootless.commands.environ, timeout=30.0)
    engine = rootless.another_engine(commands=commands)
    few = [rootless.submission(("/bin/true",)) for _ in range(5)]
    assert not any("_" in job for job in await submitted(rootless, few, engine))
    assert Counted.sbatches == 5
    crowd = [rootless.submission(("/bin/true",)) for _ in range(60)]
    jobs = await submitted(rootless, crowd, engine)
    assert len(set(jobs)) == 60
    assert Counted.sbatches < 5 + 60 / 2
    assert (await engine.jobs())[jobs[-1]].pod_uid == crowd[-1].pod["metadata"]["uid"]
    await rootless.wait_for(jobs[-1], has_ended)


@pytest.mark.slurm
async def test_each_task_runs_on_its_own_pods_folder(rootless: Site):
    command = ("/bin/sh", "-c", 'cd "$1" && pwd -P', "sh")
    pods = [
        Submission(each.pod, each.folder, (*command, str(each.folder)), each.machine)
        for each in burst(rootless, 6)
    ]
    for job in await submitted(rootless, pods):
        await rootless.wait_for(job, has_ended)
    for each in pods:
        assert (each.folder / "slurm.out").read_text() == f"{each.folder}\n"


@pytest.mark.slurm
async def test_cancelling_a_task_that_runs_leaves_the_others(rootless: Site):
    pods = burst(rootless, 5, WAITS)
    jobs = await submitted(rootless, pods)
    last = jobs[-1]  # its own number is that of its whole array
    await rootless.wait_for(last, lambda job: job.state is JobState.RUNNING)
    await rootless.engine.cancel(last)
    assert (await rootless.wait_for(last, has_ended)).state is JobState.CANCELLED
    listed = await rootless.engine.jobs()
    assert not any(listed[job].state.has_ended for job in jobs[:-1])
    await asyncio.gather(*(rootless.engine.cancel(job) for job in jobs[:-1]))


def _is_alive(listed, job) -> bool:
    return job in listed and not listed[job].state.has_ended


@pytest.mark.slurm
async def test_a_task_cancelled_while_it_waits_was_cancelled_although_slurm_forgets_it(
    rootless: Site,
):
    pods = burst(rootless, 5, begin="now+1hour")
    jobs = await submitted(rootless, pods)
    await rootless.engine.jobs()
    await rootless.engine.cancel(jobs[-1])
    async with asyncio.timeout(30):
        while _is_alive(await rootless.engine.jobs(), jobs[-1]):  # noqa: ASYNC110  Slurm decides
            await asyncio.sleep(0.1)
    (ended,) = (await rootless.engine.ended([jobs[-1]])).values()
    assert (ended.id, ended.state) == (jobs[-1], JobState.CANCELLED)
    listed = await rootless.engine.jobs()
    assert [job for job in jobs if _is_alive(listed, job)] == jobs[:-1]
    assert await rootless.engine.ended(["4711_1"]) == {}
    await asyncio.gather(*(rootless.engine.cancel(job) for job in jobs[:-1]))


@pytest.mark.slurm
async def test_pods_of_a_refused_array_each_hear_why(rootless: Site):
    pods = burst(rootless, 4, constraint="nosuch")
    answers = await asyncio.gather(
        *(rootless.engine.submit(each) for each in pods), return_exceptions=True
    )
    assert all(isinstance(answer, SubmitRejected) for answer in answers), answers
    assert not any(Folder(each.folder).was_begun for each in pods)


FULL = "sbatch: error: QOSMaxSubmitJobPerUserLimit"
FULL += "\nsbatch: error: Batch job submission failed: Job violates accounting/QOS policy"
# An sbatch that has room for so many jobs, and counts its calls.
NARROW = f"""#!/bin/sh
cd "$(dirname "$0")"
echo >> calls
last=$(sed -n 's/^#SBATCH --array=0-//p' "$2")
left=$(($(cat room) - ${{last:-0}} - 1))
if [ $left -lt 0 ]; then echo '{FULL}' >&2; exit 1; fi
echo $left > room
wc -l < calls
"""


@pytest.mark.slurm
async def test_a_limit_of_jobs_is_filled_with_few_calls_and_the_rest_are_told(rootless: Site):
    folder, count, room = rootless.home / "narrow", 100, 37
    folder.mkdir(parents=True)
    stand_in = folder / "sbatch"
    stand_in.write_text(NARROW)
    stand_in.chmod(0o755)
    (folder / "room").write_text(str(room))
    environ = rootless.commands.environ
    path = f"{folder}:{environ['PATH']}"
    engine = rootless.another_engine(commands=Commands({**environ, "PATH": path}, timeout=30.0))
    answers = await asyncio.gather(
        *(engine.submit(each) for each in burst(rootless, count)), return_exceptions=True
    )
    accepted = [answer for answer in answers if isinstance(answer, str)]
    assert len(set(accepted)) == room
    assert all(isinstance(one, SubmitDeferred) for one in answers if not isinstance(one, str))
    assert len((folder / "calls").read_text()) < count / 4


@pytest.mark.slurm
async def test_another_control_plane_finds_the_same_tasks(rootless: Site):
    pods = burst(rootless, 8)
    jobs = await submitted(rootless, pods)
    assert await submitted(rootless, pods, rootless.another_engine()) == jobs
    assert sorted(await rootless.jobs_in_slurm()) == sorted(jobs)


@pytest.mark.slurm
async def test_an_array_whose_number_was_lost_is_found_in_slurm(rootless: Site):
    pods = burst(rootless, 4, WAITS)
    jobs = await submitted(rootless, pods)
    for each in pods:
        (each.folder / "submit").write_text("")  # through the link, as if sbatch had said nothing
    assert await submitted(rootless, pods, rootless.another_engine()) == jobs
    for job in jobs:
        await rootless.engine.cancel(job)


@pytest.mark.slurm
async def test_an_array_that_never_reached_sbatch_is_made_anew(rootless: Site):
    pods = burst(rootless, 4)
    Array.make(rootless.home / "arrays", [each.folder for each in pods])
    jobs = await submitted(rootless, pods, rootless.another_engine())
    assert sorted(await rootless.jobs_in_slurm()) == sorted(jobs)
    assert len(set(jobs)) == 4


@pytest.mark.slurm
async def test_a_site_that_wants_no_arrays_gets_none(rootless: Site, monkeypatch):
    from orlop.slurm.query import detect

    monkeypatch.setattr(detect.Slurm, "max_array", property(lambda self: 0))
    jobs = await submitted(rootless, burst(rootless, 4))
    assert not any("_" in job for job in jobs)


@pytest.mark.slurm
async def test_one_that_stops_waiting_takes_nobody_with_it(rootless: Site):
    pods = burst(rootless, 6)
    tasks = [asyncio.ensure_future(rootless.engine.submit(each)) for each in pods]
    await asyncio.sleep(0.002)
    tasks[0].cancel()
    tasks[3].cancel()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    rest = [answer for task, answer in zip(tasks, answers, strict=True) if not task.cancelled()]
    assert all(isinstance(answer, str) for answer in rest), answers
    again = await submitted(rootless, pods)
    assert sorted(await rootless.jobs_in_slurm()) == sorted(again)


def test_the_lock_of_a_pod_on_its_own_is_a_file_of_its_own(tmp_path: Path):
    (one,) = folders(tmp_path, 1)
    folder = Folder(one)
    assert folder.try_lock()
    assert (one / LOCK_FILE).stat().st_nlink == 1
    folder.release()


@pytest.mark.slurm
async def test_a_silent_slurm_leaves_the_question_open(rootless: Site):
    pods = burst(rootless, 3)
    broken = Commands({**rootless.commands.environ, "SLURM_CONF": "/nonexistent"}, timeout=5.0)
    with pytest.raises(EngineUnavailable):
        await rootless.another_engine(commands=broken).submit(pods[0])
