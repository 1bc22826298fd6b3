"""Makes the claims of generic ephemeral volumes, each owned by its pod and gone with it.

Called by the controller manager with the key of a pod that has such a volume. As
pkg/controller/volume/ephemeral: the claim is `<pod>-<volume>`; one of that name that is not the
pod's own is not used, and an Event tells the pod.
"""

from __future__ import annotations

from collections.abc import Iterator

from ... import errors
from ...api.kinds import PERSISTENT_VOLUME_CLAIM, POD
from ...api.objects import Key, Obj, annotations_of, is_active, labels_of, meta, owner_reference
from ...client.api import Api, WatchEvent
from ...client.clock import Clock
from ...client.informer import Informers
from ...client.storage import claim_keys, ephemeral_name, not_the_owner
from ..framework.controller import Loop, Result
from .persistentvolumeclaim import BY_CLAIM


class EphemeralVolumes(Loop[Key]):
    name = "ephemeral-volume-controller"

    def __init__(self, api: Api, informers: Informers, *, clock: Clock | None = None) -> None:
        super().__init__(api, informers, clock=clock)
        self._pods = informers.informer(POD)
        self._claims = informers.informer(PERSISTENT_VOLUME_CLAIM)
        self._pods.add_index(BY_CLAIM, claim_keys)
        self.watch(self._pods, self._pod_changed)
        self.watch(self._claims, self._claim_changed)

    def _pod_changed(self, event: WatchEvent, previous: Obj | None) -> Iterator[Key]:
        if event.type == "ADDED" and _ephemeral(event.object):
            yield Key(meta(event.object)["namespace"], meta(event.object)["name"])

    def _claim_changed(self, event: WatchEvent, previous: Obj | None) -> Iterator[Key]:
        """Queue the pod of a claim that somebody deleted: it is made anew."""
        if event.type == "DELETED":
            claim = event.object
            key = Key(meta(claim)["namespace"], meta(claim)["name"])
            for pod in self._pods.by_index(BY_CLAIM, str(key)):
                if _ephemeral(pod):
                    yield Key(meta(pod)["namespace"], meta(pod)["name"])

    async def reconcile(self, key: Key) -> Result:
        pod = self._pods.get(key)
        if pod is None or not is_active(pod):
            return Result.done()
        for volume in _ephemeral(pod):
            await self._ensure(pod, volume)
        return Result.done()

    async def _ensure(self, pod: Obj, volume: Obj) -> None:
        name = ephemeral_name(pod, volume["name"])
        found = self._claims.get(Key(meta(pod)["namespace"], name))
        if found is not None:
            why = not_the_owner(pod, found)
            if why:
                await self.recorder.event(pod, "Warning", "FailedBinding", why)
                raise errors.Conflict(why)
            return
        template = volume["ephemeral"].get("volumeClaimTemplate") or {}
        claim = {
            "apiVersion": PERSISTENT_VOLUME_CLAIM.api_version,
            "kind": PERSISTENT_VOLUME_CLAIM.kind,
            "metadata": {
                "name": name,
                "namespace": meta(pod)["namespace"],
                "labels": labels_of(template),
                "annotations": annotations_of(template),
                "ownerReferences": [owner_reference(pod)],
            },
            "spec": template.get("spec") or {},
        }
        try:
            made = await self.api.create(
                PERSISTENT_VOLUME_CLAIM, claim, namespace=meta(pod)["namespace"]
            )
        except errors.AlreadyExists:
            raise
        except errors.ApiError as error:
            words = f"ephemeral volume {volume['name']}: create PVC {name}: {error.message}"
            await self.recorder.event(pod, "Warning", "FailedBinding", words)
            raise
        await self._claims.seen(made)


def _ephemeral(pod: Obj) -> list[Obj]:
    return [one for one in pod["spec"].get("volumes") or [] if one.get("ephemeral")]
