"""Writes and reads a backup: one tar file with the state, and the keys and id of the cluster.

Written by `orlop backup`, unpacked by `orlop restore`. Beside state.db it holds the keys, by which
kubeconfigs and tokens stay good, and the cluster's own id, by which it knows its jobs; so it is as
secret as the home. Pods' folders, logs and volumes are not in it.
"""

from __future__ import annotations

import io
import json
import os
import tarfile
import time
from pathlib import Path, PurePosixPath
from typing import Any

from ... import __version__, wellknown
from ...errors import ConfigError
from ...settings import Paths

FORMAT = 1
_MANIFEST = "backup.json"
_MANIFEST_SIZE = 1 << 16
_MEMBERS = 1000  # a home has a handful of keys


def write(file: Path, paths: Paths, state: Path) -> None:
    """Put a copy of the state and the home's own files into `file`; all of it, or no file."""
    partial = file.with_name(f".{file.name}.{os.getpid()}")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as raw, tarfile.open(fileobj=raw, mode="w:gz") as tar:
            _add(tar, _MANIFEST, json.dumps(_manifest()).encode())
            tar.add(state, wellknown.STATE_FILE)
            for name in _also(paths):
                tar.add(paths.home / name, name)
        with partial.open("rb") as done:
            os.fsync(done.fileno())
        partial.replace(file)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def _manifest() -> dict[str, Any]:
    return {"format": FORMAT, "version": __version__, "time": int(time.time())}


def _also(paths: Paths) -> list[str]:
    names = [paths.cluster_uid.name, paths.config.name, paths.pki.name]
    return [name for name in names if (paths.home / name).exists()]


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), 0o600
    tar.addfile(entry, io.BytesIO(data))


def unpack(file: Path, folder: Path) -> dict[str, Any]:
    """Unpack the files of a backup, as private ones; return what it says of itself."""
    try:
        with tarfile.open(file) as tar:
            manifest = _read_manifest(tar)
            for number, entry in enumerate(tar):
                if number >= _MEMBERS:
                    raise ValueError(f"it holds more than {_MEMBERS} files")
                _unpack_one(tar, entry, folder)
    except (tarfile.TarError, OSError, EOFError, ValueError, KeyError) as error:
        raise ConfigError(
            f"{file} is no backup of Orlop's, or is damaged: {error}; give a file that "
            "`orlop backup` has written"
        ) from error
    return manifest


def _read_manifest(tar: tarfile.TarFile) -> dict[str, Any]:
    first = tar.next()  # whatever else there is, it is not read before we know what this is
    raw = tar.extractfile(first) if first is not None and first.name == _MANIFEST else None
    manifest: dict[str, Any] = json.loads(raw.read(_MANIFEST_SIZE)) if raw is not None else {}
    if manifest["format"] > FORMAT:
        raise ValueError(f"its format {manifest['format']} is of a later Orlop")
    return manifest


def _belongs(name: PurePosixPath) -> bool:
    """Return whether a backup may hold it: nothing else may come into a home by one."""
    home = Paths(Path("/"))
    files = (_MANIFEST, wellknown.STATE_FILE, home.cluster_uid.name, home.config.name)
    return str(name) in files or name.parts[:1] == (home.pki.name,)


def _unpack_one(tar: tarfile.TarFile, entry: tarfile.TarInfo, folder: Path) -> None:
    """Unpack a plain file or folder within `folder`; refuse anything else a tar can hold."""
    name = PurePosixPath(entry.name)
    is_plain = entry.isfile() or entry.isdir()
    if name.is_absolute() or ".." in name.parts or not is_plain or not _belongs(name):
        raise ValueError(f"it holds {entry.name}, which does not belong there")
    target = folder / name
    if entry.isdir():
        target.mkdir(mode=0o700, exist_ok=True)
        return
    source = tar.extractfile(entry)
    assert source is not None, "plain files have contents"
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as written:
        while piece := source.read(1 << 20):
            written.write(piece)
        written.flush()
        os.fsync(written.fileno())
