"""Many pods that start together: each is told, and none more often than it must be."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from orlop.api.kinds import POD
from orlop.api.objects import annotations_of
from orlop.client.informer import revision_of
from orlop.client.workqueue import Backoff
from orlop.errors import SubmitDeferred
from orlop.kubelet.pod import worker
from orlop.kubelet.start import preparer, starter

from .conftest import condition, eventually

MANY = 3 * starter.CROWD
JOB, ALLOCATED = "slurm.orlop.dev/job-id", "orlop.dev/Allocated"


@pytest.fixture
def gate(site, monkeypatch):
    """Lets the engine accept nothing before all pods wait for it, as one array would be."""
    opened, submit = asyncio.Event(), site.engine.submit
    asked = []

    async def gated(submission):
        asked.append(submission)
        if len(asked) == MANY:
            opened.set()
        await opened.wait()
        return await submit(submission)

    monkeypatch.setattr(site.engine, "submit", gated)


async def all_pods(site):
    return (await site.api.list(POD, "default")).items


async def test_the_news_of_many_pods_that_start_together_are_one_write_each(
    site, gate, monkeypatch
):
    for module, patience in ((preparer, "SLOW_EACH"), (worker, "TOGETHER")):
        monkeypatch.setattr(module, patience, 3600.0)  # however loaded the machine
    version = (await site.api.list(POD, "default")).resource_version
    await asyncio.gather(*(site.create(f"web-{number}") for number in range(MANY)))

    async def is_told():
        pods = await all_pods(site)
        return all(condition(pod, ALLOCATED).get("reason") == "Priority" for pod in pods)

    await eventually(is_told, "every pod shows why it waits", timeout=60)
    newest = max(revision_of(pod) for pod in await all_pods(site))
    writes: Counter[str] = Counter()
    async for event in site.api.watch(POD, "default", resource_version=version):
        if event.type == "MODIFIED":
            writes[event.object["metadata"]["name"]] += 1
        if revision_of(event.object) >= newest:
            break
    # The last few are no crowd any more: they are told at once, and then why they wait.
    assert sum(writes.values()) <= MANY + starter.CROWD


async def test_one_of_many_is_told_its_job_although_the_engine_says_nothing_of_it(
    site, gate, monkeypatch
):
    monkeypatch.setattr(worker, "TOGETHER", 0.05)

    monkeypatch.setattr(site.engine, "jobs", asyncio.Event().wait)  # for ever
    await asyncio.gather(*(site.create(f"web-{number}") for number in range(MANY)))

    async def is_told():
        return all(annotations_of(pod).get(JOB) for pod in await all_pods(site))

    await eventually(is_told, "every pod names its job", timeout=60)


def owned_by(uid):
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": uid, "uid": uid, "controller": True}
    return {"metadata": {"ownerReferences": [owner]}}


async def test_deferred_pods_of_one_owner_come_back_together_and_owners_by_turns(site):
    await site.restart(deferred=Backoff(10_000.0, 10_000.0))
    site.engine.refusal = SubmitDeferred("sbatch: Slurm is full; Orlop tries again")
    owners = {"one": "first", "two": "first", "other": "second"}
    uids = {name: await site.create(name, **owned_by(owner)) for name, owner in owners.items()}
    known = site.parts.shared.cache.pods

    def again():
        return [state.retry_at for uid in uids.values() if (state := known.get(uid)) is not None]

    await eventually(lambda: len(again()) == len(owners) and all(again()), timeout=60)
    one, two, other = again()
    assert abs(one - two) < 100 < abs(one - other)
    pod = await site.until(lambda pod: condition(pod, ALLOCATED), "one", timeout=60)
    assert condition(pod, ALLOCATED)["reason"] == "SubmitDeferred"
