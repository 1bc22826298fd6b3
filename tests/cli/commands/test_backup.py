"""`orlop backup` and `restore` as a user runs them, on a running cluster and on wrong files."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from orlop.cli.home import archive
from orlop.errors import ConfigError
from orlop.settings import Paths
from tests.cli.commands.test_up import Person, someone


@pytest.fixture
def person(installed_orlop: Path) -> Iterator[Person]:
    with someone(installed_orlop) as person:
        yield person


def test_a_running_cluster_comes_back_in_another_home(person: Person) -> None:
    assert person.run("orlop", "up", "--engine", "local").returncode == 0
    kubeconfig = str(person.paths.kubeconfig)
    kubectl = ["kubectl", f"--kubeconfig={kubeconfig}"]
    assert person.run(*kubectl, "create", "configmap", "kept", "--from-literal=k=v").returncode == 0
    left_behind = person.paths.home / "state.db.copy-1-dead"  # by a control plane that was killed
    left_behind.touch()
    before = person.run(*kubectl, "get", "cm", "kept", "-o", "jsonpath={.metadata.resourceVersion}")
    done = person.run("orlop", "backup", "cluster.backup")
    assert "Backed up" in done.stdout, done.stderr
    assert not left_behind.exists()
    assert (person.home / "cluster.backup").stat().st_mode & 0o777 == 0o600
    assert person.run(*kubectl, "create", "configmap", "later").returncode == 0

    refused = person.run("orlop", "restore", "cluster.backup")
    assert (refused.returncode, "orlop down" in refused.stderr) == (1, True)
    assert person.run("orlop", "down").returncode == 0
    done = person.run("orlop", "restore", "cluster.backup")
    assert "before-restore-" in done.stdout, done.stderr
    assert person.run("orlop", "up").returncode == 0
    found = person.run(*kubectl, "get", "cm", "-o", "name").stdout.split()
    assert "configmap/kept" in found
    assert "configmap/later" not in found
    assert person.run(*kubectl, "create", "configmap", "new").returncode == 0
    after = person.run(*kubectl, "get", "cm", "new", "-o", "jsonpath={.metadata.resourceVersion}")
    assert int(after.stdout) > int(before.stdout) + 1_000_000


def test_a_cluster_that_is_down_can_be_backed_up(person: Person) -> None:
    assert person.run("orlop", "up", "--engine", "local").returncode == 0
    assert person.run("orlop", "down").returncode == 0
    done = person.run("orlop", "backup", "cluster.backup")
    assert done.returncode == 0, done.stderr
    with tarfile.open(person.home / "cluster.backup") as tar:
        assert {"state.db", "pki/ca.key", "cluster-uid"} <= set(tar.getnames())


def test_what_cannot_be_is_said(person: Person) -> None:
    nothing = person.run("orlop", "backup", "cluster.backup")
    assert (nothing.returncode, "no state to back up" in nothing.stderr) == (1, True)
    (person.home / "nonsense").write_text("nonsense")
    os.chmod(person.home / "nonsense", 0o644)
    refused = person.run("orlop", "restore", "nonsense")
    assert (refused.returncode, "no backup of Orlop's" in refused.stderr) == (1, True)


def test_a_backup_puts_nothing_outside_its_folder(tmp_path: Path) -> None:
    home = Paths(tmp_path / "home")
    home.home.mkdir()
    (tmp_path / "state").write_bytes(b"")
    archive.write(tmp_path / "good", home, tmp_path / "state")
    with tarfile.open(tmp_path / "bad", "w") as bad, tarfile.open(tmp_path / "good") as good:
        manifest = good.extractfile("backup.json")
        assert manifest is not None
        data = manifest.read()
        for name, text in (("backup.json", data), ("../escaped", b"!")):
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            bad.addfile(entry, io.BytesIO(text))
    (tmp_path / "into").mkdir()
    with pytest.raises(ConfigError, match="does not belong there"):
        archive.unpack(tmp_path / "bad", tmp_path / "into")
    assert not (tmp_path / "escaped").exists()


def held(kind: bytes = tarfile.REGTYPE, name: str = "pki/x", size: int = 0) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.size, entry.linkname = kind, size, "/etc/passwd"
    return entry


@pytest.mark.parametrize(
    "entry",
    [
        held(tarfile.SYMTYPE),
        held(tarfile.LNKTYPE),
        held(tarfile.FIFOTYPE),
        held(tarfile.CHRTYPE),
        held(name="/etc/cron.d/x"),
        held(name="pki/../../x"),
        held(name="run/agent.pyz"),
        held(name="volumes/x"),
        held(name="kubeconfig"),
        held(tarfile.DIRTYPE, name="pods"),
    ],
    ids=lambda entry: f"{entry.name} {entry.type!r}",
)
def test_a_backup_brings_nothing_into_a_home_that_none_ever_held(tmp_path, entry):
    with tarfile.open(tmp_path / "bad", "w") as bad:
        first = held(name="backup.json", size=len(b'{"format": 1, "time": 0}'))
        bad.addfile(first, io.BytesIO(b'{"format": 1, "time": 0}'))
        bad.addfile(held(tarfile.DIRTYPE, name="pki"))
        bad.addfile(entry, io.BytesIO())
    (tmp_path / "into").mkdir()
    with pytest.raises(ConfigError, match="does not belong there"):
        archive.unpack(tmp_path / "bad", tmp_path / "into")
    assert {path.name for path in (tmp_path / "into").iterdir()} <= {"backup.json", "pki"}


@pytest.mark.parametrize("case", ["many", "bomb", "not first"])
def test_a_backup_that_becomes_more_than_one_is_refused(tmp_path, case):
    with tarfile.open(tmp_path / "bad", "w:gz", compresslevel=1) as bad:
        manifest = b'{"format": 1, "time": 0}' if case != "bomb" else b" " * (64 << 20)
        if case == "not first":
            bad.addfile(held(tarfile.DIRTYPE, name="pki"))
        bad.addfile(held(name="backup.json", size=len(manifest)), io.BytesIO(manifest))
        bad.addfile(held(tarfile.DIRTYPE, name="pki"))
        for number in range(2000 if case == "many" else 0):
            bad.addfile(held(name=f"pki/{number}"), io.BytesIO())
    (tmp_path / "into").mkdir()
    with pytest.raises(ConfigError, match="is no backup of Orlop's"):
        archive.unpack(tmp_path / "bad", tmp_path / "into")
