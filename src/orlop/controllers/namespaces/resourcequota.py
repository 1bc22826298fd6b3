"""Counts what the objects of a namespace use, and writes it into its ResourceQuotas.

Called by the controller manager with the key of a quota whenever it changes, when something that it
counts appears or goes away, and every few minutes. Admission charges a quota before an object is
there, so that a count may be behind: it lowers a number when no charge came in lately. As
pkg/controller/resourcequota.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...api import quota
from ...api.kinds import (
    CUSTOM_RESOURCE_DEFINITION,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    RESOURCE_QUOTA,
    SERVICE,
    STORED,
    Kind,
)
from ...api.objects import Key, Obj, is_terminal, key_of, meta
from ...api.pod_resources import Amounts, added, parsed
from ...api.quantity import ZERO
from ...client.api import Api, WatchEvent
from ...client.clock import Clock
from ...client.informer import Informer, Informers
from ..framework.controller import Controller, Result
from ..framework.custom_kinds import kind_of
from ..framework.stored_kinds import stored_once

SETTLED = 1.0  # seconds after a charge in which its object may not have been seen yet
_RESYNC = 300.0


class ResourceQuotas(Controller):
    name = "resourcequota-controller"
    kind = RESOURCE_QUOTA

    def __init__(
        self,
        api: Api,
        informers: Informers,
        *,
        clock: Clock | None = None,
        kinds: Iterable[Kind] = STORED,
    ) -> None:
        super().__init__(api, informers, clock=clock)
        self._charged: dict[Key, float] = {}  # when a quota's numbers last rose
        self._built_in = {kind.resource: kind for kind in stored_once(kinds) if kind.namespaced}
        self._definitions = informers.informer(CUSTOM_RESOURCE_DEFINITION)
        self._counted: dict[str, Informer] = {}
        self.watch(self.objects, self._note_charge)
        for kind in (POD, SERVICE, PERSISTENT_VOLUME_CLAIM):
            self._follow(kind, informers.informer(kind))

    def _follow(self, kind: Kind, informer: Informer) -> None:
        self._counted[kind.resource] = informer
        self.watch(informer, self._pod_changed if kind == POD else self._object_changed)

    def _note_charge(self, event: WatchEvent, previous: Obj | None) -> Iterable[Key]:
        key = key_of(event.object)
        if event.type == "DELETED":
            self._charged.pop(key, None)
        elif previous is not None:
            before, now = _used(previous), _used(event.object)
            if any(amount > before.get(name, ZERO) for name, amount in now.items()):
                self._charged[key] = self.clock.now()
        return ()

    def _pod_changed(self, event: WatchEvent, previous: Obj | None) -> Iterator[Key]:
        """Queue the quotas of a pod that ends; none of its other changes counts."""
        is_update = event.type == "MODIFIED" and previous is not None
        if is_update and is_terminal(event.object) == is_terminal(previous or {}):
            return
        yield from self._object_changed(event, previous)

    def _object_changed(self, event: WatchEvent, previous: Obj | None) -> Iterator[Key]:
        for found in self.objects.list(meta(event.object).get("namespace") or ""):
            if event.type == "ADDED":
                self.queue.add_after(key_of(found), SETTLED)  # it was charged, if all went well
            else:
                yield key_of(found)

    async def reconcile(self, key: Key) -> Result:
        """Count, leave a charge that may be ahead of the count, and write."""
        found = self.objects.get(key)
        if found is None:
            return Result.done()
        hard = (found.get("spec") or {}).get("hard") or {}
        counted = await self._count(found, list(hard))  # 1
        status = found.get("status") or {}
        before = parsed(status.get("used"))
        left = self._charged.get(key, 0.0) + SETTLED - self.clock.now()
        is_lower = any(counted[name] < before.get(name, ZERO) for name in counted)
        if is_lower and left > 0 and status.get("hard") == hard:  # 2
            return Result.again(left)
        same = {
            name for name in counted if name in before and before[name].nanos == counted[name].nanos
        }
        used = {
            name: status["used"][name] if name in same else str(amount)
            for name, amount in counted.items()
        }
        await self.write_status(found, {**status, "hard": hard, "used": used}, lock=True)  # 3
        return Result.again(_RESYNC)

    async def _count(self, found: Obj, names: list[str]) -> Amounts:
        total: Amounts = dict.fromkeys(names, ZERO)
        now = self.clock.now()
        for kind in self._kinds(names):
            informer = await self._informer(kind)
            for obj in informer.list(meta(found)["namespace"]):
                if quota.matches(found, kind, obj):
                    used = quota.usage(kind, obj, now)
                    total = added(total, {name: used[name] for name in names if name in used})
        return total

    def _kinds(self, names: list[str]) -> Iterator[Kind]:
        """Yield the kinds whose objects use one of these resources."""
        known = dict(self._built_in)
        if any(name.startswith("count/") for name in names):
            custom = (kind_of(definition) for definition in self._definitions.list())
            known |= {kind.resource: kind for kind in custom if kind is not None}
        for kind in known.values():
            if quota.resources_of(kind, names):
                yield kind

    async def _informer(self, kind: Kind) -> Informer:
        """Return an informer; metadata is enough for a kind that is merely counted."""
        wanted = self._counted.get(kind.resource)
        if kind.resource not in (one.resource for one in quota.KINDS_WITH_USAGE):
            wanted = self.informers.metadata(kind)
            former = self._counted.get(kind.resource)
            if former is not wanted:
                if former is not None:
                    self.unwatch(former)
                self._follow(kind, wanted)
        assert wanted is not None, f"{kind.resource} is followed from the start"
        await wanted.synced()
        return wanted


def _used(found: Obj) -> Amounts:
    return parsed((found.get("status") or {}).get("used"))
