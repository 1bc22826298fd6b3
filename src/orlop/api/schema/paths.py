"""Tells where in an object something is, as messages say it.

A path is a linked list of (parent, key): it costs nothing on the way down and becomes text where
there is something to tell. Its keys are strangers' words, as long as these like: the text has a
bound, or a thousand findings below one key of a megabyte would be a gigabyte.
"""

from __future__ import annotations

from typing import Any

Path = tuple[Any, Any] | None

MAX_FINDINGS = 100  # as upstream's decoder: more of them help nobody
_LONGEST = 1024


def parts(path: Path) -> list[Any]:
    found: list[Any] = []
    while path is not None:
        path, key = path
        found.append(key)
    return found[::-1]


def text(path: Path) -> str:
    """Write `spec.containers[0].image`, as messages name a field."""
    out = ""
    for part in parts(path):
        if isinstance(part, int):
            out += f"[{part}]"
        else:
            out += f".{part}" if out else part
        if len(out) > _LONGEST:
            return out[:_LONGEST] + "..."
    return out
