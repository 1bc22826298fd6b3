"""Reads images in an OCI layout on the shared file system: `/path/to/layout[:tag]`.

Used by `cache` like a registry, for sites without one: `skopeo copy docker://… oci:/path:tag` fills
it. A layout is read, not written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...errors import ImageError
from ...files import read_regular
from . import manifest
from .answers import DOCUMENT, shown
from .manifest import Blob, Manifest

_NAME = "org.opencontainers.image.ref.name"


def _split(image: str) -> tuple[Path, str]:
    path, colon, tag = image.rpartition(":")
    if colon and "/" not in tag and not Path(image).exists():
        return Path(path), tag
    return Path(image), ""


def is_layout(image: str) -> bool:
    return (_split(image)[0] / "oci-layout").is_file()


class Layout:
    """One image of a layout, read from its files."""

    def __init__(self, image: str) -> None:
        self.name = image
        self._path, self._tag = _split(image)

    async def __aenter__(self) -> Layout:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    async def resolve(self) -> Manifest:
        data = await asyncio.to_thread(read_regular, self._path / "index.json", DOCUMENT)
        index = manifest.parse(data, "", self.name)
        if not isinstance(index, list):
            raise ImageError("ErrImagePull", f"{self._path}: its index.json is no index")
        found = await self._manifest(self._chosen(index))
        if isinstance(found, list):
            found = await self._manifest(manifest.choose(found, self.name))
        if isinstance(found, list):
            raise ImageError("ErrImagePull", f"{self.name} is an index of indexes; name one image")
        return found

    def _chosen(self, entries: list[dict[str, Any]]) -> Blob:
        names = {_name(entry): entry for entry in entries}
        if self._tag and self._tag in names:
            return manifest.blob(names[self._tag], self.name)
        if not self._tag and len(entries) == 1:
            return manifest.blob(entries[0], self.name)
        if not self._tag and "latest" in names:
            return manifest.blob(names["latest"], self.name)
        held = ", ".join(sorted(filter(None, names))[:20])
        message = f"{self._path} holds {shown(held) or 'no images'}"
        raise ImageError("ErrImagePull", f"{message}; name one as {self._path}:<tag>")

    async def _manifest(self, named: Blob) -> Manifest | list[dict[str, Any]]:
        return manifest.parse(await self._blob(named), named.digest, self.name)

    async def config(self, image: Manifest) -> bytes:
        return await self._blob(image.config)

    async def layer(self, blob: Blob, folder: Path, arrived: Callable[[int], None]) -> Path:
        path = self._file(blob)
        if not await asyncio.to_thread(path.is_file):
            raise ImageError("ErrImagePull", f"{self.name} lacks its layer {blob.digest}")
        arrived(blob.size)
        return path

    async def _blob(self, named: Blob) -> bytes:
        try:
            data = await asyncio.to_thread(read_regular, self._file(named), DOCUMENT)
        except FileNotFoundError:
            raise ImageError("ErrImagePull", f"{self.name} lacks {named.digest}") from None
        manifest.check(data, named.digest, self.name)
        return data

    def _file(self, named: Blob) -> Path:
        algorithm, _, hexadecimal = named.digest.partition(":")
        return self._path / "blobs" / algorithm / hexadecimal


def _name(entry: dict[str, Any]) -> str:
    annotations = entry.get("annotations")
    name = annotations.get(_NAME) if isinstance(annotations, dict) else ""
    return name if isinstance(name, str) else ""
