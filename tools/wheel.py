"""Keeps `<dev root>/venv` equal to the sources: Orlop as a user would have installed it.

Called by set-up and by the tests before they run `orlop` as a user who cannot read the clone.
Every version of the sources gets an environment of its own, and `venv` is a link to the latest: a
run that uses an older one is not disturbed.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tools.devroot import PROJECT, DevRoot
from tools.environment import PYTHON, UV, uv, uv_from_cache
from tools.locks import locked
from tools.steps import Lacking, Step

KEPT = 3
IN_USE = 3 * 3600  # seconds; several clones may share a dev root, each with tests that still run


def step(dev: DevRoot) -> Step:
    return Step("orlop", lambda: is_fresh(dev), lambda: f"installed in {refresh(dev)}")


def is_fresh(dev: DevRoot) -> bool:
    return (dev.venv / "bin" / "orlop").exists() and dev.venv.resolve().name == sources_hash()


def refresh(dev: DevRoot) -> Path:
    """Builds and installs the wheel, unless that has been done for these very sources."""
    wanted = dev.path / "venvs" / sources_hash()
    with locked(dev.path / "venvs"):
        if not (wanted / "bin" / "orlop").exists():
            _install(wanted)
        if not is_fresh(dev):
            _link(dev.venv, wanted)
        wanted.touch()
        _remove_old(wanted.parent)
    return wanted


def sources_hash() -> str:
    digest = hashlib.sha256()
    for path in _sources():
        digest.update(f"{path.relative_to(PROJECT)}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _sources() -> Iterator[Path]:
    yield PROJECT / "pyproject.toml"
    for path in sorted((PROJECT / "src").rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path


def build(folder: Path) -> Path:
    """Builds the wheel into `folder`."""
    uv_from_cache("build", "--wheel", "--python", PYTHON, "--out-dir", folder)
    return next(folder.glob("*.whl"))


def _install(folder: Path) -> None:
    if not UV.exists():
        raise Lacking("uv is missing, see above")
    shutil.rmtree(folder, ignore_errors=True)
    with tempfile.TemporaryDirectory() as place:
        wheel = build(Path(place))
        uv("venv", "--python", PYTHON, folder)
        uv_from_cache("pip", "install", "--python", folder / "bin" / "python", wheel)


def _link(link: Path, target: Path) -> None:
    """Replaces the link at once: there is no moment without one."""
    new = link.with_name("venv.new")
    new.unlink(missing_ok=True)
    new.symlink_to(target.relative_to(link.parent))
    new.rename(link)


def _remove_old(folder: Path) -> None:
    environments = sorted(
        (path for path in folder.iterdir() if path.is_dir()), key=lambda path: path.stat().st_mtime
    )
    for path in environments[:-KEPT]:
        if time.time() - path.stat().st_mtime > IN_USE:
            shutil.rmtree(path)
