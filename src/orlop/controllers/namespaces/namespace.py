"""Empties a namespace that is being deleted, kind by kind, and then lets it go.

Called by the controller manager with the key of a namespace whenever it, or a pod in one that is
being deleted, changes. Lists from the API server itself, because nothing may be left behind. As
pkg/controller/namespace.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from ... import errors
from ...api.kinds import CUSTOM_RESOURCE_DEFINITION, NAMESPACE, POD, STORED, Kind
from ...api.objects import Key, Obj, is_deleting, key_of, meta, uid_of
from ...client.api import Api, WatchEvent
from ...client.clock import Clock
from ...client.informer import Informers
from ..framework.controller import Controller, Result
from ..framework.custom_kinds import kind_of
from ..framework.status import condition, with_condition
from ..framework.stored_kinds import stored_once
from ..workloads.pod_control import deep_copy

FINALIZER = "kubernetes"
_AGAIN = 1.0  # seconds until what holds a namespace open is looked at once more
_AT_ONCE = 50


@dataclass(slots=True)
class Remains:
    """The rest of a namespace after everything in it was told to go."""

    objects: Counter[str] = field(default_factory=Counter)
    finalizers: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def add(self, kind: Kind, obj: Obj) -> None:
        self.objects[kind.resource] += 1
        self.finalizers.update(meta(obj).get("finalizers") or [])


class Namespaces(Controller):
    name = "namespace-controller"
    kind = NAMESPACE

    def __init__(
        self,
        api: Api,
        informers: Informers,
        *,
        clock: Clock | None = None,
        kinds: Iterable[Kind] = STORED,
    ) -> None:
        super().__init__(api, informers, clock=clock)
        self._kinds = [kind for kind in stored_once(kinds) if kind.namespaced]
        self._definitions = informers.informer(CUSTOM_RESOURCE_DEFINITION)
        self.watch(informers.informer(POD), self._emptied)

    def _emptied(self, event: WatchEvent, previous: Obj | None) -> Iterable[Key]:
        """Queue the namespace of a pod that has gone: it may have been the last one."""
        key = Key("", meta(event.object).get("namespace") or "")
        namespace = self.objects.get(key) if event.type == "DELETED" else None
        return (key,) if namespace is not None and is_deleting(namespace) else ()

    async def reconcile(self, key: Key) -> Result:
        """Delete, look at what is left, report it, and finalize when nothing is."""
        namespace = self.objects.get(key)
        if namespace is None or not is_deleting(namespace):
            return Result.done()
        if FINALIZER not in ((namespace.get("spec") or {}).get("finalizers") or []):
            return Result.done()
        remains = Remains()
        await self._definitions.synced()  # nothing may be left behind of a kind not yet heard of
        for kind in [*self._kinds, *self._custom_kinds()]:
            await self._delete_all(kind, key.name, remains)
        await self._tell(namespace, remains)
        if remains.objects or remains.failures:
            return Result.again(_AGAIN)
        await self._finalize(key)
        return Result.done()

    def _custom_kinds(self) -> list[Kind]:
        kinds = [kind_of(definition) for definition in self._definitions.list()]
        return [kind for kind in kinds if kind is not None and kind.namespaced]

    async def _delete_all(self, kind: Kind, namespace: str, remains: Remains) -> None:
        try:
            found = (await self.api.list(kind, namespace)).items
        except errors.NotFound:
            return  # the kind itself is not served
        for start in range(0, len(found), _AT_ONCE):
            batch = found[start : start + _AT_ONCE]
            failures = await asyncio.gather(*(self._delete(kind, obj) for obj in batch))
            remains.failures += [failure for failure in failures if failure]
        if found:
            for obj in (await self.api.list(kind, namespace)).items:
                remains.add(kind, obj)

    async def _delete(self, kind: Kind, obj: Obj) -> str:
        """Delete everything of a kind; return empty, or what went wrong."""
        if is_deleting(obj):
            return ""
        try:
            await self.api.delete(kind, key_of(obj), uid=uid_of(obj), propagation="Background")
        except (errors.NotFound, errors.Conflict):
            return ""
        except errors.ApiError as error:
            return error.message
        return ""

    async def _tell(self, namespace: Obj, remains: Remains) -> None:
        """Write why the namespace is still there; one that goes at once needs no words."""
        if not remains.objects and not remains.failures:
            return
        conditions = (namespace.get("status") or {}).get("conditions") or []
        for told in conditions_of(remains, self.clock.now()):
            conditions = with_condition(conditions, told)
        await self.write_status(namespace, {"phase": "Terminating", "conditions": conditions})

    async def _finalize(self, key: Key) -> None:
        namespace = deep_copy(await self.api.get(NAMESPACE, key))
        kept = [one for one in namespace["spec"].get("finalizers") or [] if one != FINALIZER]
        namespace["spec"]["finalizers"] = kept
        await self.api.update(NAMESPACE, namespace, subresource="finalize")


def conditions_of(remains: Remains, now: float) -> list[Obj]:
    """Return the conditions, as pkg/controller/namespace/deletion/status_condition_utils.go."""
    objects = ", ".join(
        f"{resource} has {number} resource instances"
        for resource, number in sorted(remains.objects.items())
    )
    finalizers = ", ".join(
        f"{finalizer} in {number} resource instances"
        for finalizer, number in sorted(remains.finalizers.items())
    )
    return [
        _told(
            "NamespaceDeletionDiscoveryFailure", "", "",
            "ResourcesDiscovered", "All resources successfully discovered", now,
        ),
        _told(
            "NamespaceDeletionGroupVersionParsingFailure", "", "",
            "ParsedGroupVersions", "All legacy kube types successfully parsed", now,
        ),
        _told(
            "NamespaceDeletionContentFailure",
            "ContentDeletionFailed",
            "; ".join(sorted(set(remains.failures))),
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
            now,
        ),
        _told(
            "NamespaceContentRemaining",
            "SomeResourcesRemain",
            f"Some resources are remaining: {objects}" if objects else "",
            "ContentRemoved",
            "All content successfully removed",
            now,
        ),
        _told(
            "NamespaceFinalizersRemaining",
            "SomeFinalizersRemain",
            f"Some content in the namespace has finalizers remaining: {finalizers}"
            if finalizers
            else "",
            "ContentHasNoFinalizers",
            "All content-preserving finalizers finished",
            now,
        ),
    ]  # fmt: skip


def _told(kind: str, bad: str, why: str, good: str, fine: str, now: float) -> Obj:
    """Return a condition: True with its reason and why, where there is a why; else False."""
    if why:
        return condition(kind, "True", bad, why, now)
    return condition(kind, "False", good, fine, now)
