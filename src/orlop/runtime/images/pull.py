"""Makes one pull: from a source of layers to an unpacked root in a temporary folder.

Used by `cache` while it holds the image's lock. Layers are fetched side by side and unpacked in
their order by a child process as they arrive; if this process is cancelled the child is killed, and
if it is killed the child ends at the end of its input. Publishing is the cache's part.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ...errors import ImageError
from ...settings import ImageSettings
from . import manifest
from . import unpack as unpacker
from .answers import shown
from .credentials import Credential
from .manifest import Blob, Manifest
from .reference import Reference
from .registry import Client

PARALLEL_LAYERS = 3

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Room:
    """What one image may take, unpacked; an error names the settings where it is not enough."""

    size: int
    files: int


class Source(Protocol):
    """Where an image comes from: a registry, or a layout or a SIF on disk."""

    name: str

    async def __aenter__(self) -> object: ...
    async def __aexit__(self, *exc: object) -> None: ...

    async def resolve(self) -> Manifest: ...

    async def config(self, image: Manifest) -> bytes: ...

    async def layer(self, blob: Blob, folder: Path, arrived: Callable[[int], None]) -> Path:
        """Return the layer as a file; one in `folder` is removed once it is unpacked."""
        ...


class Remote:
    """An image in a registry."""

    def __init__(
        self,
        reference: Reference,
        settings: ImageSettings,
        logins: Callable[[], Awaitable[Sequence[Credential]]],
    ) -> None:
        self.name = str(reference)
        self._reference = reference
        self._settings = settings
        self._logins = logins
        self._client: Client | None = None

    async def __aenter__(self) -> Remote:
        self._client = Client(self._reference, self._settings, await self._logins())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._open.close()

    @property
    def _open(self) -> Client:
        assert self._client is not None, "use as a context manager"
        return self._client

    async def resolve(self) -> Manifest:
        digest, data = await self._open.manifest(self._reference.wanted)
        found = manifest.parse(data, digest, self.name)
        if isinstance(found, list):
            digest, data = await self._open.manifest(manifest.choose(found, self.name).digest)
            found = manifest.parse(data, digest, self.name)
        if isinstance(found, list):
            raise ImageError("ErrImagePull", f"{self.name} is an index of indexes; name one image")
        return found

    async def config(self, image: Manifest) -> bytes:
        return await self._open.blob(image.config)

    async def layer(self, blob: Blob, folder: Path, arrived: Callable[[int], None]) -> Path:
        target = folder / blob.digest.replace(":", "-")
        await self._open.download(blob, target, arrived)
        return target


async def unpack(
    source: Source,
    image: Manifest,
    folder: Path,
    lock: int,
    room: Room,
    progress: Progress | None,
) -> None:
    """Unpack the image's root in `folder`/rootfs, by a child that holds `lock` while it lives."""
    if image.size > room.size:
        message = f"{source.name} is {image.size} bytes compressed, and {room.size} are the most"
        raise ImageError("ErrImagePull", f"{message} unpacked; {unpacker.LARGER}")
    arrived = 0

    def count(amount: int) -> None:
        nonlocal arrived
        arrived += amount
        if progress is not None:
            progress(arrived, image.size)

    slots = asyncio.Semaphore(PARALLEL_LAYERS)

    async def fetch(blob: Blob) -> Path:
        async with slots:
            return await source.layer(blob, folder, count)

    async with _unpacker(folder / "rootfs", lock, room) as child:
        try:
            # An image may name the same layer twice; it is fetched once.
            async with asyncio.TaskGroup() as group:
                fetches = {
                    blob.digest: group.create_task(fetch(blob), name=f"layer {blob.digest}")
                    for blob in dict.fromkeys(image.layers)
                }
                for blob in image.layers:
                    path = await fetches[blob.digest]
                    await child.feed({"path": str(path), "type": blob.media_type})
        except ExceptionGroup as group:
            raise group.exceptions[0] from None  # the first failure ended the others
        await child.finish(source.name)
    for layer in folder.glob("sha*-*"):
        layer.unlink()


class _Child:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def feed(self, layer: dict[str, str]) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._process.stdin.write(json.dumps(layer).encode() + b"\n")
            await self._process.stdin.drain()

    async def finish(self, name: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        _, errors = await self._process.communicate()
        if self._process.returncode:
            words = errors[-unpacker.WORDS :].decode(errors="replace").strip().splitlines()
            why = shown(words[-1]) if words else f"ended with {self._process.returncode}"
            raise ImageError("ErrImagePull", f"{name} could not be unpacked: {why}")


@contextlib.asynccontextmanager
async def _unpacker(root: Path, lock: int, room: Room) -> AsyncIterator[_Child]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        str(unpacker.__file__),
        str(root),
        str(room.size),
        str(room.files),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        pass_fds=[lock],  # were we killed, nobody may touch the folder before the child has ended
    )
    try:
        yield _Child(process)
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.communicate()
