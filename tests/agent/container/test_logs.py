"""Log files in the CRI's format."""

from __future__ import annotations

import os
import re
import resource
import time
from itertools import pairwise
from pathlib import Path

import pytest

from orlop.agent.container.logs import (
    MAX_LINE,
    Gone,
    LogFile,
    LogReader,
    Room,
    file_of,
    forget_runs,
    starts_of,
    tail,
)

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


# Files of a bounded size

SMALL = Room(2000, 3)


def kept(path):
    """All that is left of a log, file by file; each is whole lines and begins where it says."""
    starts = starts_of(path)
    for start, following in pairwise(starts):
        assert os.path.getsize(file_of(path, start)) == following - start
    return b"".join(Path(file_of(path, start)).read_bytes() for start in starts)


def numbers(data):
    return [int(line.split(b" ", 3)[3]) for line in data.splitlines()]


@pytest.mark.parametrize("at_once", [1, 7, 5000])
def test_a_log_goes_on_in_other_files_and_the_oldest_go(path, at_once):
    log = LogFile(path, SMALL)
    for first in range(0, 10_000, at_once):
        lines = b"".join(b"%d\n" % n for n in range(first, min(first + at_once, 10_000)))
        log.feed("stdout", lines)
        assert len(os.listdir(os.path.dirname(path))) <= SMALL.files
    log.close()
    assert all(os.path.getsize(file_of(path, s)) <= SMALL.size for s in starts_of(path))
    found = numbers(kept(path))
    assert found == list(range(found[0], 10_000))
    assert len(found) > 50


def test_a_line_without_an_end_takes_neither_memory_nor_disk(path):
    log = LogFile(path, Room(1 << 20, 2))
    log.feed("stdout", b"x" * 65536)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(1500):
        log.feed("stdout", b"x" * 65536)
    log.feed("stdout", b"y\nlast\n")
    log.close()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 4 << 10
    lines = [line.split(b" ", 3) for line in kept(path).splitlines()]
    assert len(kept(path)) <= 2 << 20
    assert {line[2] for line in lines[:-2]} == {b"P"}
    assert lines[-2][2:] == [b"F", b"x" * (len(lines[-2][3]) - 1) + b"y"]
    assert lines[-1][2:] == [b"F", b"last"]


def test_lines_of_nothing_are_as_many_bytes_as_they_take(path):
    log = LogFile(path, Room(100_000, 2))
    for _ in range(20):
        log.feed("stderr", b"\n" * 65536)
    log.close()
    assert len(kept(path)) <= 200_000


def test_the_log_of_a_job_that_starts_anew_goes_on_where_it_was(path):
    for first in range(0, 100, 10):
        log = LogFile(path, SMALL)
        log.feed("stdout", b"".join(b"%d\n" % n for n in range(first, first + 10)))
        log.close()
    found = numbers(kept(path))
    assert found == list(range(found[0], 100))
    assert len(starts_of(path)) == 3


def test_who_follows_reads_every_line_once_over_all_files(path):
    log, is_open = LogFile(path, SMALL), True
    log.feed("stdout", b"0\n")
    reader, seen = LogReader(path, 0, lambda: is_open), b""
    for number in range(1, 2000):
        log.feed("stdout", b"%d\n" % number)
        if number % 17 == 0:
            while data := reader.read():
                seen += data
    is_open = False
    log.close()
    while data := reader.read():
        seen += data
    reader.close()
    assert data is None
    assert numbers(seen) == list(range(2000))


def test_who_is_too_slow_is_told_so_and_may_read_on_from_what_is_left(path):
    log = LogFile(path, SMALL)
    log.feed("stdout", b"0\n")
    reader = LogReader(path, 0, lambda: True)
    log.feed("stdout", b"".join(b"%d\n" % n for n in range(1, 1000)))
    seen = reader.read()
    with pytest.raises(Gone):
        reader.read()
    reader.close()
    assert numbers(seen)[0] == 0
    with pytest.raises(Gone):
        LogReader(path, len(seen), lambda: True)
    again = LogReader(path, starts_of(path)[0], lambda: False)
    rest = b""
    while data := again.read():
        rest += data
    again.close()
    log.close()
    assert numbers(rest)[-1] == 999


def test_a_reader_begins_in_the_file_that_holds_its_offset(path):
    log = LogFile(path, SMALL)
    for number in range(100):
        log.feed("stdout", b"%d\n" % number)
    whole, first = kept(path), starts_of(path)[0]
    for offset in (first, first + 41, starts_of(path)[1], first + len(whole) - 1):
        reader, seen = LogReader(path, offset, None), b""
        assert reader.size() <= first + len(whole)
        while data := reader.read():
            seen += data
        reader.close()
        assert seen == whole[offset - first :]
    log.close()


def test_the_tail_reaches_into_the_file_before(path):
    log = LogFile(path, Room(2000, 5))
    log.feed("stdout", b"".join(b"line %d\n" % n for n in range(200)))
    log.close()
    lines = tail(path).splitlines()
    assert (lines[0], lines[-1], len(lines)) == ("line 120", "line 199", 80)


def test_where_no_other_file_can_be_had_lines_are_lost_and_nothing_else(path, monkeypatch):
    log = LogFile(path, SMALL)
    real = os.open

    def full(name, flags, *rest, **more):
        if str(name).startswith(path) and flags & os.O_CREAT:
            raise OSError(28, "No space left on device")
        return real(name, flags, *rest, **more)

    monkeypatch.setattr(os, "open", full)
    for number in range(1000):
        log.feed("stdout", b"%d\n" % number)
    monkeypatch.undo()
    log.feed("stdout", b"1000\n")
    log.close()
    found = numbers(kept(path))
    assert found[:2] == [0, 1]
    assert found[-1] == 1000
    assert len(kept(path)) <= 2 * SMALL.size


def test_the_logs_of_runs_before_the_last_are_removed(path):
    folder = os.path.dirname(path)
    os.makedirs(folder)
    for name in ("0.log", "0.log.500", "1.log", "1.log.77", "2.log", "notes", "x.log"):
        open(os.path.join(folder, name), "w").close()
    forget_runs(folder, 2)
    assert sorted(os.listdir(folder)) == ["1.log", "1.log.77", "2.log", "notes", "x.log"]
    forget_runs(os.path.join(folder, "nowhere"), 2)


def test_a_link_or_a_pipe_in_the_place_of_a_log_is_neither_written_nor_waited_for(path, tmp_path):
    os.makedirs(os.path.dirname(path))
    (tmp_path / "victim").write_text("kept")
    os.symlink(tmp_path / "victim", path)
    with pytest.raises(OSError, match="symbolic links"):
        LogFile(path)
    with pytest.raises(OSError, match="symbolic links"):
        LogReader(path, 0, None)
    os.unlink(path)
    os.mkfifo(path)
    began = time.monotonic()
    assert tail(path) == ""
    assert time.monotonic() - began < 1
    assert (tmp_path / "victim").read_text() == "kept"
