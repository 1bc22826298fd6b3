"""Makes a folder on the shared file system for each claim that asks, and removes it when told.

Two loops, over claims and over volumes, run by the controller manager where folders are configured.
They speak the protocol of upstream's external provisioners and resizers, so that a real
kube-controller-manager may do the binding. A claim's size is noted and not enforced: the site's
quota is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

from ... import errors
from ...api import quantity
from ...api.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, STORAGE_CLASS
from ...api.objects import Key, Obj, annotations_of, is_deleting, key_of, meta, uid_of
from ...client import storage
from ...client.api import Api
from ...client.clock import Clock
from ...client.informer import Informers
from ...client.recorder import Recorder
from ...client.storage import PROVISIONED_BY
from ...wellknown import FOLDER_PROVISIONER
from ..framework.controller import Controller, Result
from ..framework.status import condition, with_condition, without_condition
from .volume_folders import FolderError, VolumeFolders

FINALIZER = "external-provisioner.volume.kubernetes.io/finalizer"
COMPONENT = FOLDER_PROVISIONER
Folders = Mapping[str, VolumeFolders]  # by the class that uses them
HOME = "home"  # the class of volumes in the home folder


def folders_in(
    home: Path, scratch: str, cluster: str, remove_foreign: Callable[[Path, str], None]
) -> Folders:
    """Return the folders: `home` in the cluster's own folder, `scratch` where the site has it."""
    found = {HOME: VolumeFolders(home, remove_foreign)}
    if scratch:
        root = Path(scratch) / f"orlop-volumes-{cluster}"
        found["scratch"] = VolumeFolders(root, remove_foreign)
    return found


def class_named(name: str, *, is_default: bool) -> Obj:
    """Return the StorageClass over a root; its parameter says which: others may be added."""
    made: Obj = {
        "apiVersion": STORAGE_CLASS.api_version,
        "kind": STORAGE_CLASS.kind,
        "metadata": {"name": name},
        "provisioner": FOLDER_PROVISIONER,
        "parameters": {"root": name},
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "Immediate",
        "allowVolumeExpansion": True,
    }
    if is_default:
        made["metadata"]["annotations"] = {storage.DEFAULT_CLASS[0]: "true"}
    return made


class _FolderController(Controller):
    """The part that both loops have in common: the folders, and Events in one name."""

    def __init__(
        self, api: Api, informers: Informers, folders: Folders, *, clock: Clock | None = None
    ) -> None:
        super().__init__(api, informers, clock=clock)
        self.recorder = Recorder(api, COMPONENT, clock=self.clock)
        self._folders = folders


class FolderProvisioner(_FolderController):
    """Makes volumes for claims, and lets them grow."""

    name = "folder-provisioner"
    kind = PERSISTENT_VOLUME_CLAIM

    def __init__(
        self, api: Api, informers: Informers, folders: Folders, *, clock: Clock | None = None
    ) -> None:
        super().__init__(api, informers, folders, clock=clock)
        self._volumes = informers.informer(PERSISTENT_VOLUME)
        self._classes = informers.informer(STORAGE_CLASS)

    async def run(self) -> None:
        await self._ensure_classes()
        await self._volumes.synced()
        await self._classes.synced()
        await super().run()

    async def _ensure_classes(self) -> None:
        """Create missing classes, change none; `home` is the default unless there is another."""
        listed = (await self.api.list(STORAGE_CLASS)).items
        has_default = storage.default_class(listed) is not None
        present = {meta(one)["name"] for one in listed}
        for name in self._folders:
            if name not in present:
                made = class_named(name, is_default=name == HOME and not has_default)
                try:
                    await self.api.create(STORAGE_CLASS, made)
                except errors.AlreadyExists:
                    pass

    async def reconcile(self, key: Key) -> Result:
        claim = self.objects.get(key)
        if claim is None or is_deleting(claim):
            return Result.done()
        if claim["spec"].get("volumeName"):
            await self._grow(claim)
        elif self._is_asked(claim):
            await self._provision(claim)
        return Result.done()

    def _is_asked(self, claim: Obj) -> bool:
        """Return whether the binder asked for a volume, and the scheduler chose where it must."""
        annotations = annotations_of(claim)
        if not any(annotations.get(name) == FOLDER_PROVISIONER for name in storage.PROVISIONER):
            return False
        storage_class = self._classes.get(Key("", storage.class_of(claim)))
        return not storage.waits_for_consumer(storage_class) or storage.SELECTED_NODE in annotations

    async def _provision(self, claim: Obj) -> None:
        name = f"pvc-{uid_of(claim)}"
        if self._volumes.get(Key("", name)) is not None:
            return
        words = f'External provisioner is provisioning volume for claim "{key_of(claim)}"'
        await self.recorder.event(claim, "Normal", "Provisioning", words)
        try:
            folders, storage_class = self._root_for(claim)
            path = folders.path_for(key_of(claim), name)
            await asyncio.to_thread(folders.create, path)
        except FolderError as error:
            words = f'failed to provision volume with StorageClass "{storage.class_of(claim)}": '
            await self.recorder.event(claim, "Warning", "ProvisioningFailed", f"{words}{error}")
            raise
        try:
            made = await self.api.create(
                PERSISTENT_VOLUME, _volume(name, claim, storage_class, path)
            )
        except errors.AlreadyExists:
            return
        words = f"Successfully provisioned volume {name}"
        await self.recorder.event(claim, "Normal", "ProvisioningSucceeded", words)
        await self._volumes.seen(made)

    def _root_for(self, claim: Obj) -> tuple[VolumeFolders, Obj]:
        spec, name = claim["spec"], storage.class_of(claim)
        storage_class = self._classes.get(Key("", name))
        if storage_class is None:
            raise FolderError(f'storageclass.storage.k8s.io "{name}" not found')
        root = (storage_class.get("parameters") or {}).get("root", HOME)
        if root not in self._folders:
            known = ", ".join(sorted(self._folders))
            raise FolderError(f"parameter root: expected one of {known}, found {root!r}")
        if spec.get("volumeMode") == "Block":
            raise FolderError("a folder is no block device: volumeMode must be Filesystem")
        if spec.get("selector"):
            raise FolderError("claim Selector is not supported")
        if spec.get("dataSource") or spec.get("dataSourceRef"):
            raise FolderError("a folder is always made empty: dataSource is not supported")
        return self._folders[root], storage_class

    async def _grow(self, claim: Obj) -> None:
        """Grow a volume as external resizers do: first the volume, then the claim's status."""
        volume = self._volumes.get(Key("", claim["spec"]["volumeName"]))
        status = claim.get("status") or {}
        has = (status.get("capacity") or {}).get("storage")
        if volume is None or not has or not _is_ours(volume) or status.get("phase") != "Bound":
            return
        wanted = claim["spec"]["resources"]["requests"]["storage"]
        if storage.request_of(claim) <= quantity.parse(has):
            return
        conditions = status.get("conditions") or []
        if storage.size_of(volume) < storage.request_of(claim):
            began = condition("Resizing", "True", "", "", self.clock.now())
            conditions = with_condition(conditions, began)
            claim = await self.write_status(claim, {**status, "conditions": conditions})
            change = {"spec": {"capacity": {"storage": wanted}}}
            written = await self.api.patch(PERSISTENT_VOLUME, key_of(volume), change)
            await self._volumes.seen(written)
        done = {**(claim.get("status") or {}), "capacity": {"storage": wanted}}
        done["conditions"] = without_condition(conditions, "Resizing")
        await self.write_status(claim, done)
        await self.recorder.event(
            claim, "Normal", "VolumeResizeSuccessful", "Resize volume succeeded"
        )


class FolderDeleter(_FolderController):
    """Removes the data of volumes that are released, where their policy is Delete."""

    name = "folder-deleter"
    kind = PERSISTENT_VOLUME

    async def reconcile(self, key: Key) -> Result:
        volume = self.objects.get(key)
        if volume is None or not _is_ours(volume):
            return Result.done()
        if not _is_unused(volume) or not (_is_to_go(volume) or is_deleting(volume)):
            return Result.done()
        if _is_to_go(volume):
            # Asked anew: somebody may have said Retain, or given it to another claim, just now.
            volume = await self.api.get(PERSISTENT_VOLUME, key)
            if not (_is_unused(volume) and _is_to_go(volume)):
                return Result.again(1.0)
            await self._remove(volume)
        await self._let_go(volume)
        return Result.done()

    async def _remove(self, volume: Obj) -> None:
        path = Path((volume["spec"].get("hostPath") or {}).get("path", ""))
        try:
            folders = self._folders_of(path)
            await asyncio.to_thread(folders.remove, path)
        except errors.Error as error:
            if (volume.get("status") or {}).get("phase") != "Failed":
                status = {**(volume.get("status") or {}), "phase": "Failed", "message": str(error)}
                await self.write_status(volume, status)
            await self.recorder.event(volume, "Warning", "VolumeFailedDelete", str(error))
            raise

    def _folders_of(self, path: Path) -> VolumeFolders:
        for folders in self._folders.values():
            if folders.root == path.parent.parent:
                return folders
        roots = ", ".join(str(folders.root) for folders in self._folders.values())
        raise FolderError(f"{path} is not the folder of a volume in {roots}: it is left as it is")

    async def _let_go(self, volume: Obj) -> None:
        if not is_deleting(volume):
            try:
                await self.api.delete(PERSISTENT_VOLUME, key_of(volume), uid=uid_of(volume))
                volume = await self.api.get(PERSISTENT_VOLUME, key_of(volume))
            except errors.NotFound:
                return
        finalizers = meta(volume).get("finalizers") or []
        if FINALIZER in finalizers:
            kept = [one for one in finalizers if one != FINALIZER]
            metadata = {"resourceVersion": meta(volume)["resourceVersion"], "finalizers": kept}
            await self.api.patch(PERSISTENT_VOLUME, key_of(volume), {"metadata": metadata})


def _is_to_go(volume: Obj) -> bool:
    return bool(volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete")


def _is_unused(volume: Obj) -> bool:
    """Return whether the volume's claim is gone; one that names none is free for the next."""
    phase = (volume.get("status") or {}).get("phase")
    if phase == "Released" and not volume["spec"].get("claimRef"):
        return is_deleting(volume)
    return phase in ("Released", "Failed") or (is_deleting(volume) and phase != "Bound")


def _is_ours(volume: Obj) -> bool:
    return annotations_of(volume).get(PROVISIONED_BY) == FOLDER_PROVISIONER


def _volume(name: str, claim: Obj, storage_class: Obj, path: Path) -> Obj:
    return {
        "apiVersion": PERSISTENT_VOLUME.api_version,
        "kind": PERSISTENT_VOLUME.kind,
        "metadata": {
            "name": name,
            "annotations": {PROVISIONED_BY: FOLDER_PROVISIONER},
            "finalizers": [FINALIZER],
        },
        "spec": {
            "accessModes": claim["spec"].get("accessModes") or [],
            "capacity": {"storage": claim["spec"]["resources"]["requests"]["storage"]},
            "claimRef": {
                "apiVersion": PERSISTENT_VOLUME_CLAIM.api_version,
                "kind": PERSISTENT_VOLUME_CLAIM.kind,
                "namespace": meta(claim)["namespace"],
                "name": meta(claim)["name"],
                "uid": uid_of(claim),
                "resourceVersion": meta(claim)["resourceVersion"],
            },
            "hostPath": {"path": str(path), "type": "Directory"},
            "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy") or "Delete",
            "storageClassName": meta(storage_class)["name"],
            "volumeMode": "Filesystem",
        },
    }
