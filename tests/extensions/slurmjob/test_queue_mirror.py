"""The queue as objects: what is shown, what deleting one does, and when it goes."""

from __future__ import annotations

import asyncio
from typing import Any

from orlop import errors
from orlop.api.kinds import NAMESPACE
from orlop.api.objects import Key, Obj, annotations_of, labels_of, meta
from orlop.extensions.slurmjob.kinds import QUEUE_NAMESPACE, SLURM_JOB
from orlop.slurm import states
from orlop.slurm.query.user_jobs import UserJob
from tests.controllers.world import eventually, stays
from tests.extensions.slurmjob.conftest import Site


def put(site: Site, id: str, word: str = "RUNNING", **fields: Any) -> None:
    fields = {"partition": "main", "name": "train", "submitted": 1.0} | fields
    site.slurm.jobs[id] = UserJob(id, states.state_of(word), word, **fields)


async def shown(site: Site, number: str, **fields: Any) -> Obj:
    async def is_so() -> Obj:
        found = await site.cluster.get(SLURM_JOB, f"job-{number}", QUEUE_NAMESPACE)
        for field, value in fields.items():
            assert found["status"][field] == value
        return found

    return await eventually(is_so, within=60)


async def count(site: Site, expected: int) -> None:
    assert len(await site.cluster.list(SLURM_JOB, QUEUE_NAMESPACE)) == expected


async def test_a_job_is_shown_until_slurm_forgets_it(site: Site) -> None:
    put(site, "7", account="research", node_list="n[1-2]", nodes=2)
    async with site.running():
        found = await shown(site, "7", state="RUNNING", nodeList="n[1-2]", jobName="train")
        assert found["spec"] == {"jobId": "7"}
        assert labels_of(found)["slurm.orlop.dev/shown"] == "other"
        site.slurm.become("7", "TIMEOUT")
        await shown(site, "7", state="TIMEOUT", phase="Failed")
        site.slurm.forget("7")
        await eventually(lambda: count(site, 0), within=60)


async def test_an_array_is_one_object(site: Site) -> None:
    for task in range(5):
        put(site, f"8_{task}", "RUNNING" if task < 2 else "PENDING")
    async with site.running():
        found = await shown(site, "8", phase="Running")
        counts = {"total": 5, "running": 2, "pending": 3, "succeeded": 0, "failed": 0}
        assert found["status"]["arrayTasks"] == counts
        await count(site, 1)


async def test_the_job_of_a_pod_says_which(site: Site) -> None:
    put(site, "9", name="ns/web", comment="orlop:c0ffee:uid-of-pod")
    async with site.running():
        found = await shown(site, "9")
    assert labels_of(found)["slurm.orlop.dev/shown"] == "pod"
    assert annotations_of(found)["slurm.orlop.dev/pod"] == "ns/web"


async def test_the_job_of_many_pods_names_none(site: Site) -> None:
    put(site, "9", name="ns/gang", comment="orlop:c0ffee:gang-1234")
    async with site.running():
        found = await shown(site, "9")
    assert labels_of(found)["slurm.orlop.dev/shown"] == "pod"
    assert annotations_of(found) == {}


async def test_the_job_of_a_slurm_job_is_not_shown_twice(site: Site) -> None:
    put(site, "7")
    async with site.running():
        await site.create("mine")
        await site.reach("mine", jobId="101", partition="main")
        await shown(site, "7")
        await count(site, 1)


async def test_deleting_it_cancels_the_job(site: Site) -> None:
    put(site, "7")
    async with site.running():
        await shown(site, "7")
        await site.cluster.api.delete(SLURM_JOB, Key(QUEUE_NAMESPACE, "job-7"))
        await eventually(lambda: count(site, 0), within=60)
        # Slurm remembers it for a while; it does not come back.
        await stays(lambda: count(site, 0))
    assert site.slurm.jobs["7"].word == "CANCELLED"


async def test_deleting_the_namespace_cancels_nothing(site: Site) -> None:
    put(site, "7")
    async with site.running():
        first = await shown(site, "7")
        await site.cluster.api.delete(NAMESPACE, Key("", QUEUE_NAMESPACE))
        # As the namespace controller empties it.
        await site.cluster.api.delete(SLURM_JOB, Key(QUEUE_NAMESPACE, "job-7"))

        async def gone() -> None:
            found = await site.cluster.find(SLURM_JOB, "job-7", QUEUE_NAMESPACE)
            assert found is None or meta(found)["uid"] != meta(first)["uid"]

        await eventually(gone, within=60)
    assert site.slurm.scancels == []


async def test_what_was_forgotten_meanwhile_goes_at_the_next_start(site: Site) -> None:
    put(site, "7")
    async with site.running():
        await shown(site, "7")
    site.slurm.forget("7")
    async with site.running():
        await eventually(lambda: count(site, 0), within=60)


async def test_nobody_else_shows_jobs(site: Site) -> None:
    async with site.running():
        await site.create("other")
        body = {"metadata": {"name": "x"}, "spec": {"jobId": "7"}}
        await site.cluster.create(SLURM_JOB, body)
        await site.reach("x", phase="Failed", reason="InvalidSpec")


async def test_many_jobs_at_rest_cost_no_write(site: Site) -> None:
    for number in range(1, 201):
        put(site, str(number), "PENDING", reason="Priority")
    async with site.running():

        async def settled() -> None:
            found = await site.cluster.list(SLURM_JOB, QUEUE_NAMESPACE)
            assert sum("status" in one for one in found) == 200

        await eventually(settled, within=60)
        found = await site.cluster.list(SLURM_JOB, QUEUE_NAMESPACE)
        versions = {meta(one)["resourceVersion"] for one in found}
        await asyncio.sleep(0.3)
        found = await site.cluster.list(SLURM_JOB, QUEUE_NAMESPACE)
        assert {meta(one)["resourceVersion"] for one in found} == versions


async def test_a_job_whose_object_was_taken_away_is_still_listed(site: Site) -> None:
    put(site, "7")
    async with site.running():
        await shown(site, "7")
        status = {"status": {"state": "NONSENSE"}}
        try:
            key = Key(QUEUE_NAMESPACE, "job-7")
            await site.cluster.api.patch(SLURM_JOB, key, status, subresource="status")
        except errors.Conflict:
            pass
        await shown(site, "7", state="RUNNING")
