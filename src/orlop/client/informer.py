"""Shares one LIST and WATCH per kind, with a cache that all components read.

Controllers, scheduler and kubelet ask `Informers` for the kinds they care about and subscribe to
changes; `Informers.run` keeps every cache following its API server for ever. It survives lost
watches and expired revisions by listing again and costs nothing while nothing changes.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

from .. import errors
from ..api.kinds import POD, Kind
from ..api.objects import Key, Obj, key_of, meta, uid_of
from ..log import logger
from .api import Api, ObjList, WatchEvent
from .cache import Cache, IndexFunction, Objects
from .clock import Clock, SystemClock, sleep
from .sharing import Shared
from .workqueue import Backoff

Handler = Callable[[WatchEvent, Obj | None], None]

log = logger(__name__)
# As client-go's reflector: from 0.8 s to 30 s between two tries to list or watch.
_RETRY = Backoff(first=0.8, longest=30.0)
_ALIKE = ("labels", "annotations", "ownerReferences", "finalizers")
_BREATH = 250  # objects handled before other tasks get a turn


def revision_of(obj: Obj) -> int:
    """Return the resource version as the number it is, on our server as on upstream's."""
    text = str(meta(obj).get("resourceVersion", ""))
    return int(text) if text.isdecimal() else 0


class Informer:
    """The cache of one kind; objects read from it are shared and must not be changed."""

    def __init__(
        self, api: Api, kind: Kind, *, metadata_only: bool = False, clock: Clock | None = None
    ) -> None:
        self.kind = kind
        self._api = api
        self._metadata_only = metadata_only
        self._clock = clock or SystemClock()
        # Pods are many and, but for their names and status, mostly alike.
        self._shared = Shared() if kind == POD and not metadata_only else None
        self._cache = Cache()
        self._handlers: list[Handler] = []
        self._waiting: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []
        self._synced = asyncio.Event()
        self._revision = 0
        self._watch_from = ""  # empty: list first

    async def synced(self) -> None:
        """Wait until the first list is in the cache."""
        await self._synced.wait()

    def __len__(self) -> int:
        return len(self._cache)

    def get(self, key: Key) -> Obj | None:
        return self._cache.get(key)

    def list(self, namespace: str = "") -> Objects:
        return self._cache.list(namespace)

    def add_index(self, name: str, function: IndexFunction) -> None:
        self._cache.add_index(name, function)

    def by_index(self, index: str, value: str) -> Objects:
        return self._cache.by_index(index, value)

    def count_by_index(self, index: str, value: str) -> int:
        return self._cache.count_by_index(index, value)

    def subscribe(self, handler: Handler) -> None:
        """Call `handler(event, previous)` at each change; what is known already comes first."""
        self._handlers.append(handler)
        for obj in self._cache.list():
            self._call(handler, WatchEvent("ADDED", obj), None)

    def unsubscribe(self, handler: Handler) -> None:
        if handler in self._handlers:
            self._handlers.remove(handler)

    async def seen(self, obj: Obj, timeout: float = 30.0) -> None:
        """Wait until our own write that answered `obj` is in the cache.

        Raises errors.Timeout where the watch does not deliver: the caller tries again later, from
        a cache that has caught up.
        """
        revision = revision_of(obj)
        key = key_of(obj)
        await self.until(lambda: self._revision >= revision, f"{key} at {revision}", timeout)

    async def gone(self, obj: Obj, timeout: float = 30.0) -> None:
        """Wait until the cache has seen our deletion of `obj`, or at least its beginning."""
        key, uid = key_of(obj), uid_of(obj)

        def is_gone() -> bool:
            now = self._cache.get(key)
            return now is None or uid_of(now) != uid or "deletionTimestamp" in meta(now)

        await self.until(is_gone, f"the deletion of {key}", timeout)

    async def run(self) -> None:
        """Follow the API server until cancelled."""
        failures = 0
        while True:
            started = self._clock.now()
            try:
                await self._list_and_watch()
                log.debug("watch ended", kind=self.kind.kind)
            except errors.Gone as error:
                log.debug("revision expired, listing again", kind=self.kind.kind, error=error)
                self._watch_from = ""
            except (errors.ApiError, OSError) as error:
                log.warning("watch failed", kind=self.kind.kind, error=error)
            except Exception:
                log.error("watch broke, listing again", kind=self.kind.kind, exc_info=True)
                self._watch_from = ""
            lived = self._clock.now() - started
            failures = 0 if lived > _RETRY.longest else failures + 1
            if failures > 1:
                await sleep(self._clock, _RETRY.delay(failures - 2) * random.uniform(1.0, 2.0))

    async def _list_and_watch(self) -> None:
        if not self._watch_from:
            try:
                listed = await self._api.list(self.kind)
            except errors.NotFound:
                # An API server that does not serve the kind has none of it, so far.
                self._synced.set()
                raise
            await self._replace(listed)
            self._watch_from = listed.resource_version
        count = 0
        async for event in self._api.watch(self.kind, resource_version=self._watch_from):
            self._apply(event)
            count += 1
            if count % _BREATH == 0:
                await asyncio.sleep(0)

    async def _replace(self, listed: ObjList) -> None:
        """Make the cache equal to a fresh list, telling what differs."""
        present: set[Key] = set()
        for count, item in enumerate(listed.items):
            obj = self._trimmed(item)
            present.add(key_of(obj))
            self._put(obj)
            if count % _BREATH == _BREATH - 1:
                await asyncio.sleep(0)
        for key in self._cache.absent_from(present):
            self._drop(key, None)
        self._advance(listed.resource_version)
        self._synced.set()

    def _apply(self, event: WatchEvent) -> None:
        version = str(meta(event.object).get("resourceVersion", ""))
        if event.type == "DELETED":
            obj = self._trimmed(event.object)
            self._drop(key_of(obj), obj)
        elif event.type != "BOOKMARK":
            self._put(self._trimmed(event.object))
        if version:
            self._watch_from = version
            self._advance(version)

    def _put(self, obj: Obj) -> None:
        former = self._cache.get(key_of(obj))
        if former is not None and meta(former)["resourceVersion"] == meta(obj)["resourceVersion"]:
            return
        if former is not None and uid_of(former) != uid_of(obj):
            # Deleted and made anew while nobody watched: both must be told.
            self._drop(key_of(obj), None)
            former = None
        self._cache.put(obj)
        self._tell(WatchEvent("MODIFIED" if former is not None else "ADDED", obj), former)

    def _drop(self, key: Key, last: Obj | None) -> None:
        former = self._cache.drop(key)
        last = last if last is not None else former
        if last is not None:
            self._tell(WatchEvent("DELETED", last), former)

    def _trimmed(self, obj: Obj) -> Obj:
        """Remove managedFields, a third of most objects that no component reads."""
        metadata = meta(obj)
        metadata.pop("managedFields", None)
        if self._metadata_only:
            return {
                "apiVersion": self.kind.api_version,
                "kind": self.kind.kind,
                "metadata": metadata,
            }
        if self._shared is not None:
            obj["spec"] = self._shared.one(obj["spec"])
            for name in _ALIKE:
                if name in metadata:
                    metadata[name] = self._shared.one(metadata[name])
        return obj

    def _tell(self, event: WatchEvent, former: Obj | None) -> None:
        for handler in self._handlers:
            self._call(handler, event, former)

    def _call(self, handler: Handler, event: WatchEvent, former: Obj | None) -> None:
        try:
            handler(event, former)
        except Exception:
            # One subscriber's bug must not blind the others.
            key = key_of(event.object)
            log.error("handler failed", exc_info=True, kind=self.kind.kind, key=key)

    def _advance(self, version: str) -> None:
        if version.isdecimal():
            self._revision = max(self._revision, int(version))
        if self._waiting:
            self._wake()

    def _wake(self) -> None:
        still: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []
        for condition, waiter in self._waiting:
            if waiter.done():
                continue
            if condition():
                waiter.set_result(None)
            else:
                still.append((condition, waiter))
        self._waiting = still

    async def until(self, condition: Callable[[], bool], what: str, timeout: float = 30.0) -> None:
        """Wait until `condition` holds for the cache; look at it after each change."""
        if condition():
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((condition, waiter))
        try:
            async with asyncio.timeout(timeout):
                await waiter
        except TimeoutError as error:
            message = f"the cache of {self.kind.plural} has not seen {what} within {timeout:g} s"
            raise errors.Timeout(message) from error


class Informers:
    """The informers of one API server, made as they are asked for and shared by all."""

    def __init__(self, api: Api, *, clock: Clock | None = None) -> None:
        self._api = api
        self._clock = clock or SystemClock()
        self._full: dict[Kind, Informer] = {}
        self._metadata: dict[Kind, Informer] = {}
        self._group: asyncio.TaskGroup | None = None
        self._tasks: dict[Kind, list[asyncio.Task[None]]] = {}

    def informer(self, kind: Kind) -> Informer:
        """Return the one informer of a kind."""
        if kind not in self._full:
            self._full[kind] = self._make(kind, metadata_only=False)
        return self._full[kind]

    def metadata(self, kind: Kind) -> Informer:
        """Return an informer for those who read just metadata; the full one where there is one."""
        if kind in self._full:
            return self._full[kind]
        if kind not in self._metadata:
            self._metadata[kind] = self._make(kind, metadata_only=True)
        return self._metadata[kind]

    def forget(self, kind: Kind) -> None:
        """Follow a kind no more, because it is gone; whoever asks for it gets a new informer."""
        for informers in (self._full, self._metadata):
            informers.pop(kind, None)
        for task in self._tasks.pop(kind, ()):
            task.cancel()

    async def synced(self) -> None:
        """Wait until every informer asked for so far has its first list."""
        for informer in [*self._full.values(), *self._metadata.values()]:
            await informer.synced()

    async def run(self) -> None:
        """Keep all informers, also those asked for later, following until cancelled."""
        try:
            async with asyncio.TaskGroup() as self._group:
                for informer in [*self._full.values(), *self._metadata.values()]:
                    self._start(self._group, informer)
                await asyncio.get_running_loop().create_future()
        finally:
            self._group = None

    def _make(self, kind: Kind, **options: Any) -> Informer:
        informer = Informer(self._api, kind, clock=self._clock, **options)
        if self._group is not None:
            self._start(self._group, informer)
        return informer

    def _start(self, group: asyncio.TaskGroup, informer: Informer) -> None:
        task = group.create_task(informer.run(), name=f"informer {informer.kind.resource}")
        self._tasks.setdefault(informer.kind, []).append(task)
