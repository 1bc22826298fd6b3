from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from orlop.cli.commands import down
from orlop.cli.home import record
from orlop.cli.home.record import Record
from orlop.cli.main import orlop
from orlop.settings import Paths


@pytest.fixture
def paths(empty_home: Paths) -> Paths:
    """A home as a control plane leaves it, with an image that even its owner may not change."""
    for folder in (empty_home.run, empty_home.pki, empty_home.log, empty_home.pods):
        folder.mkdir(parents=True)
    empty_home.cluster_uid.write_text("uid\n")
    for name in ("state.db", "state.db-wal", "state.schema", "kubeconfig", "config.yaml"):
        (empty_home.home / name).touch()
    locked = empty_home.images / "sha256" / "rootfs" / "usr"
    locked.mkdir(parents=True)
    (locked / "file").touch()
    locked.chmod(0o500)
    locked.parent.chmod(0o500)
    return empty_home


def test_nothing_running_is_no_error(empty_home, runner):
    said = runner.invoke(orlop, ["down"])
    assert said.exit_code == 0
    assert "not running" in said.output


def test_purge_removes_all_of_ours(paths, runner):
    said = runner.invoke(orlop, ["down", "--purge", "--yes"])
    assert said.exit_code == 0, said.output
    assert not paths.home.exists()


def test_its_owner_can_remove_folders_that_nobody_may_write(paths):
    """As nobody, where we are root: root may write everywhere."""
    script = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from orlop.cli.commands import down\n"
        "from orlop.settings import Paths\n"
        "os.chdir(sys.argv[1])\n"
        "if os.geteuid() == 0:\n"
        "    for folder, folders, files in os.walk('.'):\n"
        "        for name in ('.', *folders, *files):\n"
        "            os.chown(os.path.join(folder, name), 65534, 65534)\n"
        "    os.setgid(65534); os.setuid(65534)\n"
        "down.remove(Paths(Path('orlop')))"
    )
    parent = paths.home.parent
    subprocess.run([sys.executable, "-c", script, parent], check=True)
    assert not paths.home.exists()


def test_files_of_others_are_left_and_named(paths, runner):
    (paths.home / "thesis.tex").touch()
    said = runner.invoke(orlop, ["down", "--purge", "--yes"])
    assert "thesis.tex" in said.output
    assert os.listdir(paths.home) == ["thesis.tex"]


@pytest.mark.parametrize("answer", ["n\n", "\n", ""])
def test_purge_asks_and_takes_only_yes(paths, runner, answer):
    said = runner.invoke(orlop, ["down", "--purge"], input=answer)
    assert said.exit_code != 0
    assert (paths.home / "state.db").exists()


def test_a_folder_that_is_no_home_is_not_touched(empty_home, runner):
    empty_home.home.mkdir()
    (empty_home.home / "log").mkdir()
    said = runner.invoke(orlop, ["down", "--purge", "--yes"])
    assert said.exit_code == 1
    assert "no home of Orlop" in said.output
    assert (empty_home.home / "log").exists()


def test_one_on_another_host_says_where_to_go(paths, runner):
    record.write(paths, Record("login9", 17, "boot/1", engine="local"))
    said = runner.invoke(orlop, ["down"])
    assert said.exit_code == 1
    assert "ssh login9 orlop down" in said.output


def test_the_process_is_asked_to_end_and_waited_for(paths, runner):
    script = (
        "import signal, sys\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit())\n"
        "print(flush=True)\n"
        "signal.pause()"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        host = record.mine().host
        record.write(paths, Record(host, child.pid, record.birth_of(child.pid), engine="local"))
        said = runner.invoke(orlop, ["down"])
        assert said.exit_code == 0, said.output
        assert f"pid {child.pid}" in said.output
        assert child.wait(5) == 0


def test_one_that_will_not_end_is_told_with_the_remedy(paths, runner, monkeypatch):
    monkeypatch.setattr(down, "GRACE", 0.2)
    script = (
        "import signal\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "print(flush=True)\n"
        "signal.pause()"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        host = record.mine().host
        record.write(paths, Record(host, child.pid, record.birth_of(child.pid), engine="local"))
        said = runner.invoke(orlop, ["down"])
        child.send_signal(signal.SIGKILL)
    assert said.exit_code == 1
    assert f"kill -9 {child.pid}" in said.output


def test_a_folder_that_cannot_go_is_emptied(paths, monkeypatch, capsys):
    """A mount point, or a home in a folder of the site's; here one that is called `.`."""
    monkeypatch.chdir(paths.home)
    down.remove(Paths(Path()))
    assert os.listdir(paths.home) == []
    assert "the folder itself stays" in capsys.readouterr().out
