"""Keeps claims that pods mount, and volumes that claims are bound to, until they are unused.

Called by the controller manager with the key of a claim or a volume whenever it, or a pod that
mounts it, changes. As pkg/controller/volume/{pvc,pv}protection: a finalizer is put on at once (by
admission, or here) and taken off when the object is being deleted and nothing uses it any more.
"""

from __future__ import annotations

import abc
from collections.abc import Iterator

from ... import errors
from ...api.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, POD
from ...api.objects import Key, Obj, is_deleting, key_of, meta
from ...client.api import Api, WatchEvent
from ...client.clock import Clock
from ...client.informer import Informers
from ...client.storage import claim_keys, claims_of
from ...wellknown import CLAIM_PROTECTION, VOLUME_PROTECTION
from ..framework.controller import Controller, Result
from .persistentvolumeclaim import BY_CLAIM


class Protection(Controller):
    """One kind and its finalizer."""

    finalizer: str

    async def reconcile(self, key: Key) -> Result:
        obj = self.objects.get(key)
        if obj is None:
            return Result.done()
        finalizers = meta(obj).get("finalizers") or []
        if not is_deleting(obj):
            if self.finalizer not in finalizers:
                await self._write(obj, [*finalizers, self.finalizer])
        elif self.finalizer in finalizers and not await self.is_used(obj):
            await self._write(obj, [one for one in finalizers if one != self.finalizer])
        return Result.done()

    @abc.abstractmethod
    async def is_used(self, obj: Obj) -> bool:
        """Return whether the object must stay for now; whatever changes that queues it again."""

    async def _write(self, obj: Obj, finalizers: list[str]) -> None:
        metadata = {"resourceVersion": meta(obj)["resourceVersion"], "finalizers": finalizers}
        try:
            await self.api.patch(self.kind, key_of(obj), {"metadata": metadata})
        except errors.NotFound:
            pass


class ClaimProtection(Protection):
    name = "pvc-protection-controller"
    kind = PERSISTENT_VOLUME_CLAIM
    finalizer = CLAIM_PROTECTION

    def __init__(self, api: Api, informers: Informers, *, clock: Clock | None = None) -> None:
        super().__init__(api, informers, clock=clock)
        self._pods = informers.informer(POD)
        self._pods.add_index(BY_CLAIM, claim_keys)
        self.watch(self._pods, self._pod_changed)

    def _pod_changed(self, event: WatchEvent, previous: Obj | None) -> Iterator[Key]:
        """Queue the claims of a pod that is gone: it may have been the last user."""
        if event.type == "DELETED":
            for claim in claims_of(event.object):
                yield Key(meta(event.object)["namespace"], claim.name)

    async def is_used(self, obj: Obj) -> bool:
        """Return whether a pod with a node uses it; one without may not start, as in upstream."""
        key = key_of(obj)
        if any(_uses(pod, key) for pod in self._pods.by_index(BY_CLAIM, str(key))):
            return True
        listed = await self.api.list(POD, key.namespace)  # the cache may only be behind
        return any(_uses(pod, key) for pod in listed.items)


def _uses(pod: Obj, key: Key) -> bool:
    return bool(pod["spec"].get("nodeName")) and str(key) in claim_keys(pod)


class VolumeProtection(Protection):
    name = "pv-protection-controller"
    kind = PERSISTENT_VOLUME
    finalizer = VOLUME_PROTECTION

    async def is_used(self, obj: Obj) -> bool:
        return bool((obj.get("status") or {}).get("phase") == "Bound")
