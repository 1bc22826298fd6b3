"""The project's own Python environment: uv, and `.venv` with all its dependency groups.

Called by set-up, as whoever owns the clone. uv lives in `.tools`, private to the clone, so that
nothing needs to be installed for a user or on the machine.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from .devroot import PROJECT
from .steps import Lacking, Step

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


def sync_step() -> Step:
    return Step("environment", is_synced, sync)


def is_synced() -> bool:
    has_pytest = (PROJECT / ".venv" / "bin" / "pytest").exists()
    return has_pytest and SYNCED.exists() and SYNCED.read_text() == _wanted()


def _wanted() -> str:
    return hashlib.sha256((PROJECT / "pyproject.toml").read_bytes()).hexdigest()


def sync() -> str:
    if not UV.exists():
        raise Lacking("uv is missing, see above")
    uv("sync", "--all-groups", "--python", PYTHON)
    SYNCED.write_text(_wanted())
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
