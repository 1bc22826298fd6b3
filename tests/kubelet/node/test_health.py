"""A short silence of the engine is told to nobody, a long one to everybody, once."""

from __future__ import annotations

import pytest

from orlop.client.clock import ManualClock
from orlop.kubelet.node.health import EngineHealth

SILENCE = Exception("no answer")


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def health(clock):
    return EngineHealth(clock)


@pytest.fixture
def told(health):
    told = []
    health.subscribe(lambda: told.append((health.is_down, health.error)))
    return told


def test_an_engine_is_well_until_it_is_not(health, told):
    health.answered()
    assert (health.is_down, health.error, told) == (False, "", [])


def test_a_short_silence_holds_submissions_back_and_is_told_to_nobody(health, clock, told):
    for _ in range(100):
        health.silent(SILENCE)
        clock.advance(0.04)
    assert (health.is_down, health.error, told) == (True, "", [])
    health.answered()
    assert told == [(False, "")]


def test_a_long_silence_is_told_once_and_its_end_too(health, clock, told):
    for _ in range(10):
        health.silent(SILENCE)
        clock.advance(2)
    assert told == [(True, "no answer")]
    health.answered()
    health.answered()
    assert told == [(True, "no answer"), (False, "")]


def test_the_newest_words_are_told(health, clock):
    health.silent(SILENCE)
    clock.advance(10)
    health.silent(Exception("connection refused"))
    assert (health.last, health.error) == ("connection refused", "connection refused")


def test_it_knows_how_long_the_engine_has_been_back(health, clock):
    assert health.has_answered_for(60)
    health.silent(SILENCE)
    assert not health.has_answered_for(0)
    clock.advance(100)
    health.answered()
    assert not health.has_answered_for(60)
    clock.advance(60)
    assert health.has_answered_for(60)
