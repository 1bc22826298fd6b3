"""Journals are read as they grow, each record once, whatever state the file is in."""

from __future__ import annotations

import json

import pytest

from orlop.kubelet.agents.journal import (
    MOST_AT_ONCE,
    MOST_KNOWN,
    Journal,
    JournalFile,
    Record,
    record_of,
)

from ..objects import NOW, a_journal, exited, finished, running, started, terminating, waiting


def line(seq, **fields):
    return json.dumps({"seq": seq, "time": NOW, "type": "event", **fields}) + "\n"


@pytest.fixture
def file(tmp_path):
    return JournalFile(tmp_path / "journal"), tmp_path / "journal"


def test_a_journal_that_is_not_there_yet_is_empty(file):
    reader, _ = file
    assert reader.read() == []


def test_only_what_is_new_is_read(file):
    reader, path = file
    path.write_text(line(1) + line(2))
    assert [record.seq for record in reader.read()] == [1, 2]
    assert reader.read() == []
    with path.open("a") as out:
        out.write(line(3))
    assert [record.seq for record in reader.read()] == [3]


def test_a_torn_last_line_is_read_once_it_is_whole(file):
    reader, path = file
    text = line(1) + line(2)
    path.write_text(text[:-9])
    assert [record.seq for record in reader.read()] == [1]
    path.write_text(text)
    assert [record.seq for record in reader.read()] == [2]


def test_a_torn_line_that_its_agent_cut_off_and_wrote_anew_is_read(file):
    reader, path = file
    path.write_text(line(1) + '{"seq":2,"ty')
    assert len(reader.read()) == 1
    path.write_text(line(1) + line(2, reason="Anew"))
    assert [record.reason for record in reader.read()] == ["Anew"]


@pytest.mark.parametrize(
    "garbage",
    [
        b'{"seq": ' + b"[" * 66_000 + b"\n",
        b"nonsense\n",
        b"[]\n",
        b'{"type":"event"}\n',
        b'{"seq":"x","type":1}\n',
        b"\xff\xfe\n",
        b"\n",
    ],
)
def test_a_garbled_line_is_skipped_and_those_around_it_are_read(file, garbage):
    reader, path = file
    path.write_bytes(line(1).encode() + garbage + line(2).encode())
    assert [record.seq for record in reader.read()] == [1, 2]


def test_fields_and_types_of_a_newer_agent_do_no_harm():
    record = record_of({"seq": 1, "type": "news", "surprise": {"a": 1}})
    journal = Journal()
    assert record is not None
    assert journal.apply(record)
    assert journal == Journal(seq=1, time=0.0)


@pytest.mark.parametrize(
    "raw", [None, 5, "x", [], {}, {"seq": 1}, {"seq": 1, "type": "a", "name": 5}]
)
def test_a_message_that_is_no_record_is_none(raw):
    assert record_of(raw) is None


def test_a_record_counts_once_from_wherever_it_comes():
    journal = a_journal(started(), running())
    assert not journal.apply(Record(seq=2, type="container", name="main", state="terminated"))
    assert journal.containers["main"].current.state == "running"


def test_a_crashing_container_keeps_its_last_end_and_counts_its_restarts():
    journal = a_journal(
        started(),
        running(),
        exited(1),
        running(restart=1),
        exited(2, restart=1),
        waiting("CrashLoopBackOff", restart=2),
    )
    main = journal.containers["main"]
    assert main.restart == 1
    assert main.current.reason == "CrashLoopBackOff"
    assert main.ended.exitCode == 2


def test_a_requeued_job_loses_what_ran_and_keeps_the_counts():
    journal = a_journal(
        started(),
        running(restart=3),
        exited(0, "done"),
        terminating("signal"),
        finished("Failed"),
        started(restart=1),
    )
    main, done = journal.containers["main"], journal.containers["done"]
    assert (main.current, main.restart) == (None, 3)
    assert (main.ended.exitCode, main.ended.reason) == (137, "ContainerStatusUnknown")
    assert done.ended.exitCode == 0
    assert journal.finished is None
    assert journal.terminating is None


def test_the_agents_conditions_are_kept_by_their_type():
    said = {"type": "condition", "condition": "orlop.dev/Limits", "status": "False"}
    journal = a_journal(started(), {**said, "reason": "A"}, {**said, "reason": "B"})
    assert [r.reason for r in journal.conditions.values()] == ["B"]


@pytest.mark.parametrize(("why", "expected"), [("signal", True), ("deleted", False)])
def test_who_told_the_pod_to_end_is_known(why, expected):
    assert a_journal(started(), terminating(why)).was_signalled is expected


@pytest.mark.parametrize(
    "fields",
    [
        {"startedAt": 1e300},
        {"finishedAt": -1.0},
        {"time": 1e15},
        {"exitCode": 2**40},
        {"restart": -1},
        {"restart": 2**63},
        {"signal": 2**31},
    ],
)
def test_what_no_status_can_hold_is_no_record(file, fields):
    """The containers of a pod have its user: they can write into its journal."""
    reader, path = file
    garbled = line(2, **{"type": "container", "name": "main", "state": "terminated", **fields})
    path.write_text(line(1, type="started") + garbled + line(3, type="finished"))
    assert [record.seq for record in reader.read()] == [1, 3]
    assert record_of({"seq": 2, "type": "container", **fields}) is None


def test_a_journal_that_names_containers_without_end_is_not_followed_without_end():
    journal = Journal()
    for seq in range(1, 10_000, 2):
        journal.apply(Record(seq, "container", name=f"c{seq}", state="running"))
        journal.apply(Record(seq + 1, "condition", condition=f"x{seq}"))
    assert len(journal.containers) == len(journal.conditions) == MOST_KNOWN


def test_a_journal_without_lines_is_read_in_pieces_and_passed_over(file):
    reader, path = file
    with path.open("wb") as journal:
        journal.truncate(3 * MOST_AT_ONCE)  # a hole: much to read, and nothing to store
        journal.seek(0, 2)
        journal.write(b"\n" + line(1, type="started").encode())
    found = [reader.read() for _ in range(5)]
    assert [record.seq for records in found for record in records] == [1]
