"""approval: whether a certificate that somebody asks for shall be signed.

Called for PUT and PATCH on `certificatesigningrequests/<name>/approval`, by `kubectl certificate
approve` and `deny`. It changes the conditions; signing is a controller's work. As
registry/certificates/certificates/strategy.go: csrApprovalStrategy.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ...api.objects import Obj
from ...api.strategy import DECISIONS
from ...api.validation import FieldError, invalid
from ...api.validation.errors import bad_value, forbidden, required
from ...store import Record
from ..objects.prepare_object import identify
from ..registry import Call, Registry
from ..request.failures import bad_request
from ..verbs import patch as patch_verb
from ..verbs.update import modify


async def update_approval(registry: Registry, call: Call, body: Any) -> Record:
    """Take the conditions of `body`."""
    wanted = identify(call, body)
    return await modify(registry, call, lambda current: _decided(registry, call, wanted, current))


async def patch_approval(registry: Registry, call: Call, media_type: str, body: Any) -> Record:
    encoded = msgspec.json.encode(body)

    def change(current: Obj) -> Obj:
        copy = msgspec.json.decode(msgspec.json.encode(current))
        patch = msgspec.json.decode(encoded)
        wanted = patch_verb.apply(registry, call.kind, media_type, copy, patch)
        return _decided(registry, call, identify(call, wanted), current)

    return await modify(registry, call, change)


def _decided(registry: Registry, call: Call, wanted: Obj, current: Obj) -> Obj:
    """Return `current` with the conditions of `wanted`."""
    conditions = (wanted.get("status") or {}).get("conditions") or []
    if not all(isinstance(condition, dict) for condition in conditions):
        raise bad_request("status.conditions must be objects")
    former = (current.get("status") or {}).get("conditions") or []
    problems = [*_problems(conditions), *_removed(conditions, former)]
    if problems:
        raise invalid(call.kind, call.name, problems)
    stamped = [_stamped(registry, condition, former) for condition in conditions]
    version = wanted["metadata"].get("resourceVersion")
    metadata = current["metadata"] | ({"resourceVersion": version} if version else {})
    status = {**(current.get("status") or {}), "conditions": stamped}
    return {**current, "metadata": metadata, "status": status}


def _stamped(registry: Registry, condition: Obj, former: list[Obj]) -> Obj:
    if condition in former:
        return condition
    times = {"lastUpdateTime": registry.timestamp(), "lastTransitionTime": registry.timestamp()}
    given = {key: value for key, value in condition.items() if value is not None}
    return times | given


def _problems(conditions: list[Obj]) -> list[FieldError]:
    problems = []
    for number, condition in enumerate(conditions):
        field, kind = f"status.conditions[{number}]", condition.get("type")
        if not kind:
            problems.append(required(f"{field}.type"))
        if not condition.get("status"):
            problems.append(required(f"{field}.status"))
        elif kind in (*DECISIONS, "Failed") and condition["status"] != "True":
            words = f'Unsupported value: only "True" is supported for {kind}'
            problems.append(bad_value(f"{field}.status", condition["status"], words))
    if {condition.get("type") for condition in conditions} >= set(DECISIONS):
        words = "Approved and Denied conditions are mutually exclusive"
        problems.append(bad_value("status.conditions", "Denied", words))
    return problems


def _removed(conditions: list[Obj], former: list[Obj]) -> list[FieldError]:
    left = {condition.get("type") for condition in conditions}
    gone = [one["type"] for one in former if one["type"] in DECISIONS and one["type"] not in left]
    words = "updates may not remove a condition of type %s"
    return [forbidden("status.conditions", words % kind) for kind in gone]
