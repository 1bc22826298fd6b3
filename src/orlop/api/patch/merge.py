"""JSON merge patch (RFC 7396): what `kubectl patch --type=merge` and most clients send.

Called by the patch verb. Nulls delete, objects merge, everything else replaces.
"""

from __future__ import annotations

from typing import Any

from ...errors import BadRequest
from ..objects import Obj


def apply(target: Obj, patch: Any) -> Obj:
    """Return `target` after `patch`; both are consumed."""
    if not isinstance(patch, dict):
        raise BadRequest('a merge patch must be a JSON object, e.g. {"spec": {"replicas": 2}}')
    return _merge(target, patch)


def _merge(target: Obj, patch: Obj) -> Obj:
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict):
            former = target.get(key)
            target[key] = _merge(former if isinstance(former, dict) else {}, value)
        else:
            target[key] = value
    return target
