"""The loop that all controllers share."""

from __future__ import annotations

import asyncio

import pytest

from orlop import errors
from orlop.api.kinds import CONFIG_MAP, POD, REPLICA_SET
from orlop.api.objects import Key, key_of
from orlop.client.clock import ManualClock
from orlop.controllers.framework import controller
from orlop.controllers.framework.controller import Controller, Result
from tests.controllers.world import World, eventually, pod, stays, workload

KEY = Key("default", "a")


class Probe(Controller):
    """Notes what it is asked for, and does what it is told."""

    name = "probe"
    kind = CONFIG_MAP

    def __init__(self, api, informers, *, clock=None, answers=()):
        super().__init__(api, informers, clock=clock)
        self.asked: list[Key] = []
        self.answers = list(answers)
        self.pause = 0.0

    async def reconcile(self, key):
        if key != KEY:
            return Result.done()
        self.asked.append(key)
        await asyncio.sleep(self.pause)
        answer = self.answers.pop(0) if self.answers else Result.done()
        if isinstance(answer, Exception):
            raise answer
        return answer


class Owner(Probe):
    name = "owner"
    kind = REPLICA_SET
    owns = (POD,)
    adopts = True


def config() -> dict:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}


async def times(probe: Probe, number: int) -> bool:
    return len(probe.asked) == number


@pytest.fixture
def made() -> list[Probe]:
    return []


def probe(cluster: World, made: list[Probe], kind=Probe, **options):
    def make(informers):
        made.append(kind(cluster.api, informers, **options))
        return made[0]

    return make


async def test_every_change_is_looked_at(cluster, made):
    async with cluster.running(probe(cluster, made)):
        await cluster.create(CONFIG_MAP, config())
        await eventually(lambda: times(made[0], 1))
        await cluster.patch(CONFIG_MAP, "a", {"data": {"k": "v"}})
        await eventually(lambda: times(made[0], 2))
        await cluster.api.delete(CONFIG_MAP, KEY)
        await eventually(lambda: times(made[0], 3))
        await stays(lambda: times(made[0], 3), 0.1)


@pytest.mark.parametrize(
    ("error", "level"),
    [
        (errors.Conflict("somebody was quicker"), "DEBUG"),
        (errors.Unavailable("later"), "WARNING"),
        (KeyError("a bug"), "ERROR"),
    ],
    ids=["lost race", "refusal", "bug"],
)
async def test_a_failure_is_tried_again_and_told_by_its_kind(cluster, made, caplog, error, level):
    caplog.set_level("DEBUG")
    await cluster.create(CONFIG_MAP, config())
    async with cluster.running(probe(cluster, made, answers=[error, error])):
        await eventually(lambda: times(made[0], 3))
        await stays(lambda: times(made[0], 3), 0.1)
    told = {record.levelname for record in caplog.records if "probe" in record.name}
    assert told == {level}


async def test_a_later_look_is_asked_for(cluster, made):
    clock = ManualClock()
    await cluster.create(CONFIG_MAP, config())
    async with cluster.running(probe(cluster, made, clock=clock, answers=[Result.again(60)])):
        await eventually(lambda: times(made[0], 1))
        clock.advance(59)
        await stays(lambda: times(made[0], 1), 0.05)
        clock.advance(1)
        await eventually(lambda: times(made[0], 2))


async def rests(probe: Probe) -> bool:
    return KEY in probe._resting


async def test_what_takes_long_is_let_rest_and_then_looked_at_once(cluster, made, monkeypatch):
    """The rest lasts until the test ends it: twenty writes take as long as they take."""
    monkeypatch.setattr(controller, "_REST", 1e6)
    monkeypatch.setattr(controller, "_LONGEST_REST", 3600.0)
    async with cluster.running(probe(cluster, made)) as informers:
        made[0].pause = 0.05
        await cluster.create(CONFIG_MAP, config())
        await eventually(lambda: rests(made[0]))
        for number in range(20):
            written = await cluster.patch(CONFIG_MAP, "a", {"data": {"k": str(number)}})
        await informers.informer(CONFIG_MAP).seen(written)
        await stays(lambda: times(made[0], 1), 0.1)
        made[0]._resting[KEY].cancel()
        made[0]._wake(KEY)
        await eventually(lambda: times(made[0], 2))
        await eventually(lambda: rests(made[0]))
        await stays(lambda: times(made[0], 2), 0.1)


async def test_a_rest_ends_by_itself(cluster, made):
    async with cluster.running(probe(cluster, made)):
        made[0].pause = 0.05
        await cluster.create(CONFIG_MAP, config())
        await eventually(lambda: rests(made[0]))
        await cluster.patch(CONFIG_MAP, "a", {"data": {"k": "v"}})
        await eventually(lambda: times(made[0], 2))


async def test_what_takes_long_and_is_left_alone_is_left_alone(cluster, made):
    async with cluster.running(probe(cluster, made)):
        made[0].pause = 0.01
        await cluster.create(CONFIG_MAP, config())
        await eventually(lambda: times(made[0], 1))
        await stays(lambda: times(made[0], 1), 0.3)


async def test_owned_objects_lead_to_their_owner_before_and_after_a_change(cluster, made):
    owner = await cluster.create(REPLICA_SET, workload(REPLICA_SET, "a"))
    async with cluster.running(probe(cluster, made, Owner)):
        await eventually(lambda: times(made[0], 1))
        owned = pod("p", labels={"app": "else"})
        reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "controller": True}
        reference |= {"name": "a", "uid": owner["metadata"]["uid"]}
        owned["metadata"]["ownerReferences"] = [reference]
        await cluster.create(POD, owned)
        await eventually(lambda: times(made[0], 2))
        await cluster.patch(POD, "p", {"metadata": {"ownerReferences": None}})
        await eventually(lambda: times(made[0], 3))
        await cluster.patch(POD, "p", {"metadata": {"labels": {"app": "other"}}})
        await stays(lambda: times(made[0], 3), 0.1)


async def test_an_owner_of_the_same_kind_but_another_group_is_another(cluster, made):
    await cluster.create(REPLICA_SET, workload(REPLICA_SET, "a"))
    async with cluster.running(probe(cluster, made, Owner)):
        await eventually(lambda: times(made[0], 1))
        owned = pod("p", labels={"app": "else"})
        reference = {"apiVersion": "example.com/v1", "kind": "ReplicaSet", "controller": True}
        owned["metadata"]["ownerReferences"] = [{**reference, "name": "a", "uid": "u"}]
        await cluster.create(POD, owned)
        await stays(lambda: times(made[0], 1), 0.1)


async def test_orphans_lead_to_those_who_may_adopt_them(cluster, made):
    await cluster.create(REPLICA_SET, workload(REPLICA_SET, "a"))
    async with cluster.running(probe(cluster, made, Owner)):
        await eventually(lambda: times(made[0], 1))
        await cluster.create(POD, pod("p", labels={"app": "a"}))
        await eventually(lambda: times(made[0], 2))
        running = {"status": {"phase": "Running"}}
        await cluster.patch(POD, "p", running, subresource="status")
        await stays(lambda: times(made[0], 2), 0.1)


async def test_a_status_is_written_only_where_it_differs(cluster, made):
    created = await cluster.create(REPLICA_SET, workload(REPLICA_SET, "a"))
    async with cluster.running(probe(cluster, made, Owner)) as informers:
        await informers.synced()
        first = await made[0].write_status(created, {"replicas": 3})
        assert first["status"]["replicas"] == 3
        assert await made[0].write_status(first, first["status"]) is first
        with pytest.raises(errors.Conflict):
            await made[0].write_status(created, {"replicas": 4}, lock=True)
        assert made[0].objects.get(key_of(created)) is not None


@pytest.mark.parametrize(
    ("one", "other", "after"), [(5, 3, 3), (None, 3, 3), (5, None, 5), (None, None, None)]
)
def test_the_sooner_of_two_results(one, other, after):
    assert Result(one).sooner(Result(other)) == Result(after)
