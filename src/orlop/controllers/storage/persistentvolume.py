"""Keeps the phase of a PersistentVolume: available, bound, released or failed.

Called by the controller manager with the name of a volume whenever it, or its claim, changes. The
volume's half of pkg/controller/volume/persistentvolume: it keeps the phase, releases what has lost
its claim, and leaves the data to whoever made the volume.
"""

from __future__ import annotations

from collections.abc import Iterator

from ... import errors
from ...api.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM
from ...api.objects import Key, Obj, annotations_of, is_deleting, key_of, meta, uid_of
from ...api.times import rfc3339
from ...client.api import Api, WatchEvent
from ...client.clock import Clock
from ...client.informer import Informers
from ...client.recorder import Recorder
from ...client.storage import BOUND_BY_CONTROLLER, PROVISIONED_BY
from ..framework.controller import Controller, Result
from .persistentvolumeclaim import BY_REFERENCE, VolumeClaims, referred_by


class Volumes(Controller):
    name = "persistentvolume-binder-controller"
    kind = PERSISTENT_VOLUME

    def __init__(self, api: Api, informers: Informers, *, clock: Clock | None = None) -> None:
        super().__init__(api, informers, clock=clock)
        # To people the two halves are one.
        self.recorder = Recorder(api, VolumeClaims.name, clock=self.clock)
        self._claims = informers.informer(PERSISTENT_VOLUME_CLAIM)
        self.objects.add_index(BY_REFERENCE, referred_by)
        self.watch(self._claims, self._claim_changed)

    def _claim_changed(self, event: WatchEvent, previous: Obj | None) -> Iterator[Key]:
        for volume in self.objects.by_index(BY_REFERENCE, str(key_of(event.object))):
            yield key_of(volume)

    async def reconcile(self, key: Key) -> Result:
        volume = self.objects.get(key)
        if volume is None:
            return Result.done()
        reference = volume["spec"].get("claimRef")
        if not reference or not reference.get("uid"):  # free, or kept for a claim yet to come
            await self._write(volume, "Available")
            return Result.done()
        claim = await self._claim(reference)
        if claim is None:
            await self._release(volume)
        elif claim["spec"].get("volumeName") == key.name:
            await self._write(volume, "Bound")
        elif claim["spec"].get("volumeName"):
            await self._unbind(volume)
        return Result.done()  # a claim that names no volume yet is about to

    async def _claim(self, reference: Obj) -> Obj | None:
        """Return the claim the volume is bound to; another of the same name is not that one."""
        key = Key(reference.get("namespace", ""), reference.get("name", ""))
        claim = self._claims.get(key)
        if claim is None or uid_of(claim) != reference["uid"]:
            try:  # before anything is released: the cache may only be behind
                claim = await self.api.get(PERSISTENT_VOLUME_CLAIM, key)
            except errors.NotFound:
                return None
        return claim if uid_of(claim) == reference["uid"] else None

    async def _release(self, volume: Obj) -> None:
        """Release the volume as reclaimVolume: Retain keeps it, Delete is for the provisioner."""
        phase = (volume.get("status") or {}).get("phase")
        if phase not in ("Released", "Failed"):
            volume = await self._write(volume, "Released")
        policy = volume["spec"].get("persistentVolumeReclaimPolicy")
        if is_deleting(volume) or phase == "Failed":
            return
        if policy == "Recycle":
            words = "No recycler plugin found for the volume!"
            await self._fail(volume, "VolumeFailedRecycle", words)
        elif policy == "Delete" and PROVISIONED_BY not in annotations_of(volume):
            name = meta(volume)["name"]
            words = f'error getting deleter volume plugin for volume "{name}": no deletable volume '
            await self._fail(volume, "VolumeFailedDelete", words + "plugin matched")

    async def _unbind(self, volume: Obj) -> None:
        """Free a volume whose claim is bound elsewhere; delete it if it was made for that claim."""
        annotations = annotations_of(volume)
        policy = volume["spec"].get("persistentVolumeReclaimPolicy")
        if PROVISIONED_BY in annotations and policy == "Delete":
            await self._release(volume)
            return
        reference: Obj | None = None
        if BOUND_BY_CONTROLLER not in annotations:
            reference = {"uid": None, "resourceVersion": None}
        change = {
            "metadata": {
                "resourceVersion": meta(volume)["resourceVersion"],
                "annotations": {BOUND_BY_CONTROLLER: None},
            },
            "spec": {"claimRef": reference},
        }
        written = await self.api.patch(PERSISTENT_VOLUME, key_of(volume), change)
        await self.objects.seen(written)
        await self._write(written, "Available")

    async def _fail(self, volume: Obj, reason: str, words: str) -> None:
        await self._write(volume, "Failed", words)
        await self.recorder.event(volume, "Warning", reason, words)

    async def _write(self, volume: Obj, phase: str, message: str = "") -> Obj:
        status = dict(volume.get("status") or {})
        if status.get("phase") == phase and status.get("message", "") == message:
            return volume
        status |= {"phase": phase, "lastPhaseTransitionTime": rfc3339(self.clock.now())}
        status.pop("message", None)
        if message:
            status["message"] = message
        return await self.write_status(volume, status)
