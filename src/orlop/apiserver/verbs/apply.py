"""apply: a client states the fields it cares for, and the server keeps them so.

Called for PATCH with an apply patch, on an object or its status. An object that is not there is
created; fields that other managers own are a Conflict unless the client insists. As
apiserver/pkg/endpoints/handlers/patch.go: applyPatcher.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from ...api.objects import Obj
from ...errors import AlreadyExists
from ...store import Record
from ..objects.conversion import bucket_of
from ..objects.field_manager import applied, write_of
from ..objects.field_validation import checked
from ..objects.prepare_object import identify
from ..registry import Call, Registry
from ..request.failures import bad_request, conflict, not_found
from .create import create
from .update import modify

_TRIES = 5


class Applied(NamedTuple):
    record: Record
    is_new: bool


async def apply(registry: Registry, call: Call, config: Any, *, force: bool = False) -> Applied:
    """Apply the configuration to the object; return the object after that."""
    check_type(config, call.kind.api_version, call.kind.kind)
    encoded = msgspec.json.encode(identify(call, config))  # each try consumes its own copy
    for _ in range(_TRIES):
        if registry.store.newest(bucket_of(call.kind), call.key) is not None:
            return Applied(await _change(registry, call, encoded, force), is_new=False)
        try:
            return Applied(await _create(registry, call, encoded), is_new=True)
        except AlreadyExists:
            continue  # another was quicker: it is there now
    raise conflict(call.kind, call.name)


def check_type(config: Any, api_version: str, kind: str) -> None:
    """Check that an apply patch says what it is: no type is filled in for it."""
    if not isinstance(config, dict):
        raise bad_request("the body of an apply patch must be an object")
    found = f"{_group_version(config.get('apiVersion'))}, Kind={config.get('kind') or ''}"
    expected = f"{_group_version(api_version)}, Kind={kind}"
    if found != expected:
        raise bad_request(f"invalid object type: {found}, expected: {expected}")


def _group_version(api_version: Any) -> str:
    """Write a version as Go prints a GroupVersionKind: `/v1` for the core group."""
    text = api_version if isinstance(api_version, str) else ""
    return text if "/" in text else f"/{text}"


async def _create(registry: Registry, call: Call, encoded: bytes) -> Record:
    if call.subresource:
        raise not_found(call.kind, call.name)
    config: Obj = msgspec.json.decode(encoded)
    uid = config["metadata"].get("uid")
    if uid:
        raise conflict(
            call.kind,
            call.name,
            f"uid mismatch: the provided object specified uid {uid}, and no existing object was "
            "found",
        )
    call.authorize_create()
    obj = applied(write_of(registry, call), None, config, force=True)
    return await create(registry, call, obj, tracked=False)


async def _change(registry: Registry, call: Call, encoded: bytes, force: bool) -> Record:
    def change(live: Obj) -> Obj:
        config: Obj = msgspec.json.decode(encoded)
        obj = applied(write_of(registry, call), live, config, force=force)
        return checked(registry, call, identify(call, obj))

    return await modify(registry, call, change, tracked=False)
