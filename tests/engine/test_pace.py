"""How often an engine is asked: by its own speed, and by whether anybody would miss the answer."""

from __future__ import annotations

import pytest

from orlop.engine.pace import HASTE, KINDNESS, RECENT, Pace


def watched(*took: float) -> Pace:
    pace = Pace(busy=1.5, idle=30.0)
    for seconds in took:
        pace.took(seconds)
    pace.watch()
    return pace


@pytest.mark.parametrize(
    ("took", "interval"),
    [
        ((), 1.5),
        ((0.02,), 1.5),
        ((0.1,), 0.1 * KINDNESS),
        ((0.1, 5.0, 5.0), 0.1 * KINDNESS),
        ((0.1, *[0.2] * RECENT), 0.2 * KINDNESS),
        ((5.0,), 30.0),
    ],
    ids=["unasked", "quick", "slow", "slow now and then", "slower since", "at a standstill"],
)
def test_while_a_job_may_change_the_engines_speed_decides(
    took: tuple[float, ...], interval: float
) -> None:
    assert watched(*took).interval == interval


def test_who_waits_for_an_answer_leaves_a_slow_engine_room_too() -> None:
    assert watched(2.0).spacing == 2.0 * HASTE


def test_when_nobody_would_miss_it_the_interval_grows_and_a_watch_ends_that() -> None:
    pace = watched(0.01)
    seen = []
    for _ in range(20):
        pace.relax()
        seen.append(pace.interval)
    assert seen == sorted(seen)
    assert seen[-1] == 30.0
    pace.watch()
    assert pace.interval == 1.5


def test_an_idle_tick_below_the_busy_one_is_not_obeyed() -> None:
    pace = Pace(busy=4.0, idle=1.0)
    pace.rest()
    assert pace.interval == 4.0
