"""Keeps small objects up to date that a controller makes: Services, ConfigMaps, whole Jobs.

Used by the controllers of bundled kinds. Existing objects are known by their metadata, and what
they were made from by a digest in their annotations, so that nothing is read where nothing has
changed. An object that somebody else made under the name is not taken over.
"""

from __future__ import annotations

import hashlib

import msgspec

from ... import errors
from ...api.kinds import Kind
from ...api.objects import Obj, annotations_of, is_controlled_by, key_of, meta, owner_reference
from ...client.api import Api
from ...client.informer import Informer, Informers
from ...client.recorder import Recorder

DIGEST = "orlop.dev/made-from"


class Taken(errors.Conflict):
    """Raised where somebody else has an object of the name."""


class OwnedObjects:
    """Writes the objects of one controller; `fields` are what is kept up to date, say `data`."""

    def __init__(
        self, api: Api, informers: Informers, recorder: Recorder, kind: Kind, *fields: str
    ) -> None:
        self._api, self._recorder, self.kind, self._fields = api, recorder, kind, fields
        self.informer: Informer = informers.metadata(kind)

    async def keep(self, owner: Obj, wanted: Obj) -> None:
        """Make it, or bring its fields up to date; raise Taken where it is another's."""
        made = self.with_owner(owner, wanted)
        digest = annotations_of(made)[DIGEST]
        key = key_of(made)
        found = self.informer.get(key)
        if found is None:
            written = await self._api.create(self.kind, made, namespace=key.namespace)
        elif not is_controlled_by(found, owner):
            words = f'{self.kind.kind} "{key.name}" already exists and is not managed by'
            message = f"{words} {owner['kind']} {meta(owner)['name']}"
            await self._recorder.event(owner, "Warning", "ErrResourceExists", message)
            raise Taken(message)
        elif annotations_of(found).get(DIGEST) == digest or not self._fields:
            return
        else:
            patch: Obj = {name: made.get(name) for name in self._fields}
            patch["metadata"] = {"annotations": {DIGEST: digest}}
            written = await self._api.patch(self.kind, key, patch)
        await self.informer.seen(written)

    @staticmethod
    def is_current(found: Obj, wanted: Obj) -> bool:
        """Return whether it was made from this, suspended or not."""
        return annotations_of(found).get(DIGEST) == _digest(wanted)

    def with_owner(self, owner: Obj, wanted: Obj) -> Obj:
        metadata = {
            **meta(wanted),
            "namespace": meta(owner)["namespace"],
            "ownerReferences": [owner_reference(owner)],
            "annotations": {**annotations_of(wanted), DIGEST: _digest(wanted)},
        }
        head = {"apiVersion": self.kind.api_version, "kind": self.kind.kind}
        return {**head, **wanted, "metadata": metadata}


def _digest(wanted: Obj) -> str:
    spec = wanted.get("spec") or {}
    still = {**wanted, "spec": {name: spec[name] for name in spec if name != "suspend"}}
    return hashlib.sha256(msgspec.json.encode(still)).hexdigest()[:16]
