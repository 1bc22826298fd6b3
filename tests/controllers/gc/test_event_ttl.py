"""Events are forgotten an hour after they were last seen."""

from __future__ import annotations

import time

import pytest

from orlop.api import times
from orlop.api.kinds import EVENT
from orlop.api.objects import meta
from orlop.client.clock import ManualClock
from orlop.controllers.gc.event_ttl import EVERY, TTL, EventTtl, last_seen
from tests.controllers.world import World, eventually

NOW = float(int(time.time()))


def event(name: str, age: float) -> dict:
    stamp = times.rfc3339(NOW - age)
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": "default"},
        "involvedObject": {"kind": "Pod", "name": "a", "namespace": "default"},
        "firstTimestamp": stamp,
        "lastTimestamp": stamp,
    }


async def names(cluster: World) -> list[str]:
    return sorted(meta(one)["name"] for one in await cluster.list(EVENT))


async def test_only_events_that_were_not_seen_for_an_hour_go(cluster):
    cluster.server.registry.now = lambda: NOW - 2 * TTL
    for name, age in (("old", TTL + 1), ("young", TTL - 1)):
        await cluster.create(EVENT, event(name, age))
    await EventTtl(cluster.api, None, clock=ManualClock(NOW)).sweep()
    assert await names(cluster) == ["young"]


async def test_it_looks_again_and_again(cluster):
    clock = ManualClock(NOW)
    cluster.server.registry.now = lambda: NOW - 2 * TTL
    await cluster.create(EVENT, event("young", TTL - 1))
    async with cluster.running(lambda informers: EventTtl(cluster.api, informers, clock=clock)):

        async def is_empty() -> bool:
            clock.advance(EVERY)
            return await names(cluster) == []

        await eventually(is_empty)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, 0.0),
        ({"lastTimestamp": "1970-01-01T00:00:05Z"}, 5.0),
        ({"eventTime": "1970-01-01T00:00:06.500000Z", "lastTimestamp": None}, 6.5),
        ({"series": {"lastObservedTime": "1970-01-01T00:00:07.000000Z"}}, 7.0),
    ],
    ids=["when it was made", "when it was last counted", "its one moment", "its series"],
)
def test_the_latest_of_its_times_counts(fields, expected):
    assert (
        last_seen({"metadata": {"creationTimestamp": "1970-01-01T00:00:00Z"}, **fields}) == expected
    )
