"""create: a new object, defaulted, admitted, validated, kept.

Called for POST on a collection. It answers only when the object is durable. As
registry/generic/registry.Store.Create.
"""

from __future__ import annotations

from typing import Any

from ...api import defaults, strategy, validation
from ...api.names import generate
from ...api.objects import Obj
from ...store import Record, RevisionConflict
from ...store.record import unsaved
from ..objects.conversion import bucket_of, stored
from ..objects.field_manager import track
from ..objects.field_validation import checked
from ..objects.prepare_object import identify, name_new
from ..registry import Call, Registry
from ..request.failures import already_exists, definition_terminating

_GENERATED_TRIES = 8


async def create(registry: Registry, call: Call, body: Any, *, tracked: bool = True) -> Record:
    """Create an object; return it as it is kept.

    1. Well formed: of this kind and place, of known fields. 2. Defaults; whose they are, unless
    apply has noted that; then what admission adds. 3. What only the server says: name, uid, time,
    generation, a fresh status. 4. Valid, and not refused. 5. Kept; a generated name that is taken
    is generated again.
    """
    if call.kind.custom is not None and call.kind.custom.is_terminating:
        raise definition_terminating(call.kind)
    obj = checked(registry, call, identify(call, body))  # 1
    defaults.apply_defaults(call.kind, obj)  # 2
    if tracked:
        track(registry, call, None, obj)
    await registry.admission.admit(call.attributes("CREATE", obj, None))
    name_new(registry, call, obj)  # 3
    strategy.prepare_for_create(call.kind, obj, now=registry.now(), uid=registry.new_uid())
    problems = validation.validate_create(call.kind, obj)  # 4
    if problems:
        raise validation.invalid(call.kind, call.name, problems)
    await registry.admission.validate(call.attributes("CREATE", obj, None))
    return await _keep(registry, call, obj)  # 5


async def _keep(registry: Registry, call: Call, obj: Obj) -> Record:
    bucket, metadata = bucket_of(call.kind), obj["metadata"]
    was_generated = bool(metadata.get("generateName"))
    for left in reversed(range(_GENERATED_TRIES if was_generated else 1)):
        try:
            kept = await stored(call.kind, obj)
            if call.dry_run:
                return _pretend(registry, call, kept)
            return await registry.store.create(bucket, call.key, kept)
        except RevisionConflict as taken:
            if not left:
                raise already_exists(call.kind, call.name) from taken
            call.name = _another_name(registry, metadata)
    raise AssertionError("the last try returns or raises")


def _pretend(registry: Registry, call: Call, kept: Obj) -> Record:
    """Answer a dry run: the object without a revision."""
    taken = registry.store.newest(bucket_of(call.kind), call.key)
    if taken is not None:
        raise RevisionConflict(taken)
    return unsaved(kept, call.key)


def _another_name(registry: Registry, metadata: Obj) -> str:
    metadata["name"] = generate(metadata["generateName"], registry.rng)
    return str(metadata["name"])
