"""get: one object, as readers see it.

Called for GET on a name. With `resourceVersion` it answers no older state than that; ours is as new
as what any client has seen.
"""

from __future__ import annotations

from ...store import Record
from ..registry import Call, Registry
from ..request.failures import bad_request, too_large


def get(registry: Registry, call: Call, *, resource_version: str = "") -> Record:
    revision = parse_revision(resource_version)
    if revision > registry.store.revision:
        raise too_large(revision, registry.store.revision)
    return registry.find(call)


_LONGEST = 20  # digits of what 64 bits can hold


def parse_revision(text: str) -> int:
    """Read a revision: 0 where none is given; BadRequest for what is none."""
    if not text:
        return 0
    if not text.isascii() or not text.isdigit() or len(text) > _LONGEST:
        why = "value out of range" if len(text) > _LONGEST else "invalid syntax"
        shown = text[:100]
        raise bad_request(
            f'resourceVersion: Invalid value: "{shown}": strconv.ParseUint: parsing "{shown}": '
            f"{why}"
        )
    return int(text)
