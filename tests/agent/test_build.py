"""The agent's single file: the same bytes for the same sources, for old Pythons too."""

from __future__ import annotations

import ast
import hashlib
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from orlop.agent import build
from orlop.agent.build import sources
from orlop.wellknown import AGENT_LAUNCH

OURS = sys.version_info.minor


def other_pythons():
    """Interpreters of other versions on this machine."""
    paths = [*Path("/usr/bin").glob("python3*"), *Path("/usr/local/bin").glob("python3*")]
    paths += Path(os.environ.get("PYENV_ROOT", "/nowhere")).glob("versions/*/bin/python3*")
    named = {path.name.removeprefix("python"): str(path) for path in paths}
    minors = {int(name[2:]): name for name in named if re.fullmatch(r"3\.\d+", name)}
    return {minors[m]: named[minors[m]] for m in sorted(minors) if m >= 9 and m != OURS}


OTHERS = other_pythons()


def test_the_same_sources_give_the_same_bytes(tmp_path):
    code = (
        "import sys, pathlib; from orlop.agent.build import build;build(pathlib.Path(sys.argv[1]))"
    )
    digests = set()
    for number in range(3):
        target = tmp_path / f"{number}.pyz"
        env = {**os.environ, "PYTHONHASHSEED": str(number), "PYTHONPATH": "src"}
        subprocess.run([sys.executable, "-c", code, target], env=env, check=True)
        digests.add(hashlib.sha256(target.read_bytes()).hexdigest())
    assert len(digests) == 1


def test_it_holds_what_runs_on_a_node_and_no_more(tmp_path):
    target = build.build(tmp_path / "agent.pyz")
    assert zipfile.ZipFile(target).namelist() == ["__main__.pyc", "__main__.py"]
    assert "orlop.agent.main" in sources()
    assert "orlop.wellknown" in sources()
    elsewhere = {"orlop.agent.build", "orlop.agent.compiling", "orlop.agent.c_header"}
    assert not elsewhere & set(sources())
    assert not [name for name in sources() if not name.startswith(("orlop.agent", "orlop.well"))
                and name != "orlop"]  # fmt: skip


def test_a_file_that_is_there_is_replaced_whole(tmp_path):
    target = tmp_path / "run" / "agent.pyz"
    build.build(target)
    before = target.read_bytes()
    build.build(target)
    assert target.read_bytes() == before
    assert list(target.parent.iterdir()) == [target]


@pytest.mark.parametrize("name", sorted(sources()))
def test_every_module_is_written_for_python_3_9(name):
    tree = ast.parse(sources()[name], feature_version=(3, 9))
    imports = [n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom | ast.Import)]
    futures = [n for n in imports if isinstance(n, ast.ImportFrom) and n.module == "__future__"]
    assert futures or not imports, "annotations of today must not be evaluated there"


WAYS = {"launched": ["-I", "-S", "-c", AGENT_LAUNCH], "as a script": ["-I"]}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_it_needs_an_argument(stage, way):
    done = subprocess.run(
        [sys.executable, *way, stage.agent], capture_output=True, text=True, check=False
    )
    assert done.returncode == 64
    assert "usage" in done.stderr


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("version", list(OTHERS))
def test_it_runs_on_other_pythons(stage, version, way):
    """Where another Python is at hand: it has no use for our bytecode, and reads the source."""
    done = subprocess.run(
        [OTHERS[version], *way, stage.agent], capture_output=True, text=True, check=False
    )
    assert (done.returncode, "usage" in done.stderr) == (64, True)


def test_launching_it_imports_nothing_of_archives(stage):
    """That is what the launch is for: it takes a pod as long as the rest of its start."""
    way = ["-X", "importtime", *WAYS["launched"]]
    done = subprocess.run(
        [sys.executable, *way, stage.agent], capture_output=True, text=True, check=False
    )
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "orlop.agent.main" in imported
    assert imported.isdisjoint({"runpy", "importlib.util", "contextlib", "collections", "site"})
