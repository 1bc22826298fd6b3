"""update: an object replaced, if it still is what the client thinks it is.

Called for PUT, by patch, and by subresources that change their object. A write that changes nothing
gets the old revision back; one that takes the last finalizer off a deleted object removes it. As
registry/generic/registry.Store.Update.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from ...api import defaults, strategy, validation
from ...api.objects import Obj
from ...api.validation.errors import bad_value
from ...errors import Conflict
from ...store import Record, RevisionConflict
from ...store.record import unsaved
from ..objects.conversion import bucket_of, decode, ready, stored
from ..objects.field_manager import is_same, track
from ..objects.field_validation import checked
from ..objects.prepare_object import check_base, identify
from ..registry import Call, Registry
from ..request.failures import conflict, not_found
from .create import create

_TRIES = 5  # as upstream's patch: between reading and writing, others may have been quicker

Change = Callable[[Obj], Obj]


async def update(registry: Registry, call: Call, body: Any) -> Record:
    """Replace the object (or its status, by `call.subresource`)."""
    obj = checked(registry, call, identify(call, body))
    if registry.store.newest(bucket_of(call.kind), call.key) is None and not call.subresource:
        return await _create_instead(registry, call, obj)
    if not obj["metadata"].get("resourceVersion"):
        _check_unconditional(call)
    return await modify(registry, call, lambda _: _copy(obj))


def _check_unconditional(call: Call) -> None:
    if not strategy.allows_unconditional_update(call.kind):
        problem = bad_value("metadata.resourceVersion", 0, "must be specified for an update")
        raise validation.invalid(call.kind, call.name, [problem])


async def _create_instead(registry: Registry, call: Call, obj: Obj) -> Record:
    metadata = obj["metadata"]
    is_new = not metadata.get("uid") and not metadata.get("resourceVersion")
    if not is_new or not strategy.allows_create_on_update(call.kind):
        raise not_found(call.kind, call.name)
    call.authorize_create()
    return await create(registry, call, obj)


async def modify(registry: Registry, call: Call, change: Change, *, tracked: bool = True) -> Record:
    """Write `change(newest)`; try again where another write came in between.

    A change that insists on a revision fails when it meets another one, in `check_base`. One that
    is not `tracked` has itself noted who manages what.
    """
    for _ in range(_TRIES):
        current = registry.find_newest(call)
        await ready(call.kind, [current])
        try:
            obj = change(decode(call.kind, current))
            return await _replace(registry, call, obj, current, tracked)
        except RevisionConflict:
            continue
        except Conflict:
            await registry.store.settled()  # so that the next read shows what it lost to
            raise
    raise conflict(call.kind, call.name)


async def _replace(
    registry: Registry, call: Call, obj: Obj, current: Record, tracked: bool
) -> Record:
    """Put `obj` in place of `current`.

    1. Built upon this state; defaults; whose it is; what admission adds; the kind's own rules.
    2. Valid, and not refused.
    3. Nothing changed: the old revision, once it is durable.
    4. The last finalizer of a deleted object: it goes. Else it is kept.
    """
    old = decode(call.kind, current)
    check_base(call, obj, old)  # 1
    defaults.apply_defaults(call.kind, obj)
    if tracked:
        track(registry, call, old, obj)
    obj = await _admitted(registry, call, obj, old)
    _prepare(call, obj, old)
    _validate(call, obj, old)  # 2
    if not call.is_admitted:
        await registry.admission.validate(call.attributes("UPDATE", obj, old))
    if is_same(obj, old):  # 3
        await registry.store.settled()
        return current
    bucket, kept = bucket_of(call.kind), await stored(call.kind, obj)  # 4
    if call.dry_run:
        return unsaved(kept, call.key)
    if _is_free_to_go(obj):
        return await registry.store.delete(bucket, call.key, kept, expected=current.revision)
    return await registry.store.update(bucket, call.key, kept, expected=current.revision)


async def _admitted(registry: Registry, call: Call, obj: Obj, old: Obj) -> Obj:
    """Return what admission makes of the object, or of the other one that stands for it."""
    if call.is_admitted:
        return obj
    attributes = call.attributes("UPDATE", obj, old)
    await registry.admission.admit(attributes)
    if call.view is None or attributes.obj is None:
        return obj
    return call.view.take(obj, attributes.obj)


def _prepare(call: Call, obj: Obj, old: Obj) -> None:
    """Prepare the object by its kind's rules, for the object itself, its status and its scale.

    Other subresources build upon the old object and change what is theirs alone.
    """
    if call.subresource == "status":
        strategy.prepare_for_status_update(call.kind, obj, old)
    elif call.subresource in ("", "scale"):
        strategy.prepare_for_update(call.kind, obj, old)


def _validate(call: Call, obj: Obj, old: Obj) -> None:
    if call.subresource == "status":
        problems = validation.validate_status_update(call.kind, obj, old)
    elif call.subresource in ("", "scale"):
        problems = validation.validate_update(call.kind, obj, old)
    else:
        return
    if problems:
        raise validation.invalid(call.kind, call.name, problems)


def _is_free_to_go(obj: Obj) -> bool:
    """Return whether a deleted object has nothing left to wait for."""
    metadata = obj["metadata"]
    return (
        "deletionTimestamp" in metadata
        and not metadata.get("finalizers")
        and not metadata.get("deletionGracePeriodSeconds")
        and not _has_namespace_finalizers(obj)
    )


def _has_namespace_finalizers(obj: Obj) -> bool:
    is_namespace = obj["kind"] == "Namespace" and obj["apiVersion"] == "v1"
    return is_namespace and bool(obj.get("spec", {}).get("finalizers"))


def _copy(obj: Obj) -> Obj:
    """Copy the object: a change may be tried several times, and each consumes what it is given."""
    copy: Obj = msgspec.json.decode(msgspec.json.encode(obj))
    return copy
