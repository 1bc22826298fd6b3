"""The project's own Python environment: uv, and `.venv` with the dependencies.

Called by set-up, as whoever owns the clone. uv lives in `.tools`, private to the clone, so that
nothing needs to be installed for a user or on the machine.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from tools.devroot import PROJECT
from tools.extent import Extent
from tools.steps import Lacking, Step

PYTHON = "/usr/bin/python3"
TOOLS = PROJECT / ".tools"
UV = TOOLS / "uv" / "bin" / "uv"
SYNCED = TOOLS / "synced"


def uv_step() -> Step:
    return Step("uv", UV.exists, install_uv)


def install_uv() -> str:
    folder = UV.parent.parent
    shutil.rmtree(folder, ignore_errors=True)
    made = subprocess.run(
        [PYTHON, "-m", "venv", folder], capture_output=True, text=True, check=False
    )
    if made.returncode:
        raise Lacking("Python's venv module is missing: apt-get install python3-venv")
    pip = [str(folder / "bin" / "pip"), "install", "--quiet", "uv"]
    subprocess.run(pip, check=True, capture_output=True, text=True)
    return f"installed in {folder.relative_to(PROJECT)}"


def sync_step(extent: Extent) -> Step:
    return Step("environment", lambda: is_synced(extent), lambda: sync(extent))


def is_synced(extent: Extent) -> bool:
    """All is enough for the demo, too."""
    program = PROJECT / ".venv" / "bin" / ("python" if extent is Extent.DEMO else "pytest")
    enough = [mark(each) for each in {extent, Extent.ALL}]
    return program.exists() and SYNCED.exists() and SYNCED.read_text() in enough


def mark(extent: Extent) -> str:
    """What is written down when it is synced: another pyproject.toml has another."""
    return f"{extent} {hashlib.sha256((PROJECT / 'pyproject.toml').read_bytes()).hexdigest()}"


def sync(extent: Extent) -> str:
    """The demo's takes nothing away that the tests' has brought."""
    if not UV.exists():
        raise Lacking("uv is missing, see above")
    groups = ["--no-default-groups", "--inexact"] if extent is Extent.DEMO else ["--all-groups"]
    uv("sync", *groups, "--python", PYTHON)
    SYNCED.write_text(mark(extent))
    return "synced .venv"


def uv_from_cache(*words: str | Path) -> None:
    """Runs uv with what it has, quickly and without a network; with one if it must."""
    try:
        uv("--offline", *words)
    except subprocess.CalledProcessError:
        uv(*words)


def uv(*words: str | Path) -> None:
    """Runs uv on the project; a Python environment that happens to be active is not meant."""
    environment = {k: v for k, v in os.environ.items() if k != "VIRTUAL_ENV"}
    command = [UV, "--quiet", *words]
    subprocess.run(
        command, cwd=PROJECT, env=environment, check=True, capture_output=True, text=True
    )
