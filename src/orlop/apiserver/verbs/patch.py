"""patch: a change described instead of a whole object.

Called for PATCH on an object or its status. The result of the patch goes the way of an update; if
another write came in between it is applied again to what is there now.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ...api.kinds import Kind
from ...api.objects import Obj
from ...api.patch import json as json_patch
from ...api.patch import merge as merge_patch
from ...api.patch import strategic as strategic_patch
from ...store import Record
from ..objects.field_validation import checked
from ..objects.prepare_object import identify
from ..registry import Call, Registry
from ..request.failures import unsupported_media_type
from .update import modify

JSON = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
MEDIA_TYPES = {"json": JSON, "merge": MERGE, "strategic": STRATEGIC}


async def patch(registry: Registry, call: Call, media_type: str, body: Any) -> Record:
    """Patch the object; return the object after the patch."""
    encoded = msgspec.json.encode(body)  # each try consumes its own copy

    def change(current: Obj) -> Obj:
        patched = apply(registry, call.kind, media_type, current, msgspec.json.decode(encoded))
        return checked(registry, call, identify(call, patched))

    return await modify(registry, call, change)


def apply(registry: Registry, kind: Kind, media_type: str, target: Obj, body: Any) -> Obj:
    """Return `target` after a patch of that media type; both are consumed."""
    if media_type == MERGE:
        return merge_patch.apply(target, body)
    if media_type == JSON:
        return json_patch.apply(target, body)
    if media_type == STRATEGIC and kind.custom is None:
        return strategic_patch.apply(target, body, registry.schema.type_of(kind))
    accepted = [one for one in MEDIA_TYPES.values() if one != STRATEGIC or kind.custom is None]
    raise unsupported_media_type(accepted)
