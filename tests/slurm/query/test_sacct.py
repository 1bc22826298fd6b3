"""The engine on a Slurm with accounts: what users may charge, and what sacct remembers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from orlop.engine import JobState
from orlop.errors import SubmitDeferred, SubmitRejected
from orlop.settings import Paths
from orlop.slurm.jobs import SlurmEngine
from orlop.slurm.query import detect
from tests.cluster.cluster import SlurmCluster
from tests.cluster.spec import Spec

from ..conftest import Site, as_root

pytestmark = pytest.mark.slurm


@pytest.fixture
def site(slurm_with: Callable[[Spec], SlurmCluster], on_cluster: Callable[..., Site]) -> Site:
    return on_cluster(slurm_with(Spec(nodes=1, accounting=True)))


def forgetful(site: Site) -> SlurmEngine:
    """An engine to which slurmctld lists nothing, as if MinJobAge had passed."""
    return SlurmEngine(site.settings, Paths(site.home), "another-cluster", site.commands)


def has_ended(job) -> bool:
    return job.state.has_ended


async def test_the_accounting_is_seen(site: Site):
    facts = await detect.slurm(site.commands)
    assert facts.has_accounting
    assert facts.enforces_accounts


async def test_the_users_accounts_and_qos_are_known(site: Site):
    found = await detect.associations(site.commands)
    assert "research" in {association.account for association in found}
    assert {"high", "low"} & {name for association in found for name in association.qos}
    assert any(association.is_default for association in found)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"account": "nosuch"}, ["Invalid account", "slurm.orlop.dev/account", "research"]),
        ({"qos": "nosuch"}, ["Invalid qos", "slurm.orlop.dev/qos", "your QOS"]),
    ],
)
async def test_a_bad_account_or_qos_is_refused_with_those_there_are(site: Site, options, words):
    with pytest.raises(SubmitRejected) as caught:
        await site.submit(**options)
    for word in words:
        assert word in str(caught.value)


async def test_a_limit_of_queued_jobs_defers_until_there_is_room(
    new_slurm: Callable[[Spec], SlurmCluster], on_cluster: Callable[..., Site]
):
    cluster = new_slurm(Spec(nodes=1, accounting=True))
    site = on_cluster(cluster)
    with as_root():
        limit = ["modify", "user", cluster.user, "set", "MaxSubmitJobs=1"]
        cluster.run("head", ["sacctmgr", "-i", *limit])
    first = await site.submit(hold="true")
    second = site.submission(("/bin/true",))
    with pytest.raises(SubmitDeferred, match="when jobs have left the queue"):
        await site.engine.submit(second)
    await site.engine.cancel(first)
    await site.wait_for(first, has_ended)
    assert (await site.engine.submit(second)) != first


@contextmanager
def limited(cluster: SlurmCluster, *limit: str) -> Iterator[None]:
    """A limit of the QOS low, which nobody else here uses; -1 takes it away."""
    try:
        with as_root():
            cluster.run("head", ["sacctmgr", "-i", "modify", "qos", "low", "set", *limit])
        yield
    finally:
        off = [f"{word.rpartition('=')[0]}=-1" for word in limit]
        with as_root():
            cluster.run("head", ["sacctmgr", "-i", "modify", "qos", "low", "set", *off])


async def test_a_job_beyond_a_limit_that_others_share_is_told_that_it_never_starts(
    slurm_with: Callable[[Spec], SlurmCluster], site: Site
):
    cluster = slurm_with(Spec(nodes=1, accounting=True))
    with limited(cluster, "GrpTRES=cpu=2"):
        beyond = await site.submit(qos="low", cpus_per_task="4")
        found = await site.wait_for(beyond, lambda job: job.reason == "QOSGrpCpuLimit")
        assert found.is_hopeless
        assert "it asks for 4 CPUs, and QOS low may have 2 at once (GrpTRES)" in found.message
        await site.engine.cancel(beyond)
        runs = await site.submit(qos="low", cpus_per_task="2")
        await site.wait_for(runs, lambda job: job.state is JobState.RUNNING)
        waits = await site.submit(qos="low", cpus_per_task="2")
        found = await site.wait_for(waits, lambda job: job.reason == "QOSGrpCpuLimit")
        assert not found.is_hopeless
        assert "it starts when other jobs have ended" in found.message
        for job in (runs, waits):
            await site.engine.cancel(job)


async def test_a_refusal_names_the_limit_and_a_quota_may_mirror_it(
    slurm_with: Callable[[Spec], SlurmCluster], site: Site
):
    cluster = slurm_with(Spec(nodes=1, accounting=True))
    with limited(cluster, "GrpTRES=cpu=3", "MaxSubmitJobsPerUser=9", "Flags=DenyOnLimit"):
        site.engine = site.another_engine()
        with pytest.raises(SubmitRejected, match=r"asks for 4 CPUs, and QOS low may have 3"):
            await site.submit(qos="low", cpus_per_task="4")
        notes = {"slurm.orlop.dev/qos": "low"}
        assert await site.engine.quota("default", notes) == {"requests.cpu": "3", "pods": "9"}


async def test_the_qos_of_a_partition_is_known(
    slurm_with: Callable[[Spec], SlurmCluster], site: Site
):
    cluster = slurm_with(Spec(nodes=1, accounting=True))
    assert (await detect.limits(site.commands)).of_partitions == {}
    try:
        with as_root():
            cluster.run("head", ["scontrol", "update", "partitionname=main", "qos=low"])
        found = await detect.limits(site.commands)
        assert found.of_partitions == {"main": "low", "": "low"}
    finally:
        with as_root():
            cluster.run("head", ["scontrol", "update", "partitionname=main", "qos="])


async def test_a_good_account_and_qos_are_taken(site: Site):
    job = await site.submit("/bin/true", account="research")
    assert (await site.wait_for(job, has_ended)).state is JobState.COMPLETED


@pytest.mark.parametrize(
    ("command", "state"),
    [(("/bin/true",), JobState.COMPLETED), (("/bin/false",), JobState.FAILED)],
)
async def test_a_job_that_slurmctld_forgot_is_remembered_by_sacct(site: Site, command, state):
    job = await site.submit(*command)
    listed = await site.wait_for(job, has_ended)
    found = await accounted(site, job)
    assert (found.state, found.nodes) == (state, listed.nodes)
    assert (found.submitted, found.started) == (listed.submitted, listed.started)
    assert found.ended == listed.ended


async def test_sacct_knows_who_was_cancelled(site: Site):
    job = await site.submit()
    await site.wait_for(job, lambda job: job.state is JobState.RUNNING)
    assert (await forgetful(site).ended([job]))[job].state is JobState.UNKNOWN
    await site.engine.cancel(job)
    await site.wait_for(job, has_ended)
    assert (await accounted(site, job)).state is JobState.CANCELLED


async def accounted(site: Site, job: str):
    """slurmctld tells slurmdbd a moment later, first of the end and then of what the job was."""
    async with asyncio.timeout(20):
        while True:
            found = (await forgetful(site).ended([job])).get(job)
            if found is not None and found.state.has_ended and found.partition:
                return found
            await asyncio.sleep(0.2)


async def test_many_are_asked_for_at_once_and_strangers_left_out(site: Site):
    jobs = [await site.submit("/bin/true") for _ in range(3)]
    for job in jobs:
        await site.wait_for(job, has_ended)
        await accounted(site, job)
    found = await forgetful(site).ended([*jobs, "999999"])
    assert set(found) == set(jobs)


async def test_a_job_that_the_accounting_calls_alive_for_ever_is_given_up(site: Site):
    job = await site.submit()
    await site.wait_for(job, lambda job: job.state is JobState.RUNNING)
    now = 0.0
    engine = SlurmEngine(
        site.settings, Paths(site.home), "another-cluster", site.commands, clock=lambda: now
    )
    assert (await engine.ended([job]))[job].state is JobState.UNKNOWN
    now = 299.0
    assert (await engine.ended([job]))[job].state is JobState.UNKNOWN
    now = 301.0
    assert await engine.ended([job]) == {}
    await site.engine.cancel(job)


async def test_a_lost_number_is_found_by_sacct_when_squeue_has_forgotten(site: Site):
    submission = site.submission(("/bin/true",))
    job = await site.engine.submit(submission)
    await site.wait_for(job, has_ended)
    await accounted(site, job)
    (submission.folder / "submit").write_text("")
    assert await forgetful(site).submit(submission) == job


async def test_partitions_refuse_what_is_too_long(site: Site):
    job = await site.submit(machine="short", time="10")
    found = await site.wait_for(job, lambda job: job.reason == "PartitionTimeLimit")
    assert "slurm.orlop.dev/time" in found.message
    await site.engine.cancel(job)


async def test_a_deadline_is_cut_to_what_the_partition_allows(site: Site):
    submission = site.submission(("/bin/true",), machine="short")
    submission.pod["spec"]["activeDeadlineSeconds"] = 86400
    job = await site.engine.submit(submission)
    assert "#SBATCH --time=00:05:00" in (submission.folder / "job.sh").read_text()
    assert (await site.wait_for(job, has_ended)).state is JobState.COMPLETED


async def test_the_machines_of_a_cluster(site: Site):
    machines = {machine.name: machine for machine in await site.engine.machines()}
    assert set(machines) == {"main", "short", "single"}
    assert machines["main"].is_default
    assert machines["short"].max_time == 300
    assert machines["single"].labels["feature.slurm.orlop.dev/intel"] == "true"


async def test_asking_for_the_site_costs_one_question_for_many_pods(site: Site, monkeypatch):
    asked: list[str] = []
    original = type(site.commands).run

    async def counted(self, program, *arguments, **more):
        asked.append(program)
        return await original(self, program, *arguments, **more)

    monkeypatch.setattr(type(site.commands), "run", counted)
    started = time.monotonic()
    jobs = [await site.submit("/bin/true") for _ in range(5)]
    assert len(set(jobs)) == 5
    assert asked == ["scontrol", "sinfo"]
    assert time.monotonic() - started < 10
