"""Events are told soon, in order, and nobody waits for them."""

from __future__ import annotations

import asyncio

import pytest

from orlop.kubelet.pod.events import Events


class FakeRecorder:
    """Remembers what it is told; slow for one object, broken for another."""

    def __init__(self):
        self.told = []

    async def event(self, obj, kind, reason, message, *, when=None):
        name = obj["metadata"]["name"]
        if name == "slow":
            await asyncio.sleep(0.05)
        if name == "broken":
            raise RuntimeError("a bug")
        self.told.append((name, reason))


@pytest.fixture
async def scene():
    recorder = FakeRecorder()
    events = Events(recorder)
    task = asyncio.create_task(events.run())
    yield events, recorder.told
    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def an_object(name):
    return {"metadata": {"name": name, "uid": name}}


async def test_events_of_one_object_keep_their_order(scene):
    events, told = scene
    for number in range(50):
        events.tell(an_object("web"), "Normal", f"R{number}", "words")
    await asyncio.sleep(0.02)
    assert told == [("web", f"R{number}") for number in range(50)]


async def test_a_slow_object_does_not_hold_up_others(scene):
    events, told = scene
    events.tell(an_object("slow"), "Normal", "A", "words")
    events.tell(an_object("quick"), "Normal", "B", "words")
    await asyncio.sleep(0.02)
    assert told == [("quick", "B")]
    await asyncio.sleep(0.06)
    assert told == [("quick", "B"), ("slow", "A")]


async def test_whoever_wants_to_know_is_told_when_it_is_done(scene):
    events, told = scene
    done = []
    events.tell(an_object("web"), "Normal", "A", "words", lambda: done.append(list(told)))
    await asyncio.sleep(0.02)
    assert done == [[("web", "A")]]


async def test_an_event_that_cannot_be_told_ends_nothing(scene):
    events, told = scene
    done = []
    events.tell(an_object("broken"), "Normal", "A", "words", lambda: done.append(1))
    events.tell(an_object("web"), "Warning", "B", "words")
    await asyncio.sleep(0.02)
    events.tell(an_object("web"), "Warning", "C", "words")
    await asyncio.sleep(0.02)
    assert told == [("web", "B"), ("web", "C")]
    assert done == []
