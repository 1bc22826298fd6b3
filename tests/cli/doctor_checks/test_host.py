from __future__ import annotations

import os
import socket
import sqlite3
from pathlib import Path

import pytest

from orlop.cli.doctor_checks import filesystem, host
from orlop.cli.doctor_checks.filesystem import FileSystem
from orlop.cli.home import record
from orlop.settings import Paths, Settings


@pytest.fixture
def paths(tmp_path):
    paths = Paths(tmp_path / "home")
    paths.home.mkdir(mode=0o700)
    paths.run.mkdir()
    return paths


def levels(findings):
    return {(finding.subject, finding.level) for finding in findings}


def test_this_python_is_well():
    assert levels(host.python()) == {("python", "ok"), ("sqlite", "ok")}


def test_an_old_sqlite_is_a_problem_with_a_remedy(monkeypatch):
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 7, 17))
    (_, found) = host.python()
    assert (found.subject, found.level) == ("sqlite", "problem")
    assert found.remedy


def test_a_private_home_with_room_is_well_and_nothing_is_left_in_it(paths):
    found = list(host.home(paths))
    assert levels(found) == {("home", "ok"), ("clock", "ok")}
    assert os.listdir(paths.home) == ["run"]


def test_a_home_that_does_not_exist_yet_is_judged_by_where_it_will_be(paths):
    assert ("home", "ok") in levels(host.home(Paths(paths.home / "a" / "b")))


def test_a_home_open_to_others_is_a_problem(paths):
    paths.home.chmod(0o755)
    problems = [found for found in host.home(paths) if found.level == "problem"]
    assert [found.remedy for found in problems] == [f"chmod 700 {paths.home}"]


def test_a_full_file_system_is_told(paths, monkeypatch):
    monkeypatch.setattr(filesystem, "of", lambda _: FileSystem("nfs4", "s:/", 1 << 20, 1 << 40))
    assert ("home", "note") in levels(host.home(paths))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_home_that_cannot_be_written_is_a_problem():
    found = list(host.home(Paths(Path("/proc/orlop"))))
    assert ("home", "problem") in levels(found)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [("alice:100000:65536\n", "ok"), ("bob:100000:65536\n", "note"), ("", "note")],
    ids=["a range", "another's", "none"],
)
def test_ranges_of_other_users_are_not_ours(tmp_path, lines, expected):
    (tmp_path / "subuid").write_text(lines)
    found = host._subuid("alice", tmp_path / "subuid")
    assert found.level == expected
    assert (found.remedy == "") == (expected == "ok")


def test_kubectl_is_found_with_its_version():
    found = host.kubectl()
    assert found.level == "ok"
    assert found.found.startswith("v1.")


def test_without_kubectl_it_says_where_to_get_it(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    found = host.kubectl()
    assert found.level == "note"
    assert "kubernetes.io" in found.remedy


def test_a_port_of_another_process_is_a_problem_and_our_own_is_not(paths):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        settings = Settings(listen="127.0.0.1", port=port)
        assert host.ports(paths, settings).level == "problem"
        record.write(paths, record.mine(url=f"https://127.0.0.1:{port}", port=port))
        assert host.ports(paths, settings).level == "ok"
    assert host.ports(Paths(paths.home / "x"), Settings()).level == "ok"


@pytest.mark.parametrize(
    ("environ", "told"),
    [
        ({}, False),
        ({"https_proxy": "http://p:3128"}, True),
        ({"HTTPS_PROXY": "http://p:3128", "NO_PROXY": "a,10.0.0.1 b"}, False),
        ({"HTTPS_PROXY": "http://p:3128", "no_proxy": "10.0.0.1"}, False),
        ({"HTTPS_PROXY": "http://p:3128", "NO_PROXY": "10.0.0.2"}, True),
    ],
    ids=["none", "unexcepted", "excepted", "in small letters", "another"],
)
def test_a_proxy_that_would_swallow_kubectl_is_told(environ, told):
    found = list(host.proxy(environ, "https://10.0.0.1:6443"))
    assert bool(found) == told
    if told:
        assert found[0].remedy == "export NO_PROXY=10.0.0.1,$NO_PROXY"
