"""The engine while slurmctld, munged or a node fails, on a cluster of namespaces."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from orlop.engine import JobState
from orlop.errors import EngineUnavailable
from orlop.slurm.commands import Commands
from tests.cluster.cluster import SlurmCluster
from tests.cluster.spec import QUICK_TO_FAIL, Spec

from .conftest import Site, as_root

pytestmark = pytest.mark.slurm

# Slurm's own commands try for MessageTimeout before they give up.
QUICK = {"MessageTimeout": "2"}


async def calls(site: Site, job: str) -> list[BaseException | object]:
    """Every call of an engine at once; what each answered or raised."""
    engine = site.engine
    return await asyncio.gather(
        engine.version(),
        engine.machines(),
        engine.jobs(),
        engine.ended([job]),
        engine.terminate(job),
        engine.cancel(job),
        engine.submit(site.submission()),
        return_exceptions=True,
    )


async def test_while_slurmctld_is_down_every_call_says_so_and_nothing_else(
    new_slurm: Callable[[Spec], SlurmCluster], on_cluster: Callable[..., Site]
):
    cluster = new_slurm(Spec(nodes=1, settings=QUICK))
    site = on_cluster(cluster)
    job = await site.submit()
    waiting = site.submission()
    with as_root():
        cluster.stop_slurmctld()
    for answer in await calls(site, job):
        assert isinstance(answer, EngineUnavailable), answer
        assert "slurmctld" in str(answer)
    with pytest.raises(EngineUnavailable):
        await site.engine.submit(waiting)
    with as_root():
        cluster.start_slurmctld()
    found = await site.engine.jobs()
    assert found[job].state in (JobState.PENDING, JobState.RUNNING)
    submitted = await site.engine.submit(waiting)
    assert sorted(await site.jobs_in_slurm()) == sorted([job, submitted])


async def test_a_slurmctld_that_hangs_is_not_waited_for(
    new_slurm: Callable[[Spec], SlurmCluster], on_cluster: Callable[..., Site]
):
    cluster = new_slurm(Spec(nodes=1))
    site = on_cluster(cluster)
    job = await site.submit("/bin/true")
    impatient = Commands(site.commands.environ, 2.0, site.commands.through)
    site.engine = site.another_engine(commands=impatient)
    signal_slurmctld(cluster, "STOP")
    try:
        async with asyncio.timeout(20):
            answers = await calls(site, job)
    finally:
        signal_slurmctld(cluster, "CONT")
    for answer in answers:
        assert isinstance(answer, EngineUnavailable), answer
        assert "did not answer within 2 s" in str(answer)


def signal_slurmctld(cluster: SlurmCluster, name: str) -> None:
    with as_root():
        pid = (cluster.root / "slurmctld.pid").read_text().strip()
        cluster.run("head", ["kill", f"-{name}", pid])


async def test_without_munged_every_call_says_so(
    new_slurm: Callable[[Spec], SlurmCluster], on_cluster: Callable[..., Site]
):
    cluster = new_slurm(Spec(nodes=1, settings=QUICK))
    site = on_cluster(cluster)
    job = await site.submit("/bin/true")
    with as_root():
        (cluster.root / "munge" / "socket").rename(cluster.root / "munge" / "hidden")
    for answer in await calls(site, job):
        assert isinstance(answer, EngineUnavailable), answer
        assert "munged" in str(answer)


async def test_a_node_that_loses_its_power_fails_its_job(
    new_slurm: Callable[[Spec], SlurmCluster], on_cluster: Callable[..., Site]
):
    cluster = new_slurm(Spec(nodes=1, settings=QUICK_TO_FAIL))
    site = on_cluster(cluster)
    job = await site.submit()
    await site.wait_for(job, lambda job: job.state is JobState.RUNNING)
    with as_root():
        cluster.power_off("n1")
    found = await site.wait_for(job, lambda job: job.state.has_ended, timeout=100)
    assert found.state is JobState.NODE_FAIL
    assert found.nodes == ("n1",)
    assert "NODE_FAIL" in found.message
    (machine, *_) = await site.engine.machines()
    assert not machine.is_ready
    assert "down" in machine.message


async def test_commands_that_are_not_there_are_told_with_the_remedy(tmp_path):
    commands = Commands({"PATH": str(tmp_path)}, 2.0)
    site = Site(tmp_path, commands, "root")
    with pytest.raises(EngineUnavailable, match=r"scontrol is not in PATH; load the .* module"):
        await site.engine.version()
