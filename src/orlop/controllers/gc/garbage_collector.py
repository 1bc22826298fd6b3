"""Deletes what its owners have left behind, and keeps owners until what they own is gone.

Called by the controller manager with every object that has owner references or is being deleted in
the foreground or to orphan. It reads the metadata of all kinds from informers; it takes an owner
for gone after a deletion seen, or on the word of the API server. As
pkg/controller/garbagecollector, with the informers' indexes in place of a graph.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Iterable, Iterator
from functools import partial
from typing import NamedTuple

from ... import errors
from ...api.kinds import CUSTOM_RESOURCE_DEFINITION, STORED, Kind
from ...api.objects import Key, Obj, is_deleting, key_of, meta, uid_of
from ...client.api import Api, Propagation, WatchEvent
from ...client.clock import Clock
from ...client.informer import Informer, Informers
from ..framework.controller import Loop, Result
from ..framework.custom_kinds import kind_of
from ..framework.stored_kinds import collectable

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"
BY_OWNER, BY_UID = "owner", "uid"
_REMEMBERED = 4096  # uids of deleted owners that need not be asked for again


class Ref(NamedTuple):
    """An object of any kind."""

    kind: Kind
    key: Key

    def __str__(self) -> str:
        return f"{self.kind.resource} {self.key}"


class Owners(NamedTuple):
    """An object's owner references, by what is known of each owner."""

    solid: list[Obj]  # there, or at least not known to be gone
    waiting: list[Obj]  # being deleted in the foreground: they wait for their dependents
    absent: list[Obj]


def owners_of(obj: Obj) -> list[Obj]:
    return meta(obj).get("ownerReferences") or []


def finalizers_of(obj: Obj) -> list[str]:
    return meta(obj).get("finalizers") or []


def is_waiting(obj: Obj) -> bool:
    """Return whether an owner is being deleted in the foreground."""
    return is_deleting(obj) and FOREGROUND in finalizers_of(obj)


class GarbageCollector(Loop[Ref]):
    name = "garbage-collector-controller"
    workers = 20

    def __init__(
        self,
        api: Api,
        informers: Informers,
        *,
        clock: Clock | None = None,
        kinds: Iterable[Kind] = STORED,
    ) -> None:
        super().__init__(api, informers, clock=clock)
        self._caches: dict[Kind, Informer] = {}
        self._by_group: dict[tuple[str, str], Kind] = {}
        self._by_definition: dict[str, Kind] = {}
        self._deleted: OrderedDict[str, None] = OrderedDict()
        for kind in collectable(kinds):
            self._follow(kind)
        self._definitions = informers.informer(CUSTOM_RESOURCE_DEFINITION)

    def _follow(self, kind: Kind) -> None:
        cache = self._caches[kind] = self.informers.metadata(kind)
        self._by_group[kind.group, kind.kind] = kind
        cache.add_index(BY_OWNER, lambda obj: (str(one["uid"]) for one in owners_of(obj)))
        cache.add_index(BY_UID, lambda obj: (uid_of(obj),))
        self.watch(cache, partial(self._touched, kind))

    async def run(self) -> None:
        """Run as every loop does, and follow the kinds that definitions make meanwhile."""
        self._definitions.subscribe(self._defined)
        try:
            await super().run()
        finally:
            self._definitions.unsubscribe(self._defined)

    def _defined(self, event: WatchEvent, _: Obj | None) -> None:
        name = meta(event.object)["name"]
        kind = kind_of(event.object) if event.type != "DELETED" else None
        former = self._by_definition.get(name)
        if former == kind:
            return
        if former is not None:
            del self._by_definition[name], self._caches[former]
            del self._by_group[former.group, former.kind]
            self.unwatch(self.informers.metadata(former))
            self.informers.forget(former)
        if kind is not None:
            self._by_definition[name] = kind
            self._follow(kind)
            for ref in self._owned_by_kind(kind):
                self.queue.add(ref)

    def _owned_by_kind(self, owner: Kind) -> Iterator[Ref]:
        """Queue the objects that were skipped while the kind of their owner was not known."""
        for kind, cache in self._caches.items():
            for obj in cache.list():
                if any(self._kind_of(reference) == owner for reference in owners_of(obj)):
                    yield Ref(kind, key_of(obj))

    def _touched(self, kind: Kind, event: WatchEvent, previous: Obj | None) -> Iterator[Ref]:
        obj = event.object
        if event.type == "DELETED":
            self._remember(uid_of(obj))
            yield from (ref for ref, _ in self._dependents(uid_of(obj)))
            yield from self._waiting_owners(obj)
            return
        has_new_owners = previous is not None and owners_of(previous) != owners_of(obj)
        if has_new_owners and previous is not None:
            yield from self._waiting_owners(previous)
        holds = is_deleting(obj) and (is_waiting(obj) or ORPHAN in finalizers_of(obj))
        if holds or (owners_of(obj) and (previous is None or has_new_owners)):
            yield Ref(kind, key_of(obj))

    def _waiting_owners(self, obj: Obj) -> Iterator[Ref]:
        """Queue the owners that wait for this object, and may be able to go now."""
        for reference in owners_of(obj):
            owner = self._cached_owner(obj, reference)
            if owner is not None and is_waiting(owner[1]):
                yield owner[0]

    async def reconcile(self, key: Ref) -> Result:
        """Look after one object: first what it owns, if it is going; then who owns it."""
        cache = self._caches.get(key.kind)
        obj = cache.get(key.key) if cache is not None else None
        if obj is None:
            return Result.done()
        if is_deleting(obj):
            if ORPHAN in finalizers_of(obj):
                await self._orphan_dependents(key, obj)
            elif is_waiting(obj):
                await self._delete_dependents(key, obj)
            return Result.done()
        if owners_of(obj):
            await self._check_owners(key, obj)
        return Result.done()

    async def _orphan_dependents(self, ref: Ref, owner: Obj) -> None:
        dependents = self._dependents(uid_of(owner))
        await _all(self._drop_references(dep, obj, {uid_of(owner)}) for dep, obj in dependents)
        await self._drop_finalizer(ref, owner, ORPHAN)

    async def _delete_dependents(self, ref: Ref, owner: Obj) -> None:
        """Let the owner go when nothing blocks it; else see to what does."""
        dependents = self._dependents(uid_of(owner))
        if not any(_blocks(obj, owner) for _, obj in dependents):
            await self._drop_finalizer(ref, owner, FOREGROUND)
            return
        for dependent, obj in dependents:
            if not is_deleting(obj):
                self.queue.add(dependent)

    async def _check_owners(self, ref: Ref, obj: Obj) -> None:
        owners = await self._sorted_owners(ref, obj)
        leaving = [*owners.absent, *owners.waiting]
        if owners.solid:
            if leaving:
                await self._drop_references(ref, obj, {one["uid"] for one in leaving})
        elif owners.waiting and (dependents := self._dependents(uid_of(obj))):
            if any(is_waiting(dependent) for _, dependent in dependents):
                await self._unblock(ref, obj)
            # Its owner waits for it, and so must it for what it owns.
            await self._delete(ref, obj, "Foreground")
        elif leaving:
            await self._delete(ref, obj, _policy(obj))

    async def _sorted_owners(self, ref: Ref, obj: Obj) -> Owners:
        owners = Owners([], [], [])
        for reference in owners_of(obj):
            state = await self._state_of_owner(ref, obj, reference)
            getattr(owners, state).append(reference)
        return owners

    async def _state_of_owner(self, ref: Ref, obj: Obj, reference: Obj) -> str:
        uid = reference["uid"]
        if uid in self._deleted:
            return "absent"
        kind = self._kind_of(reference)
        if kind is None:
            return "solid"  # a kind that we do not know: nothing can be said against it
        if kind.namespaced and not ref.key.namespace:
            await self._refuse(obj, reference, "refers to a namespaced owner")
            return "solid"
        cached = self._cached_owner(obj, reference)
        if cached is not None:
            return "waiting" if is_waiting(cached[1]) else "solid"
        if not await self._is_absent(kind, _owner_key(kind, obj, reference), uid):
            return "solid"
        if self._caches[kind].by_index(BY_UID, uid):
            namespace = ref.key.namespace
            await self._refuse(obj, reference, f'does not exist in namespace "{namespace}"')
        else:
            self._remember(uid)
        return "absent"

    async def _is_absent(self, kind: Kind, key: Key, uid: str) -> bool:
        """Ask the API server whether an object is absent: the cache may be behind."""
        try:
            return uid_of(await self.api.get(kind, key)) != uid
        except errors.NotFound:
            return True

    async def _refuse(self, obj: Obj, reference: Obj, why: str) -> None:
        name = f"{reference['apiVersion']}/{reference['kind']}, namespace: "
        name += f"{meta(obj).get('namespace', '')}, name: {reference['name']}"
        message = f"ownerRef [{name}, uid: {reference['uid']}] {why}"
        await self.recorder.event(obj, "Warning", "OwnerRefInvalidNamespace", message)

    async def _delete(self, ref: Ref, obj: Obj, policy: Propagation) -> None:
        # Only as we know it: somebody may have given it another owner.
        version = meta(obj)["resourceVersion"]
        try:
            await self.api.delete(
                ref.kind, ref.key, uid=uid_of(obj), resource_version=version, propagation=policy
            )
        except errors.NotFound:
            return
        self.log.debug("deleted", object=ref, propagation=policy)

    async def _unblock(self, ref: Ref, obj: Obj) -> None:
        """Unblock objects that own each other in a circle, who would wait for themselves."""
        free = [{**one, "blockOwnerDeletion": False} for one in owners_of(obj)]
        if free != owners_of(obj):
            await self._patch(ref, obj, {"ownerReferences": free})
            raise errors.Conflict(f"{ref} was in a circle of owners: looking again")

    async def _drop_references(self, ref: Ref, obj: Obj, uids: set[str]) -> None:
        kept = [one for one in owners_of(obj) if one["uid"] not in uids]
        await self._patch(ref, obj, {"ownerReferences": kept or None})

    async def _drop_finalizer(self, ref: Ref, obj: Obj, finalizer: str) -> None:
        kept = [one for one in finalizers_of(obj) if one != finalizer]
        await self._patch(ref, obj, {"finalizers": kept or None})

    async def _patch(self, ref: Ref, obj: Obj, change: Obj) -> None:
        metadata = {
            **change,
            "uid": uid_of(obj),
            "resourceVersion": meta(obj)["resourceVersion"],
        }
        try:
            await self.api.patch(ref.kind, ref.key, {"metadata": metadata})
        except errors.NotFound:
            return

    def _dependents(self, uid: str) -> list[tuple[Ref, Obj]]:
        return [
            (Ref(kind, key_of(obj)), obj)
            for kind, cache in self._caches.items()
            for obj in cache.by_index(BY_OWNER, uid)
        ]

    def _cached_owner(self, obj: Obj, reference: Obj) -> tuple[Ref, Obj] | None:
        kind = self._kind_of(reference)
        if kind is None:
            return None
        key = _owner_key(kind, obj, reference)
        owner = self._caches[kind].get(key)
        if owner is None or uid_of(owner) != reference["uid"]:
            return None
        return Ref(kind, key), owner

    def _kind_of(self, reference: Obj) -> Kind | None:
        group = reference["apiVersion"].rpartition("/")[0]
        return self._by_group.get((group, reference["kind"]))

    def _remember(self, uid: str) -> None:
        self._deleted[uid] = None
        if len(self._deleted) > _REMEMBERED:
            self._deleted.popitem(last=False)


def _owner_key(kind: Kind, dependent: Obj, reference: Obj) -> Key:
    """Return the owner's key; a namespaced one is in the dependent's namespace or nowhere."""
    namespace = (meta(dependent).get("namespace") or "") if kind.namespaced else ""
    return Key(namespace, reference["name"])


def _blocks(dependent: Obj, owner: Obj) -> bool:
    return any(
        one.get("blockOwnerDeletion") and one["uid"] == uid_of(owner)
        for one in owners_of(dependent)
    )


def _policy(obj: Obj) -> Propagation:
    """Return the propagation that the object's finalizers ask for; else in the background."""
    if ORPHAN in finalizers_of(obj):
        return "Orphan"
    return "Foreground" if FOREGROUND in finalizers_of(obj) else "Background"


async def _all(writes: Iterable[Awaitable[None]]) -> None:
    """Await all, to the end; then raise the first failure."""
    for answer in await asyncio.gather(*writes, return_exceptions=True):
        if isinstance(answer, BaseException):
            raise answer
