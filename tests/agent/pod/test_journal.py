"""The journal: numbers without gaps, durable before told, whole after a torn write."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from orlop.agent.pod.journal import Journal


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "journal")


def lines(path):
    with open(path) as file:
        return [json.loads(line) for line in file]


def test_records_are_numbered_from_one(path):
    journal = Journal(path)
    journal.append({"type": "a"}, 1.5)
    journal.append({"type": "b"}, 2.5)
    journal.flush()
    assert lines(path) == [
        {"seq": 1, "time": 1.5, "type": "a"},
        {"seq": 2, "time": 2.5, "type": "b"},
    ]


def test_nothing_may_be_told_before_it_is_durable(path):
    journal = Journal(path)
    journal.append({"type": "a"}, 1.0)
    assert journal.since(0) == []
    assert journal.seq == 0
    assert journal.flush()
    assert [record["seq"] for record in journal.since(0)] == [1]


def test_a_flush_of_nothing_says_so(path):
    assert not Journal(path).flush()


def test_since_gives_what_follows_a_number(path):
    journal = Journal(path)
    for kind in "abc":
        journal.append({"type": kind}, 1.0)
    journal.flush()
    assert [record["type"] for record in journal.since(1)] == ["b", "c"]
    assert journal.since(3) == []


def test_the_next_agent_goes_on_with_the_numbers(path):
    first = Journal(path)
    first.append({"type": "a"}, 1.0)
    first.flush()
    first.close()
    second = Journal(path)
    assert [record["type"] for record in second.records] == ["a"]
    assert second.append({"type": "b"}, 2.0)["seq"] == 2
    second.flush()
    assert [record["seq"] for record in lines(path)] == [1, 2]


@pytest.mark.parametrize("torn", ["{", '{"seq":2,"type":"b"}', '{"seq":2,"ti'])
def test_a_torn_last_line_is_cut_off(path, torn):
    with open(path, "w") as file:
        file.write('{"seq":1,"time":1,"type":"a"}\n' + torn)
    journal = Journal(path)
    journal.append({"type": "c"}, 2.0)
    journal.flush()
    assert [(r["seq"], r["type"]) for r in lines(path)] == [(1, "a"), (2, "c")]


def test_only_its_owner_may_read_it(path):
    Journal(path)
    assert os.stat(path).st_mode & 0o777 == 0o600


def test_a_full_disk_loses_no_record(tmp_path):
    """A tiny file-size limit stands in for a quota: the kernel refuses what is beyond it."""
    path = str(tmp_path / "journal")
    code = (
        "import resource, sys, signal; from orlop.agent.pod.journal import Journal\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "journal = Journal(sys.argv[1])\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))\n"
        "for number in range(5): journal.append({'type': 'event', 'n': number}, 1.0)\n"
        "print(journal.flush(), journal.is_behind, journal.seq)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)\n"
        "print(journal.flush(), journal.is_behind, journal.seq)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True)
    assert done.stdout.splitlines() == ["False True 0", "True False 5"], done.stderr
    assert [record["n"] for record in lines(path)] == [0, 1, 2, 3, 4]
