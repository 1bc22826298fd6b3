"""The engine on a cluster of several nodes: features, GPUs, places, partitions that close."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from orlop.engine import JobState, Submission
from orlop.errors import SubmitDeferred, SubmitRejected
from tests.cluster.cluster import SlurmCluster
from tests.cluster.spec import Partition, Spec

from .conftest import Site, as_root

pytestmark = pytest.mark.slurm

# What is asked for by name, all on one cluster.
EQUIPPED = Spec(
    nodes=2,
    gpus=2,
    gres={"nvme": 3},
    scratch=5000,
    switches={"s1": "n1", "s2": "n2"},
    settings={"Licenses": "matlab:1"},
)


def has_ended(job) -> bool:
    return job.state.has_ended


async def test_a_node_selector_on_features_chooses_the_node(
    slurm: SlurmCluster, on_cluster: Callable[..., Site]
):
    site = on_cluster(slurm)
    submission = site.submission(("/bin/hostname",))
    features = {"feature.slurm.orlop.dev/amd": "true", "feature.slurm.orlop.dev/ib": "true"}
    submission.pod["spec"]["nodeSelector"] = features
    job = await site.engine.submit(submission)
    assert (await site.wait_for(job, has_ended)).nodes == ("n3",)
    assert (submission.folder / "slurm.out").read_text() == "n3\n"


async def test_a_job_over_several_nodes_has_them_all(
    slurm: SlurmCluster, on_cluster: Callable[..., Site]
):
    site = on_cluster(slurm)
    job = await site.submit("/bin/true", nodes="3", exclusive="true")
    found = await site.wait_for(job, has_ended)
    assert len(found.nodes) == 3
    assert found.state is JobState.COMPLETED


async def test_machines_are_the_partitions(slurm: SlurmCluster, on_cluster: Callable[..., Site]):
    site = on_cluster(slurm)
    machines = {machine.name: machine for machine in await site.engine.machines()}
    assert machines["main"].hosts == ("n1", "n2", "n3", "n4")
    assert machines["main"].cpus == 32
    assert machines["single"].hosts == ("n1",)
    for name in ("main", "single"):  # n1 has it, which is in both
        assert "feature.slurm.orlop.dev/intel" in machines[name].labels


async def test_gpus_are_asked_for_and_given(
    slurm_with: Callable[[Spec], SlurmCluster], on_cluster: Callable[..., Site]
):
    site = on_cluster(slurm_with(EQUIPPED))
    machines = {machine.name: machine for machine in await site.engine.machines()}
    assert machines["main"].resources == {
        "nvidia.com/gpu": 4,
        "nvidia.com/gpu-fake": 4,
        "slurm.orlop.dev/gres-gpu": 4,
        "slurm.orlop.dev/gres-gpu.fake": 4,
        "slurm.orlop.dev/gres-nvme": 6,
        "slurm.orlop.dev/license-matlab": 1,
        "ephemeral-storage": 10000 << 20,
    }
    submission = asking(site, "echo $CUDA_VISIBLE_DEVICES", {"nvidia.com/gpu": 2})
    job = await site.engine.submit(submission)
    await site.wait_for(job, has_ended)
    assert (submission.folder / "slurm.out").read_text() == "0,1\n"


def asking(site: Site, script: str, limits: Mapping[str, int | str]) -> Submission:
    submission = site.submission(("/bin/sh", "-c", script))
    submission.pod["spec"]["containers"] = [{"name": "x", "resources": {"limits": limits}}]
    return submission


async def test_typed_gpus_and_other_generic_resources_arrive_in_the_job(
    slurm_with: Callable[[Spec], SlurmCluster], on_cluster: Callable[..., Site]
):
    site = on_cluster(slurm_with(EQUIPPED))
    await site.engine.machines()
    limits = {
        "nvidia.com/gpu-fake": 1,
        "slurm.orlop.dev/gres-nvme": 2,
        "ephemeral-storage": "1000Mi",
    }
    submission = asking(site, "scontrol -d show job $SLURM_JOB_ID; env", limits)
    await site.wait_for(await site.engine.submit(submission), has_ended)
    told = (submission.folder / "slurm.out").read_text()
    assert "CUDA_VISIBLE_DEVICES=0\n" in told
    assert "gpu:fake:1" in told
    assert "nvme:2" in told
    assert "MinTmpDiskNode=1000M" in told


async def test_who_selects_a_switch_is_given_a_host_there(
    slurm_with: Callable[[Spec], SlurmCluster], on_cluster: Callable[..., Site]
):
    site = on_cluster(slurm_with(EQUIPPED))
    machines = {machine.name: machine for machine in await site.engine.machines()}
    labels = machines["main"].labels
    for switch, host in EQUIPPED.switches.items():
        label = f"switch.slurm.orlop.dev/{switch}"
        assert labels[label] == "true"
        submission = site.submission(("/bin/true",))
        submission.pod["spec"]["nodeSelector"] = {label: "true"}
        job = await site.engine.submit(submission)
        assert (await site.wait_for(job, has_ended)).nodes == (host,)


async def test_a_type_that_is_not_there_is_refused_at_once(
    slurm_with: Callable[[Spec], SlurmCluster], on_cluster: Callable[..., Site]
):
    site = on_cluster(slurm_with(EQUIPPED))
    with pytest.raises(SubmitRejected, match="node configuration is not available"):
        await site.engine.submit(asking(site, "true", {"nvidia.com/gpu-a100": 1}))


async def test_licences_queue_as_slurm_says(
    slurm_with: Callable[[Spec], SlurmCluster], on_cluster: Callable[..., Site]
):
    site = on_cluster(slurm_with(EQUIPPED))
    one = {"slurm.orlop.dev/license-matlab": 1}
    first = await site.engine.submit(asking(site, "sleep 600", one))
    await site.wait_for(first, lambda job: job.state is JobState.RUNNING)
    second = await site.engine.submit(asking(site, "true", one))
    found = await site.wait_for(second, lambda job: job.reason == "Licenses")
    assert "it waits for a licence" in found.message
    await site.engine.cancel(first)
    assert (await site.wait_for(second, has_ended)).state is JobState.COMPLETED


async def test_one_who_waits_for_resources_says_so(
    slurm_with: Callable[[Spec], SlurmCluster], on_cluster: Callable[..., Site]
):
    site = on_cluster(slurm_with(EQUIPPED))
    first = await site.submit(exclusive="true", nodes="2", time="10")
    await site.wait_for(first, lambda job: job.state is JobState.RUNNING)
    second = await site.submit(exclusive="true")
    found = await site.wait_for(second, lambda job: job.reason == "Resources")
    assert "first in line" in found.message
    expected = await site.wait_for(second, lambda job: "expected to start about" in job.message)
    assert expected.started is None
    for job in (first, second):
        await site.engine.cancel(job)


async def test_a_partition_that_drains_defers_and_then_takes_the_pod(
    new_slurm: Callable[[Spec], SlurmCluster], on_cluster: Callable[..., Site]
):
    cluster = new_slurm(Spec(nodes=1))
    site = on_cluster(cluster)
    submission = site.submission(("/bin/true",), machine="short")
    set_partition(cluster, "drain")
    with pytest.raises(SubmitDeferred, match="partition is closed"):
        await site.engine.submit(submission)
    closed = {machine.name: machine for machine in await site.engine.machines()}["short"]
    assert (closed.is_ready, closed.is_schedulable) == (True, False)
    set_partition(cluster, "up")
    job = await site.engine.submit(submission)
    assert (await site.wait_for(job, has_ended)).state is JobState.COMPLETED


def set_partition(cluster: SlurmCluster, state: str) -> None:
    with as_root():
        cluster.run("head", ["scontrol", "update", "PartitionName=short", f"State={state}"])


OTHERS = (
    Partition("main", settings={"Default": "YES"}),
    Partition("staff", settings={"AllowGroups": "games"}),
)


async def test_a_partition_of_a_group_that_is_not_ours(
    new_slurm: Callable[[Spec], SlurmCluster], on_cluster: Callable[..., Site]
):
    """Slurm 22.05 refuses it in any case, newer ones where they are told to."""
    spec = Spec(nodes=1, partitions=OTHERS, settings={"EnforcePartLimits": "ALL"})
    site = on_cluster(new_slurm(spec))
    with pytest.raises(SubmitRejected, match="group not permitted") as caught:
        await site.submit(machine="staff")
    assert "(partitions: main)" in str(caught.value)  # Slurm shows us no other


async def test_a_partition_of_a_group_that_is_not_ours_where_slurm_takes_the_job_all_the_same(
    new_slurm: Callable[[Spec], SlurmCluster], on_cluster: Callable[..., Site]
):
    site = on_cluster(new_slurm(Spec(nodes=1, partitions=OTHERS)))
    if await site.engine.version() < "Slurm 23":
        with pytest.raises(SubmitRejected, match="group not permitted"):
            await site.submit(machine="staff")
        return
    job = await site.submit(machine="staff")
    found = await site.wait_for(job, lambda job: job.is_hopeless)
    assert (found.state, found.reason) == (JobState.PENDING, "GroupNotAllowed")
    assert "its partition is for groups of which you are in none" in found.message
    assert "use another partition" in found.message


async def test_a_job_in_a_hidden_partition_is_seen(
    new_slurm: Callable[[Spec], SlurmCluster], on_cluster: Callable[..., Site]
):
    hidden = Partition("hidden", settings={"Hidden": "YES"})
    site = on_cluster(new_slurm(Spec(nodes=1, partitions=(OTHERS[0], hidden))))
    job = await site.submit(machine="hidden")
    assert (await site.wait_for(job, lambda job: job.state is JobState.RUNNING)).id == job


async def test_a_job_over_its_memory_is_out_of_memory(
    slurm_with: Callable[[Spec], SlurmCluster], on_cluster: Callable[..., Site]
):
    site = on_cluster(slurm_with(Spec(nodes=1, cgroups=True)))
    greedy = "x = bytearray(400_000_000); import time; time.sleep(60)"
    job = await site.submit("/usr/bin/python3", "-c", greedy, mem="60M")
    found = await site.wait_for(job, has_ended)
    assert (found.state, found.reason) == (JobState.OUT_OF_MEMORY, "OutOfMemory")


async def test_a_job_that_gives_way_to_another_is_preempted(
    new_slurm: Callable[[Spec], SlurmCluster], on_cluster: Callable[..., Site]
):
    low = Partition("main", settings={"Default": "YES", "PriorityTier": "1"})
    high = Partition("urgent", settings={"PriorityTier": "10"})
    settings = {"PreemptType": "preempt/partition_prio", "PreemptMode": "CANCEL"}
    site = on_cluster(new_slurm(Spec(nodes=1, partitions=(low, high), settings=settings)))
    victim = await site.submit(exclusive="true")
    await site.wait_for(victim, lambda job: job.state is JobState.RUNNING)
    await site.submit(machine="urgent", exclusive="true")
    found = await site.wait_for(victim, has_ended)
    assert found.state is JobState.PREEMPTED
