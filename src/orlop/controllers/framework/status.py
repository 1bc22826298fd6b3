"""Computes status, conditions, and the difference between two of them.

Used by every controller when it writes what it observed. Pure: the moment is passed in, and
arguments are not changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...api.objects import Obj
from ...api.times import rfc3339


def merge_diff(old: Mapping[str, Any], new: Mapping[str, Any]) -> Obj:
    """Return the merge patch that makes `new` of `old`; empty where they are equal."""
    patch: Obj = {key: None for key in old if key not in new}
    for key, value in new.items():
        former = old.get(key)
        if key in old and former == value:
            continue
        if isinstance(value, dict) and isinstance(former, dict):
            patch[key] = merge_diff(former, value)
        else:
            patch[key] = value
    return patch


def condition(kind: str, status: str, reason: str, message: str, now: float) -> Obj:
    """Return a condition that became so now."""
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": rfc3339(now),
    }


def with_condition(conditions: Sequence[Obj], new: Obj) -> list[Obj]:
    """Return the list with `new` in its place; what has not changed keeps its times.

    As upstream's SetXCondition: equal status and reason keep the old one, an equal status keeps its
    lastTransitionTime.
    """
    result: list[Obj] = []
    found = False
    for old in conditions:
        if old["type"] != new["type"]:
            result.append(old)
            continue
        found = True
        if old["status"] == new["status"] and old.get("reason") == new.get("reason"):
            result.append(old)
        elif old["status"] == new["status"]:
            result.append({**new, "lastTransitionTime": old.get("lastTransitionTime")})
        else:
            result.append(new)
    return result if found else [*result, new]


def without_condition(conditions: Sequence[Obj], kind: str) -> list[Obj]:
    return [one for one in conditions if one["type"] != kind]


def is_true(conditions: Sequence[Obj], kind: str) -> bool:
    return any(one["type"] == kind and one["status"] == "True" for one in conditions)
