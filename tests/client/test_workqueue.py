"""The queue's promises: once, one at a time, later, and slower after each failure."""

from __future__ import annotations

import asyncio

import pytest

from orlop.client.clock import ManualClock
from orlop.client.workqueue import Backoff, WorkQueue
from orlop.metrics import PROCESS


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def queue(clock) -> WorkQueue[str]:
    return WorkQueue(backoff=Backoff(first=1, longest=60), clock=clock)


async def test_a_key_added_many_times_is_worked_on_once(queue):
    for _ in range(3):
        queue.add("a")
    assert await queue.get() == "a"
    queue.done("a")
    assert queue.is_idle


async def test_a_key_added_while_being_worked_on_comes_again_only_when_done(queue):
    queue.add("a")
    await queue.get()
    queue.add("a")
    queue.add("b")
    assert await queue.get() == "b"
    assert len(queue) == 0
    queue.done("a")
    assert await queue.get() == "a"


async def test_keys_come_in_the_order_they_were_added(queue):
    for key in "abc":
        queue.add(key)
    assert [await queue.get() for _ in range(3)] == ["a", "b", "c"]


async def test_a_waiting_worker_is_woken_by_an_add(queue):
    waiting = asyncio.ensure_future(queue.get())
    await asyncio.sleep(0)
    queue.add("a")
    assert await asyncio.wait_for(waiting, 1) == "a"


async def test_a_worker_cancelled_as_it_is_woken_passes_its_turn_on(queue):
    first, second = asyncio.ensure_future(queue.get()), asyncio.ensure_future(queue.get())
    await asyncio.sleep(0)
    queue.add("a")
    first.cancel()
    assert await asyncio.wait_for(second, 1) == "a"


async def test_a_delayed_key_comes_when_its_time_has_come(queue, clock):
    queue.add_after("a", 10)
    clock.advance(9.9)
    assert len(queue) == 0
    clock.advance(0.1)
    assert await queue.get() == "a"


@pytest.mark.parametrize("delays", [(5, 10), (10, 5)], ids=["early first", "late first"])
async def test_of_two_delays_the_earlier_counts(queue, clock, delays):
    for delay in delays:
        queue.add_after("a", delay)
    clock.advance(5)
    assert await queue.get() == "a"
    queue.done("a")
    clock.advance(100)
    assert queue.is_idle


@pytest.mark.parametrize("delay", [0, -1])
async def test_no_delay_means_at_once(queue, delay):
    queue.add_after("a", delay)
    assert len(queue) == 1


async def test_failures_double_the_delay_until_forgotten(queue):
    assert [queue.add_rate_limited("a") for _ in range(8)] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert queue.failures("a") == 8
    queue.forget("a")
    assert queue.add_rate_limited("a") == 1


def test_a_thousand_failures_are_still_the_longest_delay():
    assert Backoff(first=0.005, longest=1000).delay(1000) == 1000


async def test_a_closed_queue_has_no_timers_left(queue, clock):
    queue.add_after("a", 1)
    queue.close()
    clock.advance(10)
    assert len(queue) == 0


async def test_no_key_is_ever_in_two_workers_hands(queue):
    busy: set[int] = set()
    worked = 0

    async def worker() -> None:
        nonlocal worked
        while True:
            key = await queue.get()
            assert key not in busy
            busy.add(key)
            await asyncio.sleep(0)
            busy.discard(key)
            worked += 1
            queue.done(key)

    workers = [asyncio.ensure_future(worker()) for _ in range(4)]
    for round_ in range(200):
        queue.add(round_ % 7)
        if round_ % 10 == 0:
            await asyncio.sleep(0)
    async with asyncio.timeout(5):
        while not queue.is_idle:  # noqa: ASYNC110
            await asyncio.sleep(0)
    for task in workers:
        task.cancel()
    await asyncio.gather(*workers, return_exceptions=True)
    assert worked >= 7


async def test_a_named_queue_is_measured() -> None:
    queue: WorkQueue[str] = WorkQueue(name="measured")
    queue.add("a")
    queue.add("b")
    queue.add("b")
    assert 'workqueue_depth{name="measured"} 2' in PROCESS.text()
    key = await queue.get()
    queue.add_rate_limited(key)
    queue.done(key)
    queue.close()
    text = PROCESS.text()
    for line in (
        'workqueue_depth{name="measured"} 1',
        'workqueue_adds_total{name="measured"} 2',
        'workqueue_retries_total{name="measured"} 1',
        'workqueue_queue_duration_seconds_count{name="measured"} 1',
        'workqueue_work_duration_seconds_count{name="measured"} 1',
    ):
        assert line in text
