"""Gangs on a real Slurm: one job for all, a step for each, whoever dies in between."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import pytest

from orlop.agent.build import build
from orlop.api.objects import uid_of
from orlop.engine import Gang, Job, JobId, JobState, Submission
from orlop.errors import ConfigError, SubmitRejected, WaitingForGang
from orlop.settings import Paths
from orlop.slurm.gang.gang_folders import GangFolders
from orlop.slurm.gang.gang_submission import kept_of
from orlop.slurm.gang.packing import pack
from orlop.slurm.gang.roster import call
from orlop.slurm.submit import job_arrays
from tests.cluster.fixtures import StartSlurm
from tests.cluster.spec import Spec

from ..conftest import Site

pytestmark = pytest.mark.slurm

# Leads as the real agent does; of a pod it runs a shell line, and claims it.
AGENT = """\
import importlib.machinery, json, os, sys, zipfile
if sys.argv[1] == "gang":
    main = zipfile.ZipFile({real!r}).read("__main__.py")
    exec(main, {{"__name__": "__main__", "__spec__": importlib.machinery.ModuleSpec("m", None)}})
folder = sys.argv[1]
job = os.environ.get("ORLOP_JOB_ID") or os.environ["SLURM_JOB_ID"]
claim = {{"job": job, "step": os.environ.get("SLURM_STEP_ID", "")}}
with open(folder + "/claim", "w") as file:
    json.dump(claim, file)
os.execv("/bin/sh", ["/bin/sh", folder + "/script", folder])
"""
WAIT = 'while [ ! -e "$1/go" ]; do sleep 0.1; done'
PYTHON = "/usr/bin/python3"


class Gangs:
    """A site with pods that are members of gangs."""

    def __init__(self, site: Site, leader: bytes) -> None:
        site.home.mkdir(parents=True, exist_ok=True)
        (site.home / "agent.pyz").write_bytes(leader)
        self.site = site
        self.engine = site.engine
        self.agent = site.home / "agent.py"
        self.agent.write_text(AGENT.format(real=str(site.home / "agent.pyz")))

    def member(self, script: str = WAIT, **options: str) -> Submission:
        made = self.site.submission((), **options)
        command = (PYTHON, "-I", str(self.agent), str(made.folder))
        (made.folder / "script").write_text(script)
        return replace(made, command=command)

    async def submit(self, *members: Submission, name: str = "g", room: str = "") -> list[JobId]:
        """All of a gang, the earlier ones again once the last is there."""
        peers = frozenset(uid_of(member.pod) for member in members)
        gang = Gang(f"default/gang/{name}", f"default/{name}", len(members), peers, room)
        asked = [replace(member, gang=gang) for member in members]
        for member in asked[:-1]:
            with pytest.raises(WaitingForGang):
                await self.engine.submit(member)
        await self.engine.submit(asked[-1])
        return [await self.engine.submit(member) for member in asked]

    async def join(self, member: Submission, *others: Submission, name: str = "g") -> JobId:
        peers = frozenset(uid_of(one.pod) for one in (member, *others))
        gang = Gang(f"default/gang/{name}", f"default/{name}", 2, peers)
        async with asyncio.timeout(60):
            while True:
                try:
                    return await self.engine.submit(replace(member, gang=gang))
                except WaitingForGang:
                    await asyncio.sleep(0.2)

    async def until(self, job: JobId, *states: JobState) -> Job:
        return await self.site.wait_for(job, lambda found: found.state in states)

    async def end(self) -> None:
        """Nothing of a gang writes into the site's folders any more."""
        listing = ("--me", "-r", "-h", "-O", "JobArrayID,Comment:99")
        async with asyncio.timeout(120):
            while True:
                rows = (await self.site.commands.run("squeue", *listing)).splitlines()
                ours = [row.split()[0] for row in rows if f":{self.site.cluster_uid}:" in row]
                if not ours:
                    return
                await self.site.commands.run("scancel", "--quiet", *ours)
                await asyncio.sleep(0.2)

    async def claimed(self, *members: Submission) -> None:
        async with asyncio.timeout(60):
            for member in members:
                while not (member.folder / "claim").exists():  # noqa: ASYNC110
                    await asyncio.sleep(0.05)


@pytest.fixture(scope="session")
def leader(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return build(tmp_path_factory.mktemp("agent") / "agent.pyz").read_bytes()


@pytest.fixture
async def gangs(leader: bytes, rootless: Site) -> AsyncIterator[Gangs]:
    made = Gangs(rootless, leader)
    yield made
    await made.end()


def base(job: str) -> str:
    return job.partition("+")[0]


async def test_all_members_are_one_job_and_each_ends_on_its_own(gangs: Gangs):
    good, bad, slow = gangs.member("exit 0"), gangs.member("exit 3"), gangs.member()
    jobs = await gangs.submit(good, bad, slow)
    assert len({base(job) for job in jobs}) == 1
    assert await gangs.site.jobs_in_slurm() == [base(jobs[0])]
    assert (await gangs.until(jobs[0], JobState.COMPLETED)).pod_uid == uid_of(good.pod)
    failed = await gangs.until(jobs[1], JobState.FAILED)
    assert failed.reason == "ExitCode3"
    running = (await gangs.engine.jobs())[jobs[2]]
    assert (running.state, len(running.nodes)) == (JobState.RUNNING, 1)
    (slow.folder / "go").touch()
    await gangs.until(jobs[2], JobState.COMPLETED)


async def test_cancelling_one_ends_its_step_and_cancelling_all_the_job(gangs: Gangs):
    members = [gangs.member(), gangs.member(), gangs.member()]
    jobs = await gangs.submit(*members)
    await gangs.claimed(*members)
    await gangs.engine.cancel(jobs[1])
    await gangs.until(jobs[1], JobState.CANCELLED)
    assert (await gangs.engine.jobs())[jobs[0]].state is JobState.RUNNING
    await asyncio.gather(gangs.engine.cancel(jobs[0]), gangs.engine.cancel(jobs[2]))
    for job in (jobs[0], jobs[2]):
        await gangs.until(job, JobState.CANCELLED)


async def test_a_term_reaches_one_member_alone(gangs: Gangs):
    trap = 'trap "exit 7" TERM; ' + WAIT
    members = [gangs.member(trap), gangs.member(trap)]
    jobs = await gangs.submit(*members)
    await gangs.claimed(*members)
    await gangs.engine.terminate(jobs[0])
    await gangs.until(jobs[0], JobState.CANCELLED, JobState.FAILED)
    assert (await gangs.engine.jobs())[jobs[1]].state is JobState.RUNNING
    await gangs.engine.cancel(jobs[1])


async def test_scancel_of_the_job_ends_every_member_as_cancelled(gangs: Gangs):
    members = [gangs.member(), gangs.member()]
    jobs = await gangs.submit(*members)
    await gangs.claimed(*members)
    await gangs.site.commands.run("scancel", base(jobs[0]))
    for job in jobs:
        assert (await gangs.until(job, JobState.CANCELLED)).state is JobState.CANCELLED


async def test_a_replacement_takes_the_place_of_one_that_ended(gangs: Gangs):
    big = {"cpus_per_task": "8"}
    first, second = gangs.member("exit 1", **big), gangs.member(**big)
    jobs = await gangs.submit(first, second)
    await gangs.until(jobs[0], JobState.FAILED)
    third = gangs.member("exit 0", **big)
    new = await gangs.join(third, second)
    assert new == f"{base(jobs[0])}+2"
    await gangs.until(new, JobState.COMPLETED)
    (second.folder / "go").touch()
    await gangs.until(jobs[1], JobState.COMPLETED)
    assert await gangs.site.jobs_in_slurm() == [base(jobs[0])]


def room_for(**options: str) -> str:
    """One pod that comes later."""
    notes = {f"slurm.orlop.dev/{k.replace('_', '-')}": v for k, v in options.items()}
    return json.dumps([{"metadata": {"annotations": notes}, "spec": {"containers": [{}]}}])


async def test_room_is_held_for_who_comes_later(gangs: Gangs):
    """All of it in the one job: nobody else gets it meanwhile, and the late one need not wait."""
    early = gangs.member(cpus_per_task="8")
    (job,) = await gangs.submit(early, room=room_for(cpus_per_task="8", time="7"))
    asked = await gangs.site.commands.run("squeue", "-h", "-j", base(job), "-o", "%C %l")
    assert asked.split() == ["16", "7:00"], "what is to come counts as what is there"
    await gangs.claimed(early)
    other = await gangs.engine.submit(gangs.member("exit 0", cpus_per_task="8"))
    late = await gangs.join(gangs.member("exit 0", cpus_per_task="8"), early)
    assert base(late) == base(job)
    await gangs.until(late, JobState.COMPLETED)
    again = await gangs.join(gangs.member("exit 0", cpus_per_task="6"), early)
    assert base(again) == base(job), "one that is tried again has its predecessor's seat"
    await gangs.until(again, JobState.COMPLETED)
    assert (await gangs.engine.jobs())[other].state is JobState.PENDING
    (early.folder / "go").touch()
    await gangs.until(other, JobState.COMPLETED)


async def test_who_grew_since_room_was_held_for_it_goes_alone(gangs: Gangs):
    early = gangs.member()
    (job,) = await gangs.submit(early, room=room_for(cpus_per_task="2"))
    late = await gangs.join(gangs.member("exit 0", cpus_per_task="3"), early)
    assert "+" not in late
    (early.folder / "go").touch()
    for one in (job, late):
        await gangs.until(one, JobState.COMPLETED)


async def test_who_asks_for_no_cpu_runs_beside_another(gangs: Gangs):
    """As the launcher of an MPI program whose workers have all of their nodes."""
    members = [gangs.member(cpus_per_task="8"), gangs.member(cpus_per_task="8"), gangs.member()]
    jobs = await gangs.submit(*members)
    await gangs.claimed(*members)
    asked = await gangs.site.commands.run("squeue", "-h", "-j", base(jobs[0]), "-o", "%C")
    assert asked.strip() == "16"
    for member in members:
        (member.folder / "go").touch()
    for job in jobs:
        await gangs.until(job, JobState.COMPLETED)


async def test_who_finds_no_place_goes_alone(gangs: Gangs):
    members = [gangs.member(), gangs.member()]
    jobs = await gangs.submit(*members)
    extra = await gangs.join(gangs.member("exit 0", cpus_per_task="2"), *members)
    assert "+" not in extra
    for job in jobs:
        await gangs.engine.cancel(job)
    await gangs.engine.cancel(extra)


async def test_a_gang_that_waits_does_not_start_without_one_that_left(gangs: Gangs):
    """It is held, and released when another takes the place."""
    members = [gangs.member(begin="now+1hour"), gangs.member(begin="now+1hour")]
    jobs = await gangs.submit(*members)
    await gangs.engine.cancel(jobs[0])
    listed = await gangs.engine.jobs()
    assert listed[jobs[0]].state is JobState.CANCELLED
    assert (listed[jobs[1]].state, listed[jobs[1]].reason) == (JobState.PENDING, "WaitingForGang")
    assert "1 of 2 members" in listed[jobs[1]].message
    held = await gangs.site.commands.run("squeue", "-h", "-j", base(jobs[1]), "-o", "%r")
    assert held.startswith("JobHeld")
    new = await gangs.join(gangs.member(begin="now+1hour"), members[1])
    assert base(new) == base(jobs[1])
    assert (await gangs.engine.jobs())[new].reason != "WaitingForGang"
    await asyncio.gather(gangs.engine.cancel(new), gangs.engine.cancel(jobs[1]))
    await gangs.until(new, JobState.CANCELLED)


async def test_a_gang_is_requeued_once_for_all_that_want_it(gangs: Gangs):
    """It runs again under its number; who does not want to stays as it ended."""
    once = 'if [ -e "$1/once" ]; then exit 0; fi; touch "$1/once"; ' + WAIT
    wishes = ("requeue", "requeue", "fail")
    members = [gangs.member(once, on_timeout=wish) for wish in wishes]
    jobs = await gangs.submit(*members)
    await gangs.claimed(*members)
    await gangs.site.commands.run("scancel", base(jobs[0]))  # as its time limit would end it
    for job in jobs:
        await gangs.until(job, JobState.CANCELLED)
    await asyncio.gather(*(gangs.engine.requeue(job) for job in jobs[:2]))
    for job in jobs[:2]:
        found = await gangs.until(job, JobState.COMPLETED)
        assert found.restarts == 1
    assert (await gangs.engine.jobs())[jobs[2]].state is JobState.TIMEOUT


async def test_who_met_its_limit_first_runs_again_with_the_others(gangs: Gangs):
    members = [gangs.member(on_timeout="requeue"), gangs.member(on_timeout="requeue")]
    jobs = await gangs.submit(*members)
    await gangs.claimed(*members)
    (folder,) = {(member.folder / "submit").resolve().parent for member in members}
    (folder / "0.end").write_text('{"state": "TIMEOUT", "code": 1, "time": 5.0}')
    with pytest.raises(WaitingForGang, match="still runs with others of its gang"):
        await gangs.engine.requeue(jobs[0])
    await asyncio.gather(*(gangs.engine.cancel(job) for job in jobs))


async def test_a_later_engine_knows_the_same_members(gangs: Gangs):
    members = [gangs.member(), gangs.member()]
    jobs = await gangs.submit(*members)
    gangs.engine = gangs.site.another_engine()
    assert [await gangs.engine.submit(member) for member in members] == jobs
    assert set(jobs) <= set(await gangs.engine.jobs())
    for job in jobs:
        await gangs.engine.cancel(job)


async def test_a_gang_whose_number_nobody_heard_is_found_again(gangs: Gangs):
    """Killed between sbatch's success and its answer: no second job."""
    members = [gangs.member(), gangs.member()]
    jobs = await gangs.submit(*members)
    (submit,) = {(member.folder / "submit").resolve() for member in members}
    submit.write_text("")
    gangs.engine = gangs.site.another_engine()
    assert [await gangs.engine.submit(member) for member in members] == jobs
    assert await gangs.site.jobs_in_slurm() == [base(jobs[0])]
    for job in jobs:
        await gangs.engine.cancel(job)


async def test_a_gang_that_was_never_handed_in_begins_again(gangs: Gangs):
    """Killed between its folder and sbatch."""
    others = [gangs.member("exit 0"), gangs.member("exit 0")]
    engine = gangs.site.another_engine()
    peers = frozenset(uid_of(member.pod) for member in others)
    gang = Gang("default/gang/h", "default/h", 2, peers)
    first, second = (replace(one, gang=gang) for one in others)
    roster = await call([first, second], engine.site.spec)
    packing = pack(roster.shapes)
    folders = GangFolders(Paths(gangs.site.home).gangs)
    folders.make(kept_of(first, roster, packing)).enlist(roster.recruits, packing)
    gangs.engine = gangs.site.another_engine()
    again = await gangs.submit(*others, name="h")
    assert len({base(job) for job in again}) == 1
    for job in again:
        await gangs.until(job, JobState.COMPLETED)


async def test_members_that_all_ask_at_once_are_one_job_with_one_number_each(
    gangs: Gangs, monkeypatch: pytest.MonkeyPatch
):
    """Also while one of them submits for all, on a file system that takes its time."""
    follow = job_arrays.follow
    slowly = lambda pod, folder: (follow(pod, folder), time.sleep(0.1))  # noqa: E731
    monkeypatch.setattr(job_arrays, "follow", slowly)
    members = [gangs.member() for _ in range(6)]
    peers = frozenset(uid_of(member.pod) for member in members)
    gang = Gang("default/gang/g", "default/g", 6, peers)

    async def insist(member: Submission) -> JobId:
        while True:
            try:
                return await gangs.engine.submit(replace(member, gang=gang))
            except WaitingForGang:
                await asyncio.sleep(0.25)

    async with asyncio.timeout(60):
        jobs = await asyncio.gather(*(insist(member) for member in members))
    number = base(jobs[0])
    assert sorted(jobs) == [f"{number}+{n}" for n in range(6)]
    await asyncio.gather(*(gangs.engine.cancel(job) for job in jobs))


async def test_a_gang_larger_than_the_partition_is_refused_with_what_it_asks_for(gangs: Gangs):
    members = [gangs.member(cpus_per_task=cpus) for cpus in ("8", "8", "1")]
    peers = frozenset(uid_of(member.pod) for member in members)
    gang = Gang("default/gang/g", "default/g", 3, peers)
    for member in members[:2]:
        with pytest.raises(WaitingForGang):
            await gangs.engine.submit(replace(member, gang=gang))
    with pytest.raises(SubmitRejected, match=r"3 members ask for 17 CPUs.* main has 16"):
        await gangs.engine.submit(replace(members[2], gang=gang))


async def test_a_large_member_beside_small_ones_is_taken_where_all_of_them_fit(gangs: Gangs):
    members = [gangs.member("exit 0", cpus_per_task=cpus) for cpus in ("8", "1", "1", "1")]
    for job in await gangs.submit(*members):
        await gangs.until(job, JobState.COMPLETED)


async def test_members_that_do_not_go_together_are_all_told_so(gangs: Gangs):
    members = [gangs.member(time="1"), gangs.member(nice="5"), gangs.member(nice="7")]
    peers = frozenset(uid_of(member.pod) for member in members)
    gang = Gang("default/gang/g", "default/g", 3, peers)
    asked = [replace(member, gang=gang) for member in members]
    for member in asked[:2]:
        with pytest.raises(WaitingForGang):
            await gangs.engine.submit(member)
    for member in (asked[2], *asked):
        with pytest.raises(ConfigError, match=r"--nice=5 .* --nice=7 .* must agree"):
            await gangs.engine.submit(member)
    assert await gangs.site.jobs_in_slurm() == []
    assert not any((member.folder / "submit").exists() for member in members)


async def test_each_member_has_gpus_of_its_own(
    slurm_with: StartSlurm, on_cluster: Callable[..., Site], leader: bytes
):
    gangs = Gangs(on_cluster(slurm_with(Spec(nodes=2, gpus=2))), leader)
    say = 'echo "$SLURMD_NODENAME $CUDA_VISIBLE_DEVICES" > "$1/gpus"; ' + WAIT
    workers = [gangs.member(say, gres="gpu:1") for _ in range(4)]
    driver = gangs.member(say)
    jobs = await gangs.submit(driver, *workers)
    await gangs.claimed(driver, *workers)
    for member in (driver, *workers):
        (member.folder / "go").touch()
    for job in jobs:
        await gangs.until(job, JobState.COMPLETED)
    await gangs.end()
    seen = sorted((worker.folder / "gpus").read_text().strip() for worker in workers)
    assert seen == ["n1 0", "n1 1", "n2 0", "n2 1"]
    assert len((driver.folder / "gpus").read_text().split()) == 1, "it has asked for none"
