"""Of several processes one leads, and another takes over when it is gone."""

from __future__ import annotations

import asyncio

import pytest

from orlop import errors
from orlop.api.kinds import EVENT, LEASE, POD
from orlop.api.objects import Key
from orlop.client.clock import ManualClock
from orlop.client.leader_election import LeaderElection, Timing, identity
from orlop.scheduler import Scheduler
from tests.controllers.world import World, eventually
from tests.scheduler.nodes import a_node, a_pod
from tests.scheduler.test_scheduler import add_node, node_of


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


class Candidate:
    """A process that would lead; `works` while it does."""

    def __init__(self, cluster: World, clock, name, api=None, **timing):
        self.election = LeaderElection(
            api or cluster.api,
            "tester",
            identity=name,
            timing=Timing(**timing) if timing else None,
            clock=clock,
        )
        self.works = False
        self.task = asyncio.ensure_future(self.election.lead(self._work))

    async def _work(self):
        self.works = True
        try:
            await asyncio.Event().wait()
        finally:
            self.works = False

    async def stop(self):
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


class Unplugged:
    """An API that can be cut off."""

    def __init__(self, api):
        self._api = api
        self.is_cut = False
        self.hangs = False

    def __getattr__(self, name):
        def call(*args, **more):
            if self.hangs:
                return asyncio.Event().wait()
            if self.is_cut:
                raise errors.Unavailable("no route to host")
            return getattr(self._api, name)(*args, **more)

        return call


async def works(candidate):
    return candidate.works


async def passes(clock, check, step=1.0):
    """Time goes on until the check holds."""

    async def moved():
        clock.advance(step)
        return await check()

    await eventually(moved)


async def is_followed(clock, first, second):
    """The second takes over, never while the first still works."""
    both = []  # kept: what is asserted while waiting is only waited for

    async def taken_over():
        both.append(first.works and second.works)
        return second.works

    await passes(clock, taken_over)
    assert not any(both)
    with pytest.raises(errors.LeadershipLost):
        await first.task
    await second.stop()


async def spec(cluster: World):
    return (await cluster.get(LEASE, "tester", "kube-system"))["spec"]


async def test_one_of_two_leads(cluster, clock):
    first = Candidate(cluster, clock, "first")
    await eventually(lambda: works(first))
    second = Candidate(cluster, clock, "second")
    for _ in range(30):
        clock.advance(2)
        await asyncio.sleep(0.02)
        assert not second.works
    assert first.works
    found = await spec(cluster)
    assert (found["holderIdentity"], found["leaseDurationSeconds"]) == ("first", 15)
    assert found["leaseTransitions"] == 0
    assert second.election.leader == "first"
    await first.stop()
    await second.stop()


async def test_who_lets_go_is_followed_at_once(cluster, clock):
    first = Candidate(cluster, clock, "first")
    await eventually(lambda: works(first))
    second = Candidate(cluster, clock, "second")
    await first.stop()
    assert (await spec(cluster)).get("holderIdentity") in (None, "second")
    await passes(clock, lambda: works(second), 0.5)
    found = await spec(cluster)
    assert (found["holderIdentity"], found["leaseTransitions"]) == ("second", 1)
    told = [one["message"] for one in await cluster.list(EVENT, "kube-system")]
    assert told == ["first became leader", "second became leader"]
    await second.stop()


async def test_who_is_cut_off_stops_before_another_begins(cluster, clock):
    line = Unplugged(cluster.api)
    first = Candidate(cluster, clock, "first", line)
    await eventually(lambda: works(first))
    second = Candidate(cluster, clock, "second")
    await asyncio.sleep(0.05)
    line.is_cut = True

    await is_followed(clock, first, second)


async def test_who_hangs_in_the_last_attempt_stops_before_another_begins(cluster, clock):
    line = Unplugged(cluster.api)
    first = Candidate(cluster, clock, "first", line)
    await eventually(lambda: works(first))
    second = Candidate(cluster, clock, "second")
    await asyncio.sleep(0.05)
    line.is_cut = True
    for _ in range(4):  # attempts that fail at once, until little of the time is left
        clock.advance(2)
        await asyncio.sleep(0.05)
    line.hangs = True

    await is_followed(clock, first, second)


async def test_who_finds_another_on_the_lease_stops_at_once(cluster, clock):
    first = Candidate(cluster, clock, "first")
    await eventually(lambda: works(first))
    change = {"spec": {"holderIdentity": "usurper"}}
    lease = (await cluster.get(LEASE, "tester", "kube-system"))["metadata"]
    await cluster.api.patch(LEASE, Key("kube-system", lease["name"]), change)

    async def stopped():
        return not first.works

    await passes(clock, stopped)
    with pytest.raises(errors.LeadershipLost, match="usurper"):
        await first.task


async def test_a_leader_whose_clock_is_wrong_is_respected(cluster, clock):
    """Only how long its record stays the same counts."""
    ahead = ManualClock(clock.now() - 100_000)
    first = Candidate(cluster, ahead, "first")
    await eventually(lambda: works(first))
    second = Candidate(cluster, clock, "second")
    await asyncio.sleep(0.05)
    clock.advance(10)
    await asyncio.sleep(0.05)
    assert not second.works
    await first.stop()
    await second.stop()


def test_times_must_leave_room_for_each_other():
    with pytest.raises(ValueError, match="expected lease > renew > retry"):
        Timing(lease=10, renew=10, retry=2)


def test_no_two_processes_have_one_name():
    assert identity() != identity()


async def test_of_two_schedulers_one_works_and_the_other_takes_over(cluster, clock):
    await add_node(cluster, a_node("main"))

    def scheduler(name):
        election = LeaderElection(cluster.api, "kube-scheduler", identity=name, clock=clock)
        return lambda informers: Scheduler(cluster.api, informers, election=election)

    async with cluster.running(scheduler("first")):
        await cluster.create(POD, a_pod("a"))
        await eventually(lambda: node_of(cluster, "a"))
        async with cluster.running(scheduler("second")):
            lease = await cluster.get(LEASE, "kube-scheduler", "kube-system")
            assert lease["spec"]["holderIdentity"] == "first"
    async with cluster.running(scheduler("second")):
        await cluster.create(POD, a_pod("b"))

        async def bound():
            clock.advance(1)
            return await node_of(cluster, "b")

        assert await eventually(bound) == "main"
