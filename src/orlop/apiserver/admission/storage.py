"""Admits what belongs to storage: default classes, protection of what is in use, growth of claims.

Three plugins, always on, as plugin/pkg/admission/storage: a claim that names no class gets the
default one, claims and volumes get the finalizer that keeps them while they are used, and a claim
may ask for more only where its class can give it.
"""

from __future__ import annotations

from ...api import kinds
from ...api.kinds import Kind
from ...api.objects import Key, Obj, meta
from ...client import storage
from ...store import Store
from ...wellknown import CLAIM_PROTECTION, VOLUME_PROTECTION
from ..request.failures import forbidden
from .chain import Attributes, Plugin

_FINALIZERS = {
    kinds.PERSISTENT_VOLUME_CLAIM.resource: CLAIM_PROTECTION,
    kinds.PERSISTENT_VOLUME.resource: VOLUME_PROTECTION,
}


class DefaultStorageClass(Plugin):
    def __init__(self, store: Store) -> None:
        self._store = store

    async def admit(self, attributes: Attributes) -> None:
        claim = attributes.obj
        if not _is_new(attributes, kinds.PERSISTENT_VOLUME_CLAIM) or claim is None:
            return
        if not isinstance(claim.get("spec"), dict) or not storage.names_no_class(claim):
            return
        records = self._store.list_newest(kinds.STORAGE_CLASS.resource)
        default = storage.default_class(record.decode() for record in records)
        if default is not None:
            claim["spec"]["storageClassName"] = meta(default)["name"]


class StorageObjectInUseProtection(Plugin):
    async def admit(self, attributes: Attributes) -> None:
        finalizer = _FINALIZERS.get(attributes.kind.resource)
        obj = attributes.obj
        if finalizer is None or obj is None or not _is_new(attributes, attributes.kind):
            return
        metadata = obj.setdefault("metadata", {})
        if finalizer not in (metadata.get("finalizers") or []):
            metadata["finalizers"] = [*(metadata.get("finalizers") or []), finalizer]


class PersistentVolumeClaimResize(Plugin):
    def __init__(self, store: Store) -> None:
        self._store = store

    async def validate(self, attributes: Attributes) -> None:
        new, old = attributes.obj, attributes.old
        is_claim = attributes.kind.resource == kinds.PERSISTENT_VOLUME_CLAIM.resource
        if not is_claim or attributes.operation != "UPDATE" or attributes.subresource:
            return
        if new is None or old is None or storage.request_of(new) <= storage.request_of(old):
            return
        if (old.get("status") or {}).get("phase") != "Bound":
            words = "Only bound persistent volume claims can be expanded"
            raise forbidden(attributes.kind, attributes.name, words)
        if not self._can_grow(old):
            words = (
                "only dynamically provisioned pvc can be resized and the storageclass that "
                "provisions the pvc must support resize"
            )
            raise forbidden(attributes.kind, attributes.name, words)

    def _can_grow(self, claim: Obj) -> bool:
        key = Key("", storage.class_of(claim))
        record = self._store.newest(kinds.STORAGE_CLASS.resource, key) if key.name else None
        return record is not None and bool(record.decode().get("allowVolumeExpansion"))


def _is_new(attributes: Attributes, kind: Kind) -> bool:
    is_kind = attributes.kind.resource == kind.resource
    return is_kind and attributes.operation == "CREATE" and not attributes.subresource
