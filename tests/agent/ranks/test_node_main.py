"""What a builder does on its node beside making the container: files that change with the plan."""

from __future__ import annotations

import base64
import json
import os
import subprocess

import pytest

from orlop.agent.pod.volumes import Volumes
from orlop.agent.ranks import node_main
from orlop.agent.ranks.node_main import Files, _mark


def plan(path, **files):
    listed = [{"path": name, "data": _encoded(text)} for name, text in files.items()]
    raw = {
        "version": 1,
        "pod": {"namespace": "d", "name": "p", "uid": "u"},
        "containers": [],
        "volumes": [{"name": "v", "kind": "files", "files": listed}],
    }
    new = path.with_suffix(".new")
    new.write_text(json.dumps(raw))
    new.rename(path)
    return raw


def _encoded(text):
    return base64.b64encode(text.encode()).decode()


@pytest.fixture
def written(tmp_path, monkeypatch):
    """A plan, the volume that was made of it, and what looks after that."""
    monkeypatch.setattr(node_main, "FRESH", 0.0)
    path = tmp_path / "plan.json"
    raw = plan(path, colour="blue")
    volumes = Volumes(raw["volumes"], str(tmp_path), str(tmp_path), False)
    return path, tmp_path / "volumes" / "v", Files(str(path), _mark(str(path)), volumes)


def test_files_follow_the_plan(written):
    path, volume, files = written
    plan(path, colour="green", shape="round")
    files.refresh()
    assert (volume / "colour").read_text() == "green"
    assert (volume / "shape").read_text() == "round"


def test_a_plan_that_is_the_same_is_not_read_again(written, monkeypatch):
    _, volume, files = written
    monkeypatch.setattr(node_main.plan, "read", lambda path: pytest.fail("read again"))
    files.refresh()
    assert (volume / "colour").read_text() == "blue"


@pytest.mark.parametrize("text", ["", "{}", None])
def test_a_plan_that_cannot_be_read_leaves_what_is_there(written, text):
    path, volume, files = written
    path.unlink()
    if text is not None:
        path.write_text(text)
    files.refresh()
    assert (volume / "colour").read_text() == "blue"
    plan(path, colour="green")
    files.refresh()
    assert (volume / "colour").read_text() == "green"


class QuietDoor:
    """All ranks have come, and nobody says anything more."""

    is_full, error = True, ""

    def __init__(self, *pids):
        self.pids = dict(enumerate(pids))

    def watched(self):
        return []

    def lines(self):
        return []

    def tick(self):
        pass


class Looks:
    """In the place of files: how often there was a look at them, and what was open then."""

    def __init__(self):
        self.open = []

    def refresh(self):
        self.open.append(len(os.listdir("/proc/self/fd")))


def test_a_node_is_served_until_its_last_rank_has_ended_and_nothing_piles_up(monkeypatch):
    monkeypatch.setattr(node_main, "FRESH", 0.02)
    looks, seconds = Looks(), ("0", "0.5")
    ranks = [subprocess.Popen(["sleep", each]) for each in seconds]
    # Looked at from here, whose children they are: they are reaped as their parents reap ranks.
    lives = node_main._lives
    by_pid = {rank.pid: rank for rank in ranks}
    monkeypatch.setattr(node_main, "_lives", lambda pid: by_pid[pid].poll() is None and lives(pid))
    node_main._wait(QuietDoor(*by_pid), looks)
    assert [rank.poll() for rank in ranks] == [0, 0]
    assert max(looks.open) - min(looks.open) <= len(ranks)
    assert len(os.listdir("/proc/self/fd")) <= looks.open[0]
