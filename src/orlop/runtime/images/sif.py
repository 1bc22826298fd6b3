"""Reads images in a SIF, the one file that apptainer makes of an image: `/path/to/image.sif`.

Used by `cache` like a registry. Its head and descriptors are read here, to find the root file
system in it and what its maker wants run; the root itself is unpacked by `unpack`. None of
apptainer's programs is run, and a SIF is not written to.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from ...errors import ImageError
from ...files import open_regular
from .answers import loads
from .manifest import Blob, Manifest, digest_of
from .unpack import SQUASHFS

# As github.com/apptainer/sif: pkg/sif/sif.go and descriptor.go; little-endian, without padding.
_MAGIC_AT, _MAGIC = 32, b"SIF_MAGIC\0"
_HEAD = struct.Struct("<48x16x8q")  # created, modified, free, total, descriptors at, size, data
_DESCRIPTOR = struct.Struct("<i?III7q128s384s")
_PARTITION, _JSON = 0x4004, 0x4006
_SQUASHFS, _PRIMARY = 1, 2  # a kind of file system, and of partition
_MOST = 4096  # descriptors; apptainer makes 48
_SMALL = 4 << 20  # bytes of a JSON object
_FILE_SYSTEMS = {2: "ext3", 3: "an archive", 4: "raw data", 5: "encrypted"}

RUNSCRIPT = "/.singularity.d/runscript"
_EXPORT = re.compile(r"""(?:export\s+)?([A-Za-z_]\w*)=(.*)""")
# What docker's variables become: kept where they are set already, which they are not in a pod.
_KEPT = re.compile(r"""^"\$\{(\w+):-(.*)\}"$""")


@dataclass(frozen=True, slots=True)
class _Object:
    kind: int
    offset: int
    size: int
    name: str
    extra: bytes


def is_sif(path: Path) -> bool:
    try:
        with open_regular(path) as file:
            return file.read(_MAGIC_AT + len(_MAGIC))[_MAGIC_AT:] == _MAGIC
    except OSError:
        return False


class Sif:
    """One SIF, as it is now: a file that is replaced is another image."""

    def __init__(self, image: str) -> None:
        self._path = Path(image)
        with open_regular(self._path) as file:
            objects, head = _objects(file, image)
            size = file.seek(0, 2)
            self._config = _config(file, objects)
        root = _root(objects, image)
        self._digest = digest_of(head + str(size).encode())
        # By what it is, too: the name alone would find what lay there before.
        self.name = f"{image}@{self._digest}"
        media_type = f"{SQUASHFS};offset={root.offset}"
        self._layer = Blob(self._digest, root.size, media_type)

    async def __aenter__(self) -> Sif:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    async def resolve(self) -> Manifest:
        config = Blob(digest_of(self._config), len(self._config))
        return Manifest(self._digest, config, (self._layer,))

    async def config(self, image: Manifest) -> bytes:
        return self._config

    async def layer(self, blob: Blob, folder: Path, arrived: Callable[[int], None]) -> Path:
        arrived(blob.size)
        return self._path


def _objects(file: BinaryIO, image: str) -> tuple[list[_Object], bytes]:
    """Return all objects in the file and the bytes that list them, with an identity and times."""
    head = file.read(_HEAD.size)
    try:
        _, _, _, total, offset, *_ = _HEAD.unpack(head)
        if not 0 < total <= _MOST:
            raise struct.error(f"{total} descriptors")
        file.seek(offset)
        table = file.read(total * _DESCRIPTOR.size)
        found = [_object(fields) for fields in _DESCRIPTOR.iter_unpack(table) if fields[1]]
    except (struct.error, ValueError, OSError) as error:
        message = f"{image} is no whole SIF ({error}); build or copy it anew"
        raise ImageError("InvalidImageName", message) from None
    return found, head + table


def _object(fields: tuple[Any, ...]) -> _Object:
    name = fields[12].partition(b"\0")[0].decode(errors="replace")
    return _Object(fields[0], fields[5], fields[6], name, fields[13])


def _root(objects: list[_Object], image: str) -> _Object:
    found = ""
    for one in objects:
        if one.kind != _PARTITION:
            continue
        file_system, part = struct.unpack_from("<ii", one.extra)
        if part == _PRIMARY and file_system == _SQUASHFS:
            return one
        found = _FILE_SYSTEMS.get(file_system, "something else")
    message = f"{image}: expected a SIF with a squashfs root, found {found or 'none'}"
    raise ImageError("InvalidImageName", f"{message}; build it anew with apptainer build")


# What its maker wants run


def _config(file: BinaryIO, objects: list[_Object]) -> bytes:
    """Return an OCI image's config: of the image it was built from, or of apptainer's script."""
    kept = {one.name: one for one in objects if one.kind == _JSON}
    config = _json(file, kept.get("oci-config.json"))
    if not config:
        metadata = _json(file, kept.get("inspect-metadata.json"))
        attributes = _mapping(_mapping(metadata.get("data")).get("attributes"))
        config = {"Entrypoint": [RUNSCRIPT], "Env": _environment(attributes)}
    return json.dumps({"config": config}).encode()


def _json(file: BinaryIO, found: _Object | None) -> dict[str, Any]:
    if found is None or not 0 < found.size <= _SMALL:
        return {}
    try:
        file.seek(found.offset)
        return _mapping(loads(file.read(found.size)))
    except (ValueError, OSError):
        return {}


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _environment(attributes: dict[str, Any]) -> list[str]:
    """Return variables that its scripts set to plain values; others would need a shell."""
    scripts = _mapping(attributes.get("environment"))
    found: dict[str, str] = {}
    for name in sorted(scripts):
        found.update(_assignments(str(scripts[name])))
    return [f"{name}={value}" for name, value in found.items()]


def _assignments(script: str) -> Iterator[tuple[str, str]]:
    for line in script.splitlines():
        match = _EXPORT.fullmatch(line.strip())
        if match is None:
            continue
        name, value = match.groups()
        default = _KEPT.match(value)
        if default is not None and default.group(1) == name:
            value = default.group(2)
        value = value[1:-1] if value[:1] == value[-1:] and value[:1] in ("'", '"') else value
        if not set(value) & set("$`"):
            yield name, value
