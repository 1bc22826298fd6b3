"""Binds claims to volumes: existing ones, or one that a provisioner is asked to make.

Called by the controller manager with the key of a PersistentVolumeClaim whenever it, a volume that
may serve it, its class or a pod that waits for it changes. The claim's half of
pkg/controller/volume/persistentvolume; making volumes and their data is left to provisioners.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ... import errors
from ...api.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, POD, STORAGE_CLASS
from ...api.objects import Key, Obj, annotations_of, is_deleting, is_terminal, key_of, meta, uid_of
from ...client import storage
from ...client.api import Api, WatchEvent
from ...client.clock import Clock
from ...client.informer import Informers
from ...client.storage import BIND_COMPLETED, BOUND_BY_CONTROLLER
from ..framework.controller import Controller, Result

BY_CLAIM = "claim"  # pods by the claims they mount
BY_VOLUME = "volumeName"  # claims by the volume they name
BY_REFERENCE = "claimRef"  # volumes by the claim they name
BY_CLASS = "class"  # claims that wait, and volumes that are free, by their class
_CLASSLESS = "unnamed"  # claims that may yet get the default
_LOOK_AGAIN = 15.0  # seconds; as upstream's resync period


def waiting_in(claim: Obj) -> tuple[str, ...]:
    """Index: the class in which a claim waits for a volume."""
    if storage.is_bound(claim):
        return ()
    return (_CLASSLESS,) if storage.names_no_class(claim) else (f"of {storage.class_of(claim)}",)


def free_in(volume: Obj) -> tuple[str, ...]:
    """Index: the class in which a volume is to be had."""
    return () if volume["spec"].get("claimRef") else (f"of {storage.class_of(volume)}",)


def referred_by(volume: Obj) -> tuple[str, ...]:
    """Index: the claim that a volume names, as `namespace/name`."""
    reference = volume["spec"].get("claimRef")
    if not reference:
        return ()
    return (str(Key(reference.get("namespace", ""), reference.get("name", ""))),)


class VolumeClaims(Controller):
    name = "persistentvolume-controller"
    kind = PERSISTENT_VOLUME_CLAIM
    workers = 1  # two claims never reach for one volume

    def __init__(self, api: Api, informers: Informers, *, clock: Clock | None = None) -> None:
        super().__init__(api, informers, clock=clock)
        self._volumes = informers.informer(PERSISTENT_VOLUME)
        self._classes = informers.informer(STORAGE_CLASS)
        self._pods = informers.informer(POD)
        self.objects.add_index(BY_CLASS, waiting_in)
        self.objects.add_index(BY_VOLUME, lambda claim: (claim["spec"].get("volumeName") or "",))
        self._volumes.add_index(BY_CLASS, free_in)
        self._volumes.add_index(BY_REFERENCE, referred_by)
        self._pods.add_index(BY_CLAIM, storage.claim_keys)
        self.watch(self._volumes, self._volume_changed)
        self.watch(self._classes, self._class_changed)
        self.watch(self._pods, self._pod_changed)

    def _volume_changed(self, event: WatchEvent, previous: Obj | None) -> Iterator[Key]:
        for volume in (event.object, previous):
            reference = (volume or {}).get("spec", {}).get("claimRef")
            if reference:
                yield Key(reference.get("namespace", ""), reference.get("name", ""))
        if event.type != "DELETED" and free_in(event.object):
            yield from self._waiting(f"of {storage.class_of(event.object)}")
        for claim in self.objects.by_index(BY_VOLUME, meta(event.object)["name"]):
            yield key_of(claim)

    def _class_changed(self, event: WatchEvent, previous: Obj | None) -> Iterator[Key]:
        if event.type == "DELETED":
            return
        if storage.is_default(event.object):
            yield from self._waiting(_CLASSLESS)
        yield from self._waiting(f"of {meta(event.object)['name']}")

    def _waiting(self, where: str) -> Iterable[Key]:
        return [key_of(claim) for claim in self.objects.by_index(BY_CLASS, where)]

    def _pod_changed(self, event: WatchEvent, previous: Obj | None) -> Iterator[Key]:
        """Queue the claims of a pod that wait for their first consumer; no others care for pods."""
        if previous is not None or event.type == "DELETED":
            return
        for claim in storage.claims_of(event.object):
            key = Key(meta(event.object)["namespace"], claim.name)
            found = self.objects.get(key)
            if found is not None and waiting_in(found):
                yield key

    async def reconcile(self, key: Key) -> Result:
        """Look at a claim once and take its next step.

        1. Give it the default class, if it may have it and there is one now.
        2. Not bound yet: to the volume it names, to the best there is, or to one yet to be made.
        3. Bound: see that its volume is still there, and still its own.
        """
        claim = self.objects.get(key)
        if claim is None or is_deleting(claim):
            return Result.done()
        if BIND_COMPLETED in annotations_of(claim):  # 3
            return await self._keep(claim)
        claim = await self._with_class(claim)  # 1
        if claim["spec"].get("volumeName"):  # 2
            return await self._take_named(claim, claim["spec"]["volumeName"])
        return await self._find(claim)

    async def _with_class(self, claim: Obj) -> Obj:
        """Give the claim the default class, as assignDefaultStorageClass: even if it is older."""
        if not storage.names_no_class(claim) or claim["spec"].get("volumeName"):
            return claim
        default = storage.default_class(self._classes.list())
        if default is None:
            return claim
        return await self._patch_claim(claim, {"spec": {"storageClassName": meta(default)["name"]}})

    # A claim without a volume

    async def _find(self, claim: Obj) -> Result:
        storage_class = self._classes.get(Key("", storage.class_of(claim)))
        waits = storage.waits_for_consumer(storage_class)
        waits = waits and storage.SELECTED_NODE not in annotations_of(claim)
        meant = self._volumes.by_index(BY_REFERENCE, str(key_of(claim)))
        free = [] if waits else self._volumes.by_index(BY_CLASS, f"of {storage.class_of(claim)}")
        volume = storage.best_volume(claim, [*meant, *free])
        if volume is not None:
            await self._bind(claim, volume)
            return Result.done()
        if waits:
            await self._tell_waiting(claim)
        elif storage.class_of(claim):
            await self._ask_provisioner(claim, storage_class)
        else:
            words = "no persistent volumes available for this claim and no storage class is set"
            await self.recorder.event(claim, "Normal", "FailedBinding", words)
        await self._write_pending(claim)
        # Upstream looks, and tells, again and again: who describes the claim later sees why.
        return Result.again(_LOOK_AGAIN)

    async def _tell_waiting(self, claim: Obj) -> None:
        pods = [one for one in self._pods.by_index(BY_CLAIM, str(key_of(claim)))
                if not is_terminal(one)]  # fmt: skip
        if pods:
            words = f"waiting for pod {meta(pods[0])['name']} to be scheduled"
            await self.recorder.event(claim, "Normal", "WaitForPodScheduled", words)
        else:
            words = "waiting for first consumer to be created before binding"
            await self.recorder.event(claim, "Normal", "WaitForFirstConsumer", words)

    async def _ask_provisioner(self, claim: Obj, storage_class: Obj | None) -> None:
        name = storage.class_of(claim)
        if storage_class is None:
            words = f'storageclass.storage.k8s.io "{name}" not found'
            await self.recorder.event(claim, "Warning", "ProvisioningFailed", words)
            return
        provisioner = storage_class["provisioner"]
        if provisioner == storage.NO_PROVISIONER:
            words = "no persistent volumes available for this claim and its class provisions none"
            await self.recorder.event(claim, "Normal", "FailedBinding", words)
            return
        wanted = dict.fromkeys(storage.PROVISIONER, provisioner)
        if not wanted.items() <= annotations_of(claim).items():
            claim = await self._patch_claim(claim, {"metadata": {"annotations": wanted}})
        words = (
            f"Waiting for a volume to be created either by the external provisioner "
            f"'{provisioner}' or manually by the system administrator. If volume creation is "
            "delayed, please verify that the provisioner is running and correctly registered."
        )
        await self.recorder.event(claim, "Normal", "ExternalProvisioning", words)

    async def _take_named(self, claim: Obj, name: str) -> Result:
        volume = self._volumes.get(Key("", name))
        if volume is None:
            await self._write_pending(claim)
            return Result.again(_LOOK_AGAIN)
        if storage.is_meant_for(volume, claim):
            await self._bind(claim, volume)
            return Result.done()
        if volume["spec"].get("claimRef"):
            words = f'volume "{name}" already bound to a different claim.'
            await self.recorder.event(claim, "Warning", "FailedBinding", words)
        else:
            why = storage.mismatch(volume, claim)
            if not why:
                await self._bind(claim, volume)
                return Result.done()
            words = f'Cannot bind to requested volume "{name}": {why}'
            await self.recorder.event(claim, "Warning", "VolumeMismatch", words)
        await self._write_pending(claim)
        return Result.again(_LOOK_AGAIN)

    # A claim with a volume

    async def _keep(self, claim: Obj) -> Result:
        name = claim["spec"].get("volumeName")
        if not name:
            words = (
                "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!"
            )
            await self._lose(claim, "ClaimLost", words)
            return Result.done()
        volume = self._volumes.get(Key("", name)) or await self._fetched(name)
        reference = volume["spec"].get("claimRef") if volume is not None else None
        if volume is None:
            words = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
            await self._lose(claim, "ClaimLost", words)
        elif not reference or storage.is_meant_for(volume, claim):
            await self._bind(claim, volume)
        else:
            words = "Two claims are bound to the same volume, this one is bound incorrectly"
            await self._lose(claim, "ClaimMisbound", words)
        return Result.done()

    async def _fetched(self, name: str) -> Obj | None:
        """Fetch an object before it is called lost: the cache may be behind."""
        try:
            return await self.api.get(PERSISTENT_VOLUME, Key("", name))
        except errors.NotFound:
            return None

    async def _lose(self, claim: Obj, reason: str, words: str) -> None:
        if (claim.get("status") or {}).get("phase") == "Lost":
            return
        await self.write_status(claim, {"phase": "Lost"})
        await self.recorder.event(claim, "Warning", reason, words)

    # Writing

    async def _bind(self, claim: Obj, volume: Obj) -> None:
        """Bind in upstream's order, so that the next start can finish what was left half-way.

        1. The volume names the claim. 2. The claim names the volume. 3. Its status says so.
        """
        await self._bind_volume(volume, claim)  # 1
        change: Obj = {}
        if claim["spec"].get("volumeName") != meta(volume)["name"]:
            change["spec"] = {"volumeName": meta(volume)["name"]}
            change["metadata"] = {"annotations": {BOUND_BY_CONTROLLER: "yes"}}
        if BIND_COMPLETED not in annotations_of(claim):
            metadata = change.setdefault("metadata", {})
            metadata.setdefault("annotations", {})[BIND_COMPLETED] = "yes"
        if change:
            claim = await self._patch_claim(claim, change)  # 2
        await self._write_bound(claim, volume)  # 3

    async def _bind_volume(self, volume: Obj, claim: Obj) -> None:
        former = volume["spec"].get("claimRef") or {}
        if former.get("uid") == uid_of(claim):
            return
        reference = {
            "apiVersion": PERSISTENT_VOLUME_CLAIM.api_version,
            "kind": PERSISTENT_VOLUME_CLAIM.kind,
            "namespace": meta(claim)["namespace"],
            "name": meta(claim)["name"],
            "uid": uid_of(claim),
            "resourceVersion": meta(claim)["resourceVersion"],
        }
        metadata: Obj = {"resourceVersion": meta(volume)["resourceVersion"]}
        if not former:  # what a user has bound by name is not ours to release
            metadata["annotations"] = {BOUND_BY_CONTROLLER: "yes"}
        change = {"metadata": metadata, "spec": {"claimRef": reference}}
        await self._volumes.seen(await self.api.patch(PERSISTENT_VOLUME, key_of(volume), change))

    async def _write_pending(self, claim: Obj) -> None:
        if (claim.get("status") or {}).get("phase") != "Pending":
            await self.write_status(claim, {"phase": "Pending"})

    async def _write_bound(self, claim: Obj, volume: Obj) -> None:
        """Write the bound status; the capacity is told once, growth is the resizer's to tell."""
        status = dict(claim.get("status") or {})
        if status.get("phase") != "Bound":
            status["capacity"] = dict(volume["spec"].get("capacity") or {})
        status |= {"phase": "Bound", "accessModes": volume["spec"].get("accessModes") or []}
        await self.write_status(claim, status)

    async def _patch_claim(self, claim: Obj, change: Obj) -> Obj:
        metadata = {**change.get("metadata", {}), "resourceVersion": meta(claim)["resourceVersion"]}
        written = await self.api.patch(
            PERSISTENT_VOLUME_CLAIM, key_of(claim), {**change, "metadata": metadata}
        )
        await self.objects.seen(written)
        return written
