"""Pods from templates, in batches that start slowly."""

from __future__ import annotations

import asyncio

import pytest

from orlop import errors
from orlop.api.kinds import EVENT, POD, REPLICA_SET
from orlop.api.objects import controller_of, meta, uid_of
from orlop.api.times import rfc3339
from orlop.client.recorder import Recorder
from orlop.controllers.workloads.pod_control import (
    BatchFailed,
    PodControl,
    deep_copy,
    is_available,
    is_namespace_terminating,
    pod_from_template,
    seconds_until_available,
    slow_start,
    watched_fields,
)
from tests.controllers.world import World, pod, workload

NOW = 1_800_000_000.0
OWNER = {
    "apiVersion": "apps/v1",
    "kind": "ReplicaSet",
    "metadata": {"name": "web", "namespace": "ns", "uid": "u"},
}


def ready(since: float | None, status: str = "True") -> dict:
    condition = {"type": "Ready", "status": status}
    if since is not None:
        condition["lastTransitionTime"] = rfc3339(since)
    return {"metadata": {"name": "p"}, "status": {"phase": "Running", "conditions": [condition]}}


def test_a_pod_carries_what_its_template_says_and_whose_it_is():
    template = {
        "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}, "finalizers": ["e/f"]},
        "spec": {"containers": [{"name": "main"}]},
    }
    made = pod_from_template(template, OWNER)
    metadata = made["metadata"]
    assert metadata["generateName"] == "web-"
    assert (metadata["labels"], metadata["annotations"]) == ({"a": "b"}, {"c": "d"})
    assert metadata["finalizers"] == ["e/f"]
    assert controller_of(made)["uid"] == "u"
    made["spec"]["containers"][0]["name"] = "changed"
    assert template["spec"]["containers"][0]["name"] == "main"


def test_a_pod_may_be_named():
    metadata = pod_from_template({"spec": {}}, OWNER, "web-3")["metadata"]
    assert metadata["name"] == "web-3"
    assert "generateName" not in metadata


def test_a_fresh_copy_shares_nothing():
    original = {"a": [{"b": 1}]}
    copied = deep_copy(original)
    copied["a"][0]["b"] = 2
    assert original == {"a": [{"b": 1}]}


@pytest.mark.parametrize(
    ("one", "min_ready", "available"),
    [
        (ready(NOW), 0, True),
        (ready(NOW - 5), 10, False),
        (ready(NOW - 10), 10, True),
        (ready(NOW - 99, "False"), 0, False),
        (ready(None), 0, True),
        (ready(None), 10, False),
    ],
    ids=["at once", "too soon", "in time", "not ready", "no time needed", "no time known"],
)
def test_availability(one, min_ready, available):
    assert is_available(one, min_ready, NOW) is available


def test_how_long_until_a_pod_is_available():
    assert seconds_until_available(ready(NOW - 4), 10, NOW) == 6


CHANGES = {
    "phase": lambda p: p["status"].update(phase="Failed"),
    "readiness": lambda p: p["status"].update(conditions=[{"type": "Ready", "status": "False"}]),
    "labels": lambda p: p["metadata"].update(labels={"x": "y"}),
    "deletion": lambda p: p["metadata"].update(deletionTimestamp="now"),
    "owner": lambda p: p["metadata"].update(ownerReferences=[{"uid": "u"}]),
    "finalizers": lambda p: p["metadata"].update(finalizers=["f"]),
    "restarts": lambda p: p["status"].update(containerStatuses=[{"restartCount": 1}]),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_what_a_controller_must_see(change):
    before, after = ready(NOW), ready(NOW)
    change(after)
    assert watched_fields(before) != watched_fields(after)


def test_what_a_controller_need_not_see():
    before, after = ready(NOW), ready(NOW)
    after["status"]["message"] = "words"
    after["metadata"]["annotations"] = {"a": "b"}
    assert watched_fields(before) == watched_fields(after)


async def test_batches_double_while_all_goes_well():
    running, sizes = 0, []

    async def act(item: int) -> dict:
        nonlocal running
        running += 1
        await asyncio.sleep(0)
        sizes.append(running)
        await asyncio.sleep(0)
        running -= 1
        return {"item": item}

    made = await slow_start(range(10), act)
    assert [one["item"] for one in made] == list(range(10))
    assert sorted(set(sizes)) == [1, 2, 3, 4]


@pytest.mark.parametrize(("bad", "tried", "succeeded"), [(0, 1, 0), (2, 3, 2), (4, 7, 6)])
async def test_after_a_failed_batch_nothing_more_is_tried(bad, tried, succeeded):
    seen: list[int] = []

    async def act(item: int) -> dict:
        seen.append(item)
        if item == bad:
            raise errors.Forbidden("exceeded quota")
        return {"item": item}

    with pytest.raises(BatchFailed) as caught:
        await slow_start(range(20), act)
    assert len(seen) == tried
    assert len(caught.value.succeeded) == succeeded
    assert isinstance(caught.value.error, errors.Forbidden)


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (errors.Forbidden("x", details={"causes": [{"reason": "NamespaceTerminating"}]}), True),
        (errors.Forbidden("x", details={"causes": [{"reason": "Other"}]}), False),
        (errors.Forbidden("x"), False),
        (ValueError("x"), False),
    ],
)
def test_a_namespace_on_its_way_out_is_known_by_its_cause(error, answer):
    assert is_namespace_terminating(error) is answer


@pytest.fixture
async def owner(cluster: World) -> dict:
    return await cluster.create(REPLICA_SET, workload(REPLICA_SET, "web"))


async def test_after_a_refusal_the_cache_still_knows_what_was_made(cluster, owner):
    cluster.quota.pods_left = 4
    async with cluster.running() as informers:
        pods = informers.informer(POD)
        await pods.synced()
        control = PodControl(cluster.api, pods, Recorder(cluster.api, "test"))
        template = owner["spec"]["template"]
        with pytest.raises(errors.Forbidden, match="exceeded quota"):
            await control.create(owner, [pod_from_template(template, owner) for _ in range(10)])
        assert len(pods) == 4
    reasons = [one["reason"] for one in await cluster.list(EVENT)]
    assert {"SuccessfulCreate", "FailedCreate"} == set(reasons)


class Mute:
    """An API that does what it is asked for, and once does not say so."""

    def __init__(self, api) -> None:
        self._api = api
        self.is_mute = True

    def __getattr__(self, name: str):
        return getattr(self._api, name)

    async def create(self, kind, obj, *, namespace=""):
        made = await self._api.create(kind, obj, namespace=namespace)
        if kind == POD and self.is_mute:
            self.is_mute = False
            raise errors.Unavailable("the connection was lost")
        return made


async def test_after_a_lost_answer_nothing_is_made_twice(cluster, owner):
    async with cluster.running() as informers:
        pods = informers.informer(POD)
        await pods.synced()
        control = PodControl(Mute(cluster.api), pods, Recorder(cluster.api, "test"))
        template = owner["spec"]["template"]
        wanted = [pod_from_template(template, owner)]
        with pytest.raises(errors.Unavailable):
            await control.create(owner, wanted)
        with pytest.raises(errors.Conflict, match="counted anew"):
            await control.create(owner, wanted)
        assert len(pods) == 1
        await control.create(owner, wanted)
        assert len(pods) == 2


async def test_deleting_what_is_gone_is_no_failure(cluster, owner):
    made = await cluster.create(POD, pod("a", nodeName="n1"))
    stale = {**made, "metadata": {**meta(made), "uid": "of-an-earlier-pod"}}
    missing = {**made, "metadata": {**meta(made), "name": "missing"}}
    async with cluster.running() as informers:
        pods = informers.informer(POD)
        await pods.synced()
        control = PodControl(cluster.api, pods, Recorder(cluster.api, "test"))
        await control.delete(owner, [stale, missing])
        assert "deletionTimestamp" not in meta(await cluster.get(POD, "a"))
        await control.delete(owner, [made])
        assert "deletionTimestamp" in meta(await cluster.get(POD, "a"))
        assert uid_of(made) == uid_of(await cluster.get(POD, "a"))
