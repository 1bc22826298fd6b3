"""The shape of every controller: informers fill a queue of keys, workers reconcile them.

A controller names its kind and what it owns or watches, and writes one method, `reconcile(key)`,
that brings the cluster to the state which that object asks for, whatever happened before. Reads
come from informer caches; after each write the writer waits until its cache has seen it, so that a
reconcile starts from a state that is at least as new as the last one.
"""

from __future__ import annotations

import abc
import asyncio
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import ClassVar, Generic, NamedTuple, Protocol, TypeVar

from ... import errors
from ...api import selectors
from ...api.kinds import Kind
from ...api.objects import Key, Obj, controller_of, key_of, labels_of, meta
from ...client.api import Api, WatchEvent
from ...client.clock import Clock, SystemClock
from ...client.informer import Handler, Informer, Informers
from ...client.recorder import Recorder
from ...client.workqueue import Backoff, WorkQueue
from ...log import logger
from .status import merge_diff

K = TypeVar("K", bound=Hashable)
Face = Callable[[Obj], object]

BY_CONTROLLER = "controller"
# Upstream waits up to 1,000 s after repeated failures; people who mend a quota wait less here.
_BACKOFF = Backoff(first=0.005, longest=60.0)
# An object whose reconcile is long, say of a thousand pods that all change, is let rest in
# proportion: many events are then one look, and no object has the loop for itself.
_QUICK, _REST, _LONGEST_REST = 0.002, 3.0, 0.25
_TURN = 0.001  # seconds of reconciles that never wait, before other tasks get a turn


class Runnable(Protocol):
    """A controller of any shape, as the manager runs it."""

    name: ClassVar[str]

    async def run(self) -> None: ...


class Result(NamedTuple):
    """The end of a reconcile: done until something changes, or to be looked at again in time."""

    after: float | None = None

    @classmethod
    def done(cls) -> Result:
        return cls(None)

    @classmethod
    def again(cls, after: float) -> Result:
        return cls(max(after, 0.0))

    def sooner(self, other: Result) -> Result:
        """Return the earlier of two results."""
        times = [result.after for result in (self, other) if result.after is not None]
        return Result(min(times)) if times else self


def by_controller(obj: Obj) -> tuple[str]:
    """Index: the uid of an object's controller; objects without one are under their namespace."""
    owner = controller_of(obj)
    return (str(owner["uid"]) if owner else without_controller(meta(obj).get("namespace") or ""),)


def without_controller(namespace: str) -> str:
    return f"none in {namespace}"


class Loop(abc.ABC, Generic[K]):
    """Runs informers that fill a queue and workers that empty it; a subclass says what keys are."""

    name: ClassVar[str]  # the component that events come from, upstream's name where it has one
    workers: ClassVar[int] = 5

    def __init__(self, api: Api, informers: Informers, *, clock: Clock | None = None) -> None:
        self.api = api
        self.informers = informers
        self.clock = clock or SystemClock()
        self.recorder = Recorder(api, self.name, clock=self.clock)
        self.queue: WorkQueue[K] = WorkQueue(backoff=_BACKOFF, clock=self.clock, name=self.name)
        self.log = logger(f"orlop.controllers.{self.name}")
        self._resting: dict[K, asyncio.TimerHandle] = {}
        self._asked: set[K] = set()  # while they rested
        self._watched: list[tuple[Informer, Handler]] = []
        self._is_running = False

    @abc.abstractmethod
    async def reconcile(self, key: K) -> Result:
        """Bring the cluster to what the object under `key` asks for; safe to call at any time."""

    def watch(
        self, informer: Informer, keys: Callable[[WatchEvent, Obj | None], Iterable[K]]
    ) -> None:
        """Queue `keys(event, previous)` whenever an object changes."""

        def handler(event: WatchEvent, previous: Obj | None) -> None:
            for key in keys(event, previous):
                self.queue.add(key)

        self._watched.append((informer, handler))
        if self._is_running:
            informer.subscribe(handler)

    def unwatch(self, informer: Informer) -> None:
        """Stop listening to an informer."""
        for watched, handler in self._watched:
            if watched is informer:
                informer.unsubscribe(handler)
        self._watched = [one for one in self._watched if one[0] is not informer]

    async def run(self) -> None:
        """Reconcile until cancelled; no failure of an object ends the loop."""
        try:
            for informer, handler in list(self._watched):
                informer.subscribe(handler)
            self._is_running = True
            for informer, _ in list(self._watched):
                await informer.synced()
            async with asyncio.TaskGroup() as group:
                for number in range(self.workers):
                    group.create_task(self._work(), name=f"{self.name} {number}")
        finally:
            self._is_running = False
            for informer, handler in self._watched:
                informer.unsubscribe(handler)
            for timer in self._resting.values():
                timer.cancel()
            self._resting.clear()
            self.queue.close()

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        turn = loop.time()
        while True:
            if loop.time() - turn > _TURN:
                await asyncio.sleep(0)
                turn = loop.time()
            key = await self.queue.get()
            try:
                if key in self._resting:
                    self._asked.add(key)
                else:
                    await self._reconcile(key)
            finally:
                self.queue.done(key)

    async def _reconcile(self, key: K) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            result = await self.reconcile(key)
        except (errors.Conflict, errors.NotFound, errors.AlreadyExists) as error:
            # Somebody was quicker: the next look starts from what they made.
            self.log.debug("reconcile lost a race", key=key, error=error)
            self.queue.add_rate_limited(key)
        except errors.Error as error:
            delay = self.queue.add_rate_limited(key)
            self.log.warning("reconcile failed", key=key, error=error, again_in=f"{delay:.3f}s")
        except Exception:
            self.queue.add_rate_limited(key)
            self.log.error("reconcile broke", key=key, exc_info=True)
        else:
            self.queue.forget(key)
            if result.after is not None:
                self.queue.add_after(key, result.after)
            took = loop.time() - began
            if took > _QUICK and result.after != 0:
                self._rest(key, min(took * _REST, _LONGEST_REST))

    def _rest(self, key: K, seconds: float) -> None:
        """Pause a key; requests for it in the meantime are answered once, afterwards."""
        loop = asyncio.get_running_loop()
        self._resting[key] = loop.call_later(seconds, self._wake, key)

    def _wake(self, key: K) -> None:
        del self._resting[key]
        if key in self._asked:
            self._asked.discard(key)
            self.queue.add(key)


class Controller(Loop[Key]):
    """The control loop of one kind; subclasses set the class variables and write `reconcile`."""

    kind: ClassVar[Kind]  # what keys name
    owns: ClassVar[tuple[Kind, ...]] = ()  # kinds whose controller reference leads to a key
    adopts: ClassVar[bool] = False  # whether owned kinds are also found by spec.selector
    face: ClassVar[Face | None] = None  # all of an owned object that a reconcile looks at

    def __init__(self, api: Api, informers: Informers, *, clock: Clock | None = None) -> None:
        super().__init__(api, informers, clock=clock)
        self.objects = informers.informer(self.kind)
        self.watch(self.objects, lambda event, _: (key_of(event.object),))
        for kind in self.owns:
            owned = informers.informer(kind)
            owned.add_index(BY_CONTROLLER, by_controller)
            self.watch(owned, self._owner_keys)

    async def write_status(self, obj: Obj, status: Obj, *, lock: bool = False) -> Obj:
        """Write what differs in the status, if anything; `lock`: fail if another client wrote."""
        patch = merge_diff(obj.get("status") or {}, status)
        if not patch:
            return obj
        body: Obj = {"status": patch}
        if lock:
            body["metadata"] = {"resourceVersion": meta(obj)["resourceVersion"]}
        written = await self.api.patch(self.kind, key_of(obj), body, subresource="status")
        await self.objects.seen(written)
        return written

    def _owner_keys(self, event: WatchEvent, previous: Obj | None) -> Iterator[Key]:
        obj = event.object
        face = type(self).face
        if face and previous and event.type == "MODIFIED" and face(obj) == face(previous):
            return
        for state in (obj, previous):
            reference = controller_of(state) if state is not None else None
            if reference is not None and self._is_ours(reference):
                yield Key(meta(obj).get("namespace") or "", reference["name"])
        if self.adopts and event.type != "DELETED" and controller_of(obj) is None:
            yield from self._adopters(obj, previous)

    def _is_ours(self, reference: Obj) -> bool:
        group = reference["apiVersion"].rpartition("/")[0]
        return bool(reference["kind"] == self.kind.kind and group == self.kind.group)

    def _adopters(self, orphan: Obj, previous: Obj | None) -> Iterator[Key]:
        """Queue owners that may adopt an object, which lost its owner or changed its labels."""
        labels = labels_of(orphan)
        is_news = (
            previous is None or labels_of(previous) != labels or controller_of(previous) is not None
        )
        if not labels or not is_news:
            return
        for candidate in self.objects.list(meta(orphan).get("namespace") or ""):
            selector = selectors.from_structure(candidate["spec"].get("selector"))
            if not selector.is_empty and selector.matches(labels):
                yield key_of(candidate)
