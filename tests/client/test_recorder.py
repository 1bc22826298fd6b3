"""Events as `kubectl describe` shows them."""

from __future__ import annotations

import asyncio

import pytest

from orlop.api.kinds import EVENT, NODE, POD
from orlop.api.objects import key_of, uid_of
from orlop.api.times import rfc3339
from orlop.client.clock import ManualClock
from orlop.client.recorder import Recorder
from tests.controllers.world import World, pod


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def recorder(cluster: World, clock: ManualClock) -> Recorder:
    return Recorder(cluster.api, "tester", clock=clock)


async def test_an_event_names_its_object_its_source_and_its_time(cluster, recorder, clock):
    made = await cluster.create(POD, pod("a"))
    await recorder.event(made, "Warning", "Failed", "no", field_path="spec.containers{main}")
    (event,) = await cluster.list(EVENT)
    assert event["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": "default",
        "name": "a",
        "uid": uid_of(made),
        "fieldPath": "spec.containers{main}",
    }
    assert (event["type"], event["reason"], event["message"]) == ("Warning", "Failed", "no")
    assert event["source"] == {"component": "tester"}
    assert event["reportingComponent"] == "tester"
    assert event["count"] == 1
    assert event["firstTimestamp"] == event["lastTimestamp"] == rfc3339(clock.now())


async def test_an_event_of_before_is_told_with_its_own_time(cluster, recorder, clock):
    made = await cluster.create(POD, pod("a"))
    before = clock.now() - 600
    await recorder.event(made, "Normal", "Killing", "while nobody was there", when=before)
    (event,) = await cluster.list(EVENT)
    assert event["firstTimestamp"] == event["lastTimestamp"] == rfc3339(before)


async def test_an_equal_event_is_counted(cluster, recorder, clock):
    made = await cluster.create(POD, pod("a"))
    first = rfc3339(clock.now())
    for _ in range(3):
        await recorder.event(made, "Normal", "Pulled", "again")
        clock.advance(60)
    (event,) = await cluster.list(EVENT)
    assert (event["count"], event["firstTimestamp"]) == (3, first)
    assert event["lastTimestamp"] == rfc3339(clock.now() - 60)


async def test_equal_events_at_once_are_one_and_none_is_lost(cluster, recorder):
    made = await cluster.create(POD, pod("a"))
    await asyncio.gather(*(recorder.event(made, "Normal", "Pulled", "x") for _ in range(5)))
    (event,) = await cluster.list(EVENT)
    assert event["count"] == 5


async def test_an_event_that_expired_is_told_anew(cluster, recorder):
    made = await cluster.create(POD, pod("a"))
    await recorder.event(made, "Normal", "Pulled", "x")
    (event,) = await cluster.list(EVENT)
    await cluster.api.delete(EVENT, key_of(event))
    await recorder.event(made, "Normal", "Pulled", "x")
    (event,) = await cluster.list(EVENT)
    assert event["count"] == 1


async def test_events_of_cluster_scoped_objects_are_in_the_default_namespace(cluster, recorder):
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
    made = await cluster.create(NODE, node)
    await recorder.event(made, "Normal", "Starting", "here")
    (event,) = await cluster.list(EVENT)
    assert event["metadata"]["namespace"] == "default"


async def test_an_event_that_cannot_be_written_stops_nobody(recorder, caplog):
    lost = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a", "namespace": "no-such-namespace", "uid": "x"},
    }
    await recorder.event(lost, "Normal", "Pulled", "x")
    assert "event not written" in caplog.text


async def test_many_like_events_are_combined(cluster, recorder):
    made = await cluster.create(POD, pod("a"))
    for number in range(15):
        await recorder.event(made, "Normal", "SuccessfulCreate", f"Created pod: {number}")
    events = await cluster.list(EVENT)
    assert len(events) == 11
    combined = [event for event in events if event["message"].startswith("(combined from")]
    assert [event["count"] for event in combined] == [5]
