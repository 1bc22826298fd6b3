"""Keeps the images of a home: pulled once, unpacked once, shared by every pod that names them.

The kubelet calls `Images.ensure` for each container. In `images/` there is a folder per image,
`sha256-<digest>/{rootfs,image.json}`, that appears whole or not at all; `names/` remembers which
digest a name had. Callers of one process share a pull, processes wait for each other by file locks.
An unpacked root is not changed afterwards.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from ... import wellknown
from ...api import quantity
from ...api.objects import Obj
from ...errors import ImageError
from ...files import write_private
from ...log import logger
from ...settings import ImageSettings
from . import collection, credentials, layout, manifest, pull, reference
from .credential_programs import of_programs
from .locks import FileLock
from .manifest import Manifest
from .sif import Sif, is_sif
from .squash import squash

log = logger(__name__)

Progress = Callable[[int, int], None]  # bytes so far, bytes in all


@dataclass(frozen=True, slots=True)
class Image:
    """An image ready to run, and what its maker wants run."""

    reference: str
    digest: str  # sha256:… of the image's manifest; empty for roots that are no image
    rootfs: Path | None  # None: the host's own root
    entrypoint: list[str] = field(default_factory=list)
    cmd: list[str] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    user: str = ""
    working_dir: str = ""
    stop_signal: str = ""


@dataclass(slots=True)
class _Shared:
    """What callers who want the same image at the same time share."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    finished: float = -1.0
    outcome: Image | ImageError | None = None
    callers: int = 0
    watchers: list[Progress] = field(default_factory=list)

    def progress(self, done: int, total: int) -> None:
        for watcher in self.watchers:
            watcher(done, total)


class Images:
    def __init__(
        self,
        root: Path,
        settings: ImageSettings,
        environ: Mapping[str, str] | None = None,
        home: Path | None = None,
    ) -> None:
        self.root = root
        self._settings = settings
        self._environ = dict(os.environ) if environ is None else dict(environ)
        self._home = home or Path.home()
        self._shared: dict[tuple[str, str, str], _Shared] = {}
        self._pulls = asyncio.Semaphore(max(1, settings.parallel_pulls))
        self._is_swept = False
        self._max_size = quantity.to_bytes(settings.max_size)
        self._limit = quantity.to_bytes(settings.limit) if settings.limit else 0

    async def ensure(
        self,
        image: str,
        *,
        policy: str = "IfNotPresent",
        pull_secrets: Sequence[Obj] = (),
        progress: Progress | None = None,
        holder: Path | None = None,
    ) -> Image:
        """Return the image as a root folder, pulled if `policy` and the cache want it.

        It stays at least as long as the folder `holder` does. Raise ImageError with Kubernetes'
        reason and the remedy.
        """
        if image == wellknown.HOST_IMAGE:
            return Image(image, "", None)
        if image.startswith("/") and await asyncio.to_thread(_is_root, image):
            return await asyncio.to_thread(_folder, image)
        keyring = credentials.of_secrets(pull_secrets)
        key = (image, policy, hashlib.sha256(repr(_plain(keyring)).encode()).hexdigest())
        shared = self._shared.setdefault(key, _Shared())
        shared.callers += 1
        if progress is not None:
            shared.watchers.append(progress)
        asked = time.monotonic()
        try:
            async with shared.lock:
                # Somebody who was before us may have finished what we want while we waited.
                if shared.finished < asked:
                    shared.outcome = await self._outcome(image, policy, keyring, shared.progress)
                    shared.finished = time.monotonic()
                outcome = shared.outcome
        finally:
            shared.callers -= 1
            if progress is not None:
                shared.watchers.remove(progress)
            if not shared.callers:
                self._shared.pop(key, None)
        if isinstance(outcome, ImageError):
            raise ImageError(outcome.reason, outcome.message)
        assert outcome is not None, "an outcome is set before its time"
        if holder is not None and outcome.digest:
            # Before we look whether it is there: who clears away looks for holders afterwards.
            collection.hold(self.root, self._folder(outcome.digest).name, holder)
            if not (self._folder(outcome.digest) / "image.json").exists():
                return await self.ensure(
                    image,
                    policy=policy,
                    pull_secrets=pull_secrets,
                    progress=progress,
                    holder=holder,
                )
        return outcome

    async def _outcome(
        self, image: str, policy: str, keyring: credentials.Keyring, progress: Progress | None
    ) -> Image | ImageError:
        try:
            return await self._get(image, policy, keyring, progress)
        except ImageError as error:
            return error
        except OSError as error:
            remedy = f"check space, quota and permissions of {self.root}"
            return ImageError("ErrImagePull", f"{image}: {error.strerror or error}; {remedy}")

    async def _get(
        self, image: str, policy: str, keyring: credentials.Keyring, progress: Progress | None
    ) -> Image:
        source = await self._source(image, keyring)
        present = self._present(source.name, image)
        if present is not None and policy != "Always":
            return present
        if policy == "Never":
            message = f"{image} is not in {self.root} and imagePullPolicy is Never"
            raise ImageError("ErrImageNeverPull", f"{message}; use IfNotPresent once to fetch it")
        await self._prepare()
        lock = FileLock(self.root / "locks" / _slug(source.name))
        async with self._pulls, lock:
            present = self._present(source.name, image)
            if present is not None and policy != "Always":
                return present
            async with source:
                return await self._pull(source, image, lock, progress)

    async def _source(self, image: str, keyring: credentials.Keyring) -> pull.Source:
        if image.startswith("/"):
            return await asyncio.to_thread(_of_file, image)
        name = reference.parse(image, self._settings.default_registry)
        return pull.Remote(name, self._settings, lambda: self._logins(name, keyring))

    async def _logins(
        self, name: reference.Reference, keyring: credentials.Keyring
    ) -> list[credentials.Credential]:
        """Return the pod's logins, then the user's own; asked for when something is pulled."""

        def find() -> list[credentials.Credential]:
            own = self._own_logins(name.registry)
            return credentials.matching([*keyring, *own], name.registry, name.repository)

        return await asyncio.to_thread(find)

    def _own_logins(self, registry: str) -> credentials.Keyring:
        configs = credentials.configs_of(self._environ, self._home)
        written = credentials.of_user(self._environ, self._home)
        return [*written, *of_programs(configs, registry, self._environ)]

    async def _pull(
        self, source: pull.Source, image: str, lock: FileLock, progress: Progress | None
    ) -> Image:
        """Fetch what is missing.

        1. Ask which image the name means now.
        2. Unless it is here, unpack its layers into a folder of another name, and rename that.
        3. Remember the name.
        """
        found = await source.resolve()
        if not (self._folder(found.digest) / "image.json").exists():
            started = time.monotonic()
            await self._unpack(source, found, lock, progress)
            seconds = round(time.monotonic() - started, 2)
            log.info("pulled image", image=image, digest=found.digest, seconds=seconds)
            await self._collect(keep=self._folder(found.digest).name)
        self._remember(source.name, found.digest)
        present = self._present(source.name, image)
        assert present is not None, f"{found.digest} was just written"
        return present

    async def _unpack(
        self, source: pull.Source, found: Manifest, lock: FileLock, progress: Progress | None
    ) -> None:
        """Unpack into the folder of another name, which is ours while we hold the image's lock."""
        temporary = self.root / "tmp" / _slug(source.name)
        await _remove(temporary)
        temporary.mkdir(mode=0o700)
        try:
            config = manifest.config_of(await source.config(found), source.name)
            room = pull.Room(self._max_size, self._settings.max_files)
            await pull.unpack(source, found, temporary, lock.descriptor, room, progress)
            if self._settings.squashfs:
                await squash(temporary)
            await asyncio.to_thread(collection.measure, temporary)
            write_private(temporary / "image.json", msgspec.json.encode(config))
            self._publish(temporary, self._folder(found.digest))
        finally:
            await _remove(temporary)

    async def _collect(self, keep: str) -> None:
        if not self._limit:
            return
        gone = await asyncio.to_thread(collection.collect, self.root, self._limit, keep)
        if gone:
            log.info("removed images that no pod uses", images=",".join(gone))

    # Files

    def _present(self, name: str, image: str) -> Image | None:
        """Return the image of that name if it is here whole."""
        try:
            known = msgspec.json.decode((self.root / "names" / _slug(name)).read_bytes())
            folder = self._folder(known["digest"])
            config = msgspec.json.decode((folder / "image.json").read_bytes())
        except (FileNotFoundError, msgspec.DecodeError, KeyError, TypeError):
            return None
        return _image(image, known["digest"], folder / "rootfs", config)

    def _folder(self, digest: str) -> Path:
        return self.root / digest.replace(":", "-")

    def _remember(self, name: str, digest: str) -> None:
        entry = {"name": name, "digest": digest, "checked": int(time.time())}
        write_private(self.root / "names" / _slug(name), msgspec.json.encode(entry))

    def _publish(self, temporary: Path, folder: Path) -> None:
        """Publish by a rename; another process may have been as quick: its folder is as good."""
        try:
            temporary.rename(folder)
        except OSError:
            if (folder / "image.json").exists():
                return
            # Somebody took it apart: out of the way, to be swept.
            folder.rename(temporary.with_name(f"{temporary.name}.{time.time_ns()}"))
            temporary.rename(folder)

    async def _prepare(self) -> None:
        """Make our folders, and once remove what pulls that were killed left behind."""
        for name in ("names", "locks", "tmp"):
            (self.root / name).mkdir(parents=True, exist_ok=True, mode=0o700)
        if self._is_swept:
            return
        self._is_swept = True
        for path in (self.root / "tmp").iterdir():
            async with FileLock(self.root / "locks" / path.name, wait=False) as lock:
                if lock.is_held:
                    await _remove(path)


async def _remove(folder: Path) -> None:
    await asyncio.to_thread(collection.remove_tree, folder)


def _image(image: str, digest: str, rootfs: Path, config: dict[str, Any]) -> Image:
    pairs = (entry.partition("=") for entry in config.get("Env") or [])
    return Image(
        reference=image,
        digest=digest,
        rootfs=rootfs,
        entrypoint=list(config.get("Entrypoint") or []),
        cmd=list(config.get("Cmd") or []),
        env={name: value for name, _, value in pairs},
        user=config.get("User") or "",
        working_dir=config.get("WorkingDir") or "",
        stop_signal=config.get("StopSignal") or "",
    )


def _is_root(image: str) -> bool:
    """Return whether a path is neither a layout nor a SIF, as far as can be told."""
    try:
        return not layout.is_layout(image) and not is_sif(Path(image))
    except (OSError, ValueError) as error:
        raise ImageError("InvalidImageName", f"{image!r} is no path: {error}") from None


def _of_file(image: str) -> pull.Source:
    return layout.Layout(image) if layout.is_layout(image) else Sif(image)


def _folder(image: str) -> Image:
    """Return a root that lies unpacked on the shared file system."""
    path = Path(image)
    if not path.is_dir():
        found = "a file" if path.exists() else "nothing"
        message = f"{image}: expected a SIF, an OCI layout or a root folder, found {found}"
        raise ImageError("InvalidImageName", f"{message}; it must be seen from here, too")
    return Image(image, "", path)


def _slug(name: str) -> str:
    """Return a file name for any image name: readable, and another for each."""
    readable = "".join(char if char.isalnum() or char in ".-" else "_" for char in name)[-80:]
    return f"{readable}-{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def _plain(keyring: credentials.Keyring) -> list[tuple[str, str, str, str]]:
    return [(host, c.username, c.password, c.identity_token) for host, c in keyring]
