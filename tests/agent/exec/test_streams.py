"""Windows of a stream, with real pipes and a line that only remembers."""

from __future__ import annotations

import os
import select

import pytest

from orlop.agent.connection.frames import Broken
from orlop.agent.exec.streams import WINDOW, Stream


class Line:
    def __init__(self):
        self.sent = []
        self.said = []

    def send(self, number, data):
        self.sent.append((number, data))

    def tell(self, message):
        self.said.append(message)

    @property
    def size(self):
        return sum(len(data) for _, data in self.sent)


@pytest.fixture
def line():
    return Line()


@pytest.fixture
def pipe():
    ends = os.pipe()
    yield ends
    for fd in ends:
        try:
            os.close(fd)
        except OSError:
            pass


def asked(stream, has_room=True):
    return stream.register(select.poll(), has_room)


def test_a_source_is_read_as_far_as_there_is_credit(line, pipe):
    stream = Stream(line, 5, source=pipe[0])
    while line.size < WINDOW:
        os.write(pipe[1], b"x" * 4096)
        stream.pump()
    os.write(pipe[1], b"more")
    assert asked(stream) == []
    stream.pump()
    assert line.size == WINDOW
    stream.allow(2)
    assert asked(stream) == [pipe[0]]
    stream.on_ready(pipe[0])
    assert line.sent[-1] == (5, b"mo")


def test_a_full_line_is_not_filled_further(line, pipe):
    stream = Stream(line, 5, source=pipe[0])
    assert asked(stream, has_room=False) == []


def test_the_end_of_a_source_is_told_once(line, pipe):
    stream = Stream(line, 5, source=pipe[0])
    assert stream.pump() is False, "there is nothing yet"
    os.close(pipe[1])
    stream.pump()
    stream.end_source()
    assert line.said == [{"type": "eof", "stream": 5}]
    assert not stream.is_open


def test_credit_is_given_for_what_a_sink_has_taken(line, pipe):
    stream = Stream(line, 5, sink=pipe[1])
    stream.take(b"hello")
    assert line.said == [{"type": "credit", "stream": 5, "bytes": 5}]
    stream.end()
    assert os.read(pipe[0], 10) == b"hello"
    assert os.read(pipe[0], 10) == b"", "and then it is closed"


def test_what_a_sink_does_not_take_waits_and_ends_after_it(line, pipe):
    stream = Stream(line, 5, sink=pipe[1])
    data = bytes(range(256)) * 1024
    assert len(data) == WINDOW
    stream.take(data)
    stream.end()
    got = b""
    while len(got) < len(data):
        got += os.read(pipe[0], 65536)
        for fd in asked(stream):
            stream.on_ready(fd)
    assert got == data
    assert sum(said["bytes"] for said in line.said) == len(data)
    assert not stream.is_open


def test_more_than_the_window_is_nonsense(line, pipe):
    stream = Stream(line, 5, sink=pipe[1])
    stream.take(b"x" * WINDOW)  # a pipe takes a quarter
    with pytest.raises(Broken, match="without credit"):
        stream.take(b"x" * WINDOW)


def test_a_sink_that_is_gone_takes_everything(line, pipe):
    stream = Stream(line, 5, sink=pipe[1])
    os.close(pipe[0])
    for _ in range(3):
        stream.take(b"x" * 1000)
    assert sum(said["bytes"] for said in line.said) == 3000
    assert not stream.is_open
