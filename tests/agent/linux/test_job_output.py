"""The job's output does not grow with what others cause."""

from __future__ import annotations

import os

import pytest

from orlop.agent.linux import job_output
from orlop.agent.linux.job_output import Sayings


@pytest.fixture
def pipe():
    read, write = os.pipe2(os.O_NONBLOCK)
    yield read, write
    os.close(read)
    os.close(write)


def test_a_few_are_told_and_the_others_counted(pipe, monkeypatch):
    read, write = pipe
    now = 1000.0
    monkeypatch.setattr(job_output.time, "monotonic", lambda: now)
    sayings = Sayings("orlop agent", write)
    for number in range(10_000):
        sayings.say(f"call {number}")
    assert os.read(read, 1 << 16).decode().splitlines() == [
        f"orlop agent: call {number}" for number in range(20)
    ]
    now += 61
    sayings.say("again")
    sayings.say("and again")
    assert os.read(read, 1 << 16) == b"orlop agent: again (and 9980 more were not told)\n"


def test_a_line_is_one_and_short_whatever_is_in_it(pipe):
    read, write = pipe
    Sayings("orlop", write).say("a\nb\x1b[2J\udcff" + "x" * 10_000)
    said = os.read(read, 1 << 16)
    assert len(said) < 600
    assert said.startswith(b"orlop: a b [2J")
    assert said.count(b"\n") == 1


def test_where_nobody_listens_nothing_ends():
    Sayings("orlop", 9999).say("words")
