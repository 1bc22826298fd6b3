from __future__ import annotations

import json
import os
import socket
import subprocess
import sys

import pytest

from orlop.cli.home import record
from orlop.cli.home.record import Record
from orlop.settings import Paths


@pytest.fixture
def paths(tmp_path):
    (tmp_path / "run").mkdir()
    return Paths(tmp_path)


def test_what_is_written_is_read_back(paths):
    mine = record.mine(url="https://10.0.0.1:1", port=1, engine="slurm")
    record.write(paths, mine)
    assert record.read(paths) == mine
    assert (mine.pid, mine.host) == (os.getpid(), socket.gethostname())
    assert paths.pid.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "null", '{"host": "a"}'])
def test_a_record_that_is_none_is_as_good_as_none(paths, text):
    paths.pid.write_text(text)
    assert record.read(paths) is None


def test_without_a_home_there_is_no_record(tmp_path):
    assert record.read(Paths(tmp_path / "nowhere")) is None


def test_a_newer_versions_fields_are_ignored(paths):
    paths.pid.write_text(json.dumps({"host": "a", "pid": 1, "colour": "blue"}))
    assert record.read(paths) == Record("a", 1)


def test_a_stopped_record_keeps_port_and_engine_only(paths):
    mine = record.mine(url="u", port=7, engine="slurm").stopped()
    assert mine.is_stopped
    assert (mine.port, mine.engine, mine.job, mine.birth) == (7, "slurm", "", "")


def test_a_process_is_told_from_a_later_one_with_its_pid():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    birth = record.birth_of(child.pid)
    assert birth
    assert birth != record.birth_of(os.getpid())
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # a zombie now
    assert record.birth_of(child.pid) == ""
    child.communicate()
    assert record.birth_of(child.pid) == ""


def test_a_processes_name_may_hold_anything(tmp_path):
    script = tmp_path / "a) S 1 2 (b"
    script.symlink_to(sys.executable)
    with subprocess.Popen([script, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert record.birth_of(child.pid).rpartition("/")[2].isdigit()
        child.kill()


@pytest.mark.parametrize(
    ("job", "expected"), [("", "login1 (pid 5)"), ("17", "login1 (job 17, pid 5)")]
)
def test_people_read_where_it_runs(job, expected):
    assert str(Record("login1", 5, job=job)) == expected
