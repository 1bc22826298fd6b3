"""What the scheduler writes on pods."""

from __future__ import annotations

import pytest

from orlop import errors
from orlop.api.kinds import POD
from orlop.api.objects import condition_of, meta
from orlop.api.times import rfc3339
from orlop.scheduler.bind import bind, mark_unschedulable
from tests.controllers.world import World, pod
from tests.scheduler.nodes import a_node

NOW = 1_800_000_000.0


async def test_a_binding_is_for_the_pod_that_was_meant(cluster: World):
    made = await cluster.create(POD, pod("a"))
    other = {**made, "metadata": {**meta(made), "uid": "of-another"}}
    with pytest.raises(errors.Conflict):
        await bind(cluster.api, other, a_node("n1"))
    await bind(cluster.api, made, a_node("n1"))
    assert (await cluster.get(POD, "a"))["spec"]["nodeName"] == "n1"


async def test_a_pod_is_bound_once(cluster: World):
    made = await cluster.create(POD, pod("a"))
    await bind(cluster.api, made, a_node("n1"))
    with pytest.raises(errors.Conflict):
        await bind(cluster.api, made, a_node("n2"))


async def test_a_reason_is_written_once_and_keeps_its_time(cluster: World):
    made = await cluster.create(POD, pod("a"))
    assert await mark_unschedulable(cluster.api, made, "no node", NOW)
    first = await cluster.get(POD, "a")
    assert not await mark_unschedulable(cluster.api, first, "no node", NOW + 60)
    assert await mark_unschedulable(cluster.api, first, "another reason", NOW + 60)
    told = condition_of(await cluster.get(POD, "a"), "PodScheduled")
    assert told["message"] == "another reason"
    assert told["lastTransitionTime"] == rfc3339(NOW)


async def test_a_pod_that_changed_meanwhile_is_not_written_over(cluster: World):
    made = await cluster.create(POD, pod("a"))
    await cluster.patch(POD, "a", {"metadata": {"labels": {"x": "y"}}})
    with pytest.raises(errors.Conflict):
        await mark_unschedulable(cluster.api, made, "no node", NOW)
