"""Adopts orphans that a selector matches, and releases objects that it no longer matches.

Called by workload controllers at the start of a reconcile to learn which pods (or ReplicaSets, or
revisions) are theirs. As pkg/controller/controller_ref_manager.go. It changes owner references, and
the finalizer that some owners keep on their objects.
"""

from __future__ import annotations

from collections.abc import Callable

from ... import errors
from ...api.kinds import Kind
from ...api.objects import Obj, is_deleting, key_of, labels_of, meta, owner_reference, uid_of
from ...api.selectors import LabelSelector
from ...client.api import Api
from ...client.informer import Informer
from ..framework.controller import BY_CONTROLLER, without_controller

Wanted = Callable[[Obj], bool]


class Claims:
    """The objects of one kind that owners of another control."""

    def __init__(self, api: Api, owned: Informer, owner: Kind, *, finalizer: str = "") -> None:
        self._api = api
        self._owned = owned
        self._owner = owner
        self._finalizer = finalizer

    async def claim(
        self, owner: Obj, selector: LabelSelector, *, wanted: Wanted = lambda _: True
    ) -> list[Obj]:
        """Return what `owner` controls after adopting and releasing; looks at `wanted` ones."""
        mine = [obj for obj in self._owned.by_index(BY_CONTROLLER, uid_of(owner)) if wanted(obj)]
        if is_deleting(owner):
            return mine
        kept = [obj for obj in mine if selector.matches(labels_of(obj))]
        if len(kept) < len(mine):
            for obj in mine:
                if not selector.matches(labels_of(obj)):
                    await self._release(owner, obj)
        for obj in self._orphans(owner, selector):
            if wanted(obj):
                adopted = await self._adopt(owner, obj)
                if adopted is not None:
                    kept.append(adopted)
        return kept

    def _orphans(self, owner: Obj, selector: LabelSelector) -> list[Obj]:
        if selector.is_empty:
            return []
        namespace = meta(owner)["namespace"]
        candidates = self._owned.by_index(BY_CONTROLLER, without_controller(namespace))
        return [
            obj for obj in candidates if not is_deleting(obj) and selector.matches(labels_of(obj))
        ]

    async def _adopt(self, owner: Obj, obj: Obj) -> Obj | None:
        # The cache may not know yet that the owner is gone: nothing may be adopted by the dead.
        fresh = await self._api.get(self._owner, key_of(owner))
        if uid_of(fresh) != uid_of(owner) or is_deleting(fresh):
            return None
        references = [*(meta(obj).get("ownerReferences") or []), owner_reference(owner)]
        finalizers = meta(obj).get("finalizers") or []
        if self._finalizer and self._finalizer not in finalizers:
            finalizers = [*finalizers, self._finalizer]
        return await self._write(obj, references, finalizers)

    async def _release(self, owner: Obj, obj: Obj) -> None:
        references = [
            one for one in meta(obj).get("ownerReferences") or [] if one["uid"] != uid_of(owner)
        ]
        finalizers = [one for one in meta(obj).get("finalizers") or [] if one != self._finalizer]
        await self._write(obj, references, finalizers)

    async def _write(self, obj: Obj, references: list[Obj], finalizers: list[str]) -> Obj | None:
        change = {
            "resourceVersion": meta(obj)["resourceVersion"],
            "ownerReferences": references or None,
            "finalizers": finalizers or None,
        }
        try:
            written = await self._api.patch(self._owned.kind, key_of(obj), {"metadata": change})
        except errors.NotFound:
            return None
        await self._owned.seen(written)
        return written
