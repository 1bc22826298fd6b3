"""ephemeralcontainers: containers added to a pod that runs, to look into it.

Called for PUT and PATCH on `pods/<name>/ephemeralcontainers`, by `kubectl debug`. It adds to
spec.ephemeralContainers ; those that are there stay as they are. As registry/core/pod/strategy.go:
podEphemeralContainersStrategy.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ...api.defaults import apply_defaults
from ...api.objects import Obj
from ...api.validation import invalid
from ...api.validation.pods import validate_ephemeral_update
from ...store import Record
from ..objects.field_validation import checked
from ..objects.prepare_object import identify
from ..registry import Call, Registry
from ..request.failures import bad_request
from ..verbs import patch as patch_verb
from ..verbs.update import modify


async def update_ephemeral(registry: Registry, call: Call, body: Any) -> Record:
    """Take the ephemeral containers of `body`."""
    wanted = checked(registry, call, identify(call, body))
    return await modify(registry, call, lambda current: _with_added(call, wanted, current))


async def patch_ephemeral(registry: Registry, call: Call, media_type: str, body: Any) -> Record:
    encoded = msgspec.json.encode(body)

    def change(current: Obj) -> Obj:
        copy, patch = _copy(current), msgspec.json.decode(encoded)
        wanted = patch_verb.apply(registry, call.kind, media_type, copy, patch)
        return _with_added(call, checked(registry, call, identify(call, wanted)), current)

    return await modify(registry, call, change)


def _with_added(call: Call, wanted: Obj, current: Obj) -> Obj:
    """Return `current` with the ephemeral containers of `wanted`."""
    spec = wanted.get("spec") or {}
    containers = spec.get("ephemeralContainers") or []
    if not all(isinstance(container, dict) for container in containers):
        raise bad_request("spec.ephemeralContainers must be objects")
    new: Obj = _copy(current)
    if containers:
        new["spec"]["ephemeralContainers"] = _copy(containers)
    else:
        new["spec"].pop("ephemeralContainers", None)
    apply_defaults(call.kind, new)
    problems = validate_ephemeral_update(new, current)
    if problems:
        raise invalid(call.kind, call.name, problems)
    version = wanted["metadata"].get("resourceVersion")
    if version:
        new["metadata"]["resourceVersion"] = version
    return new


def _copy(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))
