"""Logs are cut and stamped as kubectl asks, and the right run of the right container is found."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orlop.errors import BadRequest, NotFound
from orlop.kubelet.server import logs
from orlop.kubelet.server.log_files import LogFiles
from orlop.kubelet.server.logs import Cutter, LogOptions, read_log, tail_offset, which_run
from orlop.kubelet.status.pod_status import Observed, PendingReason, pod_status

from ..objects import NOW, a_container, a_job, a_journal, a_pod, exited, running, started, waiting

LINES = [
    "2026-01-01T00:00:01.000000001Z stdout F one",
    "2026-01-01T00:00:02.5Z stderr F two",
    "2026-01-01T00:00:03Z stdout P thr",
    "2026-01-01T00:00:03.1Z stdout F ee",
    "2026-01-01T00:00:04Z stdout F ",
    "2026-01-01T00:00:05Z stdout F five five",
]
FILE = "".join(f"{line}\n" for line in LINES).encode()
WHOLE = b"one\ntwo\nthree\n\nfive five\n"


def cut(query, data=FILE, step=None):
    cutter = Cutter(LogOptions.parse(query, NOW))
    step = step or max(1, len(data))
    return b"".join(cutter.cut(data[i : i + step]) for i in range(0, len(data), step))


@pytest.mark.parametrize("step", [None, 1, 7, 64])
def test_lines_come_out_as_the_container_wrote_them_however_they_arrive(step):
    assert cut({}, step=step) == WHOLE


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"stream": "Stderr"}, b"two\n"),
        ({"stream": "Stdout"}, b"one\nthree\n\nfive five\n"),
        ({"sinceTime": "2026-01-01T00:00:04Z"}, b"\nfive five\n"),
        ({"limitBytes": "5"}, b"one\nt"),
        ({"limitBytes": "1000"}, WHOLE),
    ],
)
def test_only_what_is_asked_for_comes_out(query, expected):
    assert cut(query) == expected


def test_time_stamps_are_the_logs_own_and_one_a_line():
    assert cut({"timestamps": "true"}).decode().splitlines() == [
        "2026-01-01T00:00:01.000000001Z one",
        "2026-01-01T00:00:02.5Z two",
        "2026-01-01T00:00:03Z three",
        "2026-01-01T00:00:04Z ",
        "2026-01-01T00:00:05Z five five",
    ]


def test_since_seconds_counts_back_from_now():
    assert LogOptions.parse({"sinceSeconds": "60"}, NOW).since == NOW - 60


def test_garbled_lines_are_left_out():
    assert cut({}, b"nonsense\n" + FILE + b"\xff\xff\n") == WHOLE


@pytest.mark.parametrize(
    "query",
    [
        {"tailLines": "x"},
        {"tailLines": "-1"},
        {"sinceSeconds": "0"},
        {"limitBytes": "0"},
        {"sinceSeconds": "9" * 400},
        {"sinceTime": "yesterday"},
    ],
)
def test_options_that_mean_nothing_are_refused(query):
    with pytest.raises(BadRequest, match=next(iter(query))):
        LogOptions.parse(query, NOW)


@pytest.mark.parametrize("chunk", [16, 50, 1 << 18])
@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (0, b""),
        (1, b"five five\n"),
        (2, b"\nfive five\n"),
        (3, b"three\n\nfive five\n"),
        (4, b"two\nthree\n\nfive five\n"),
        (5, WHOLE),
        (100, WHOLE),
    ],
)
def test_the_tail_begins_where_a_line_does(tmp_path, monkeypatch, lines, expected, chunk):
    monkeypatch.setattr(logs, "CHUNK", chunk)
    path = tmp_path / "0.log"
    path.write_bytes(FILE)
    assert cut({}, FILE[tail_offset(LogFiles(path), lines) :]) == expected


def test_an_unfinished_last_line_counts(tmp_path):
    path = tmp_path / "0.log"
    path.write_bytes(FILE + b"2026-01-01T00:00:06Z stdout P unfin\n")
    assert cut({}, path.read_bytes()[tail_offset(LogFiles(path), 1) :]) == b"unfin"


RANKS = b"""\
2026-01-01T00:00:01Z stdout F:1 one
2026-01-01T00:00:02Z stdout P:11 ele
2026-01-01T00:00:02Z stderr F:1 uno
2026-01-01T00:00:03Z stdout F:11 ven
2026-01-01T00:00:04Z stderr F srun: error
"""


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"rank": "1"}, b"one\nuno\n"),
        ({"rank": "11"}, b"eleven\n"),
        ({"rank": "2"}, b""),
        ({"rank": "1", "tailLines": "1"}, b"uno\n"),
        ({"rank": "11", "tailLines": "5"}, b"eleven\n"),
    ],
)
def test_a_rank_has_its_own_lines_and_its_own_tail(tmp_path, query, expected):
    path = tmp_path / "0.log"
    path.write_bytes(RANKS)
    options = LogOptions.parse(query, NOW)
    start = 0
    if options.tail_lines is not None:
        start = tail_offset(LogFiles(path), options.tail_lines, options.mark)
    assert cut(query, RANKS[start:]) == expected


texts = st.lists(
    st.lists(st.text("ab \x00é", max_size=5), min_size=1, max_size=3), max_size=12
)  # of each line its parts


@settings(max_examples=100, deadline=None)
@given(texts, st.integers(0, 14), st.integers(1, 40), st.integers(8, 64))
def test_any_tail_of_any_log_in_any_pieces_is_what_it_should_be(lines, count, step, chunk):
    raw = [
        f"2026-01-01T00:00:01Z stdout {'F' if number == len(parts) else 'P'} {part}\n"
        for parts in lines
        for number, part in enumerate(parts, start=1)
    ]
    expected = "".join("".join(parts) + "\n" for parts in (lines[-count:] if count else []))
    with tempfile.NamedTemporaryFile() as file, pytest.MonkeyPatch.context() as patch:
        patch.setattr(logs, "CHUNK", chunk)
        file.write("".join(raw).encode())
        file.flush()
        data = Path(file.name).read_bytes()[tail_offset(LogFiles(Path(file.name)), count) :]
    assert cut({}, data, step) == expected.encode()


# Which run


def status_of(pod, *records, **observed):
    return pod_status(pod, Observed(journal=a_journal(*records), **observed), NOW)


def run(*records, container="main", previous=False, pod=None, **observed):
    pod = pod or a_pod()
    status = status_of(pod, *records, **{"job_id": "17", **observed})
    return which_run(pod, status, container, previous=previous)


RESTARTED = [started(), running(), exited(1), running(restart=1)]
CRASHING = [*RESTARTED, exited(2, restart=1), waiting("CrashLoopBackOff", restart=2)]


@pytest.mark.parametrize(
    ("records", "previous", "expected"),
    [
        ([started(), running()], False, 0),
        ([started(), running(), exited(0)], False, 0),
        (RESTARTED, False, 1),
        (RESTARTED, True, 0),
        (CRASHING, False, 1),
        (CRASHING, True, 1),
    ],
)
def test_the_present_or_the_previous_run_is_found(records, previous, expected):
    assert run(*records, previous=previous) == expected


def test_init_containers_have_logs_too():
    pod = a_pod(initContainers=[a_container("first")])
    assert run(started(), exited(0, "first", init=True), container="first", pod=pod) == 0


@pytest.mark.parametrize(
    ("records", "observed", "words"),
    [
        ([started()], {}, 'container "main" in pod "web" is waiting to start: ContainerCreating'),
        (
            [],
            {"job_id": None, "trouble": PendingReason("ErrImagePull", "x")},
            'container "main" in pod "web" is waiting to start: image can\'t be pulled',
        ),
        (
            [],
            {"job_id": None, "trouble": PendingReason("ImagePullBackOff", "x")},
            'container "main" in pod "web" is waiting to start: trying and failing to pull image',
        ),
        (
            [],
            {"job": a_job(reason="Priority", message="job 17 waits in main")},
            'container "main" in pod "web" is waiting to start: job 17 waits in main',
        ),
    ],
)
def test_what_has_no_log_yet_says_why_in_upstreams_words(records, observed, words):
    with pytest.raises(BadRequest) as refused:
        run(*records, **observed)
    assert refused.value.message == words


def test_without_a_previous_run_there_is_no_previous_log():
    with pytest.raises(BadRequest, match='previous terminated container "main" in pod "web" not'):
        run(started(), running(), previous=True)


def test_a_container_that_the_pod_does_not_have_is_not_found():
    with pytest.raises(NotFound, match='container "nosuch" not found in pod "web"'):
        run(started(), container="nosuch")


# Reading


class Feed:
    """A run that a test ends; `streams` are what an agent would send, one a connection."""

    def __init__(self, *streams, over=False):
        self.streams = list(streams)
        self.over = over
        self.opened = []

    def is_over(self):
        return self.over

    def open(self, offset, *, follow):
        self.opened.append((offset, follow))
        return self.streams.pop(0) if self.streams else None


class Stream:
    def __init__(self, *chunks, is_complete=True, then=None):
        self.chunks = list(chunks)
        self.is_complete = is_complete
        self.then = then
        self.is_closed = False

    async def read(self):
        if self.chunks:
            return self.chunks.pop(0)
        if self.then:
            self.then()
        return b""

    def close(self):
        self.is_closed = True


async def read(path, query, feed):
    options = LogOptions.parse(query, NOW)
    return b"".join([data async for data in read_log(path, options, feed)])


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setattr(logs, "FILE_POLL", 0.01)
    path = tmp_path / "0.log"
    path.write_bytes(FILE)
    return path


async def test_an_ended_run_is_read_from_its_file_alone(path):
    feed = Feed(over=True)
    assert await read(path, {}, feed) == WHOLE
    assert await read(path, {"follow": "true", "tailLines": "1"}, feed) == b"five five\n"
    assert feed.opened == []


async def test_what_the_agent_has_beyond_the_file_is_read_from_it(path):
    stream = Stream(b"2026-01-01T00:00:06Z stdout F six\n")
    feed = Feed(stream)
    assert await read(path, {}, feed) == WHOLE + b"six\n"
    assert feed.opened == [(len(FILE), False)]
    assert stream.is_closed


async def test_following_goes_on_until_the_agent_says_that_this_is_all(path):
    stream = Stream(b"2026-01-01T00:00:06Z stdout F six\n", b"2026-01-01T00:00:07Z stdout F 7\n")
    assert await read(path, {"follow": "1"}, Feed(stream)) == WHOLE + b"six\n7\n"


async def test_a_line_cut_by_a_lost_connection_is_whole_in_the_end(path):
    """The agent's line breaks in the middle; the rest comes by the next one."""
    first = Stream(b"2026-01-01T00:00:06Z std", is_complete=False)
    second = Stream(b"out F six\n")
    feed = Feed(first, second)
    assert await read(path, {"follow": "1"}, feed) == WHOLE + b"six\n"
    assert feed.opened == [(len(FILE), True), (len(FILE) + 24, True)]


async def test_without_an_agent_the_file_is_followed_until_the_run_is_over(path):
    feed = Feed()

    async def grow():
        await asyncio.sleep(0.03)
        with path.open("ab") as file:
            file.write(b"2026-01-01T00:00:06Z stdout F six\n")
        await asyncio.sleep(0.03)
        feed.over = True

    said, _ = await asyncio.gather(read(path, {"follow": "1"}, feed), grow())
    assert said == WHOLE + b"six\n"


async def test_a_log_that_is_not_there_yet_is_waited_for_only_when_followed(tmp_path, path):
    missing = tmp_path / "1.log"
    assert await read(missing, {"tailLines": "5"}, Feed()) == b""
    stream = Stream(b"2026-01-01T00:00:06Z stdout F six\n")
    assert await read(missing, {"follow": "1"}, Feed(stream)) == b"six\n"


async def test_reading_ends_at_the_limit_of_bytes_and_lets_go_of_the_agent(path):
    stream = Stream(b"2026-01-01T00:00:06Z stdout F sixsix\n", b"never read")
    query = {"follow": "1", "limitBytes": str(len(WHOLE) + 3)}
    assert await read(path, query, Feed(stream)) == WHOLE + b"six"
    assert stream.is_closed
    assert stream.chunks == [b"never read"]
