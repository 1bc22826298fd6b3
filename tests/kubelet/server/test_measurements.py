"""Agents are asked what containers use when somebody wants to know, and not otherwise."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from orlop.client.clock import ManualClock
from orlop.kubelet.server import measurements
from orlop.kubelet.server.measurements import Measurements

from ..objects import a_journal, a_pod, running

SECOND = 1_000_000_000


class Line:
    """A connection whose agent counts `cores` from the moment it started."""

    def __init__(self, clock, cores=1.0, restart=0):
        self.clock, self.cores, self.restart = clock, cores, restart
        self.asked = 0
        self.is_mute = False
        self.began = clock.now()

    def measure(self):
        self.asked += 1
        answer = asyncio.get_running_loop().create_future()
        if not self.is_mute:
            now = self.clock.now()
            main = {"name": "main", "restart": self.restart, "workingSet": 10 << 20, "rss": 1}
            used = round((now - self.began) * self.cores * SECOND)
            answer.set_result({"time": now, "containers": [{**main, "cpu": used}]})
        return answer


class World:
    """One pod `web`, whose agent is connected by `line`."""

    def __init__(self, age=1000.0):
        self.clock = ManualClock()
        self.line = Line(self.clock)
        self.pod = a_pod()
        journal = a_journal(running(startedAt=self.clock.now() - age))
        self.state = SimpleNamespace(
            uid=self.pod["metadata"]["uid"], key="web", connection=self.line, journal=journal
        )
        self.measurements = Measurements(self, self, self.clock, 10.0)

    def __iter__(self):
        return iter([self.state])

    def get(self, key):
        return self.pod if key == "web" else self.state

    async def ask(self):
        """The container's usage; time passes for who waits for it."""
        asking = asyncio.ensure_future(self.measurements.current())
        while not asking.done():
            await asyncio.sleep(0)
            if not asking.done():
                self.clock.advance(0.25)
        return [one for usage in asking.result() for one in usage.containers]


async def test_the_first_question_waits_for_two_measurements():
    world = World()
    (found,) = await world.ask()
    assert world.line.asked == 2
    assert 1 <= found.window < 2
    assert found.nanocores == pytest.approx(SECOND, rel=0.01)


async def test_questions_within_the_resolution_are_answered_from_the_last():
    world = World()
    await world.ask()
    for _ in range(3):
        await world.ask()
    world.clock.advance(9)
    await world.ask()
    assert world.line.asked == 2


async def test_questions_at_once_are_one_measurement():
    world = World(age=30.0)
    await asyncio.gather(*(world.measurements.current() for _ in range(50)))
    assert world.line.asked == 1


async def test_the_next_window_is_the_time_since_the_last_question():
    world = World()
    await world.ask()
    world.clock.advance(15)
    (found,) = await world.ask()
    assert world.line.asked == 3
    assert found.window == pytest.approx(15.0, abs=0.5)


async def test_after_a_long_silence_the_past_does_not_count():
    world = World()
    await world.ask()
    world.line.cores = 0.0
    world.line.began = world.clock.now()
    world.clock.advance(measurements.LONGEST + 1)
    (found,) = await world.ask()
    assert found.window < 2
    assert found.nanocores == 0


async def test_the_life_of_a_young_container_is_its_first_window():
    world = World(age=8.0)
    world.line.began = world.clock.now() - 8
    (found,) = await world.ask()
    assert world.line.asked == 1
    assert (found.window, found.nanocores) == (8.0, SECOND)


async def test_a_restart_begins_a_new_series():
    world = World()
    await world.ask()
    world.clock.advance(15)
    world.line.restart, world.line.began = 1, world.clock.now()
    (found,) = await world.ask()
    assert found.window < 2
    assert found.nanocores == pytest.approx(SECOND, rel=0.01)


async def test_an_agent_that_does_not_answer_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(measurements, "ANSWER_TIME", 0.01)
    world = World()
    world.line.is_mute = True
    assert await world.measurements.current() == []
    world.line.is_mute = False
    world.clock.advance(15)
    assert len(await world.ask()) == 1


async def test_nonsense_is_nobodys_usage():
    world = World()
    nonsense = asyncio.get_running_loop().create_future()
    nonsense.set_result({"time": "late", "containers": 7})
    world.line.measure = lambda: nonsense
    assert await world.ask() == []
