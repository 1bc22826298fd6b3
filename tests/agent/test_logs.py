"""Log files in the CRI's format."""

from __future__ import annotations

import re

import pytest

from orlop.agent.logs import MAX_LINE, LogFile, LogReader, tail

STAMP = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z"


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "logs" / "c" / "0.log")


def written(path):
    """(stream, F or P, text) of every line; each must have a time stamp."""
    with open(path, newline="\n") as file:
        lines = file.read().split("\n")
    assert lines.pop() == "", "the file ends with a whole line"
    assert all(re.match(STAMP + " ", line) for line in lines)
    return [tuple(line.split(" ", 3)[1:]) for line in lines]


def feed(path, *pieces):
    log = LogFile(path)
    for stream, data in pieces:
        log.feed(stream, data)
    log.close()
    return written(path)


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ([("stdout", b"a\nb\n")], [("stdout", "F", "a"), ("stdout", "F", "b")]),
        ([("stdout", b"a"), ("stdout", b"b\n")], [("stdout", "F", "ab")]),
        ([("stdout", b"no newline")], [("stdout", "F", "no newline")]),
        ([("stdout", b"\n\n")], [("stdout", "F", ""), ("stdout", "F", "")]),
        (
            [("stdout", b"o"), ("stderr", b"e\n"), ("stdout", b"ut\n")],
            [("stderr", "F", "e"), ("stdout", "F", "out")],
        ),
        ([("stdout", b"a\r\n")], [("stdout", "F", "a\r")]),
        ([], []),
    ],
    ids=["lines", "pieces", "unfinished", "empty", "two streams", "carriage return", "nothing"],
)
def test_bytes_become_lines(path, pieces, expected):
    assert feed(path, *pieces) == expected


@pytest.mark.parametrize("step", [1000, 16384, 16385, 100_000])
def test_long_lines_become_parts_however_they_arrive(path, step):
    text = b"x" * (2 * MAX_LINE + 5) + b"\n"
    pieces = [("stdout", text[at : at + step]) for at in range(0, len(text), step)]
    kinds = [(kind, len(line)) for _, kind, line in feed(path, *pieces)]
    assert kinds == [("P", MAX_LINE), ("P", MAX_LINE), ("F", 5)]


def test_what_was_written_can_be_read_at_once(path):
    log = LogFile(path)
    log.feed("stdout", b"now\n")
    assert written(path) == [("stdout", "F", "now")]


def test_a_reader_reads_from_its_offset_to_the_end(path):
    feed(path, ("stdout", b"a\nb\n"))
    reader = LogReader(path, 5, None)
    with open(path, "rb") as file:
        whole = file.read()
    assert reader.read() == whole[5:]
    assert reader.read() is None
    assert reader.size() == len(whole)


def test_a_reader_that_follows_waits_for_more_until_there_is_none(path):
    log, is_open = LogFile(path), True
    reader = LogReader(path, 0, lambda: is_open)
    assert reader.read() == b""
    log.feed("stdout", b"a\n")
    assert reader.read().endswith(b" a\n")
    assert reader.read() == b""
    log.feed("stdout", b"b\n")
    is_open = False
    assert reader.read().endswith(b" b\n"), "what came before the end is read after it"
    assert reader.read() is None


def test_the_tail_is_the_text_of_the_last_lines(path):
    feed(path, ("stdout", b"".join(b"line %d\n" % n for n in range(200))))
    lines = tail(path).splitlines()
    assert (lines[0], lines[-1], len(lines)) == ("line 120", "line 199", 80)


def test_the_tail_is_not_longer_than_upstreams(path):
    feed(path, ("stdout", b"y" * 50_000 + b"\n"))
    assert tail(path) == "y" * 2047 + "\n"


def test_the_tail_of_no_log_is_empty(path):
    assert tail(path) == ""
