"""The manual clock calls what falls due, in order, and nothing else."""

from __future__ import annotations

import asyncio

from orlop.client.clock import ManualClock, SystemClock, sleep


def test_callbacks_run_in_the_order_they_fall_due_and_at_their_own_moment():
    clock = ManualClock(start=100.0)
    calls: list[tuple[str, float]] = []
    clock.call_later(5, lambda: calls.append(("late", clock.now())))
    clock.call_later(2, lambda: calls.append(("early", clock.now())))
    clock.advance(10)
    assert calls == [("early", 102.0), ("late", 105.0)]
    assert clock.now() == 110.0


def test_a_cancelled_timer_never_runs():
    clock = ManualClock()
    calls: list[int] = []
    clock.call_later(1, lambda: calls.append(1)).cancel()
    clock.advance(2)
    assert calls == []


def test_a_callback_may_ask_for_the_next_one_within_the_same_advance():
    clock = ManualClock(start=0.0)
    calls: list[float] = []

    def again() -> None:
        calls.append(clock.now())
        if len(calls) < 3:
            clock.call_later(1, again)

    clock.call_later(1, again)
    clock.advance(10)
    assert calls == [1.0, 2.0, 3.0]


async def test_sleep_ends_when_the_clock_has_moved_far_enough():
    clock = ManualClock()
    sleeping = asyncio.ensure_future(sleep(clock, 30))
    await asyncio.sleep(0)
    clock.advance(29)
    await asyncio.sleep(0)
    assert not sleeping.done()
    clock.advance(1)
    await asyncio.wait_for(sleeping, 1)


async def test_the_system_clock_calls_back_on_the_running_loop():
    called = asyncio.Event()
    SystemClock().call_later(0.001, called.set)
    await asyncio.wait_for(called.wait(), 1)


def test_a_clock_that_oversleeps_calls_what_fell_due_late() -> None:
    clock, called = ManualClock(start=0), []
    clock.call_later(5, lambda: called.append(clock.now()))
    clock.call_later(200, lambda: called.append(clock.now()))
    clock.oversleep(100)
    assert called == [100]
