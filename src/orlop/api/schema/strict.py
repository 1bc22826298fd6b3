"""What a client is told about fields that are unknown or given twice.

Called by create, update and patch with what `Schema.decode` found, after the client's
`fieldValidation`: Strict refuses the object, Warn (the default) sends warnings, Ignore is silent.
Parsers keep the last of two equal keys, so duplicates are looked for in the body's own text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from ...errors import BadRequest
from ..kinds import Kind


def duplicate_fields(body: bytes | str) -> list[str]:
    """Paths of keys that one object of a JSON text has twice; ValueError where it is no JSON."""
    if is_plain(body):
        return []
    repeated: dict[int, list[str]] = {}
    kept: list[dict[str, Any]] = []  # so that no id is given out again while we look

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(items)
        if len(found) != len(items):
            keys = [key for key, _ in items]
            repeated[id(found)] = sorted({key for key in keys if keys.count(key) > 1})
            kept.append(found)
        return found

    document = json.loads(body, object_pairs_hook=pairs)
    return list(_paths(document, "", repeated)) if repeated else []


def is_plain(body: bytes | str) -> bool:
    """Whether a text is just what we would write of its value, as those of Go's clients are.

    Then nothing in it was said twice, and a sixth of the work has shown it.
    """
    text = body.encode() if isinstance(body, str) else body
    try:
        return msgspec.json.encode(msgspec.json.decode(text)) == text.rstrip()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


def _paths(value: Any, path: str, repeated: dict[int, list[str]]) -> Iterator[str]:
    if isinstance(value, dict):
        for key in repeated.get(id(value), ()):
            yield f"{path}.{key}" if path else key
        for key, item in value.items():
            yield from _paths(item, f"{path}.{key}" if path else key, repeated)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _paths(item, f"{path}[{index}]", repeated)


def warnings(unknown: Sequence[str], duplicate: Sequence[str] = ()) -> list[str]:
    """The texts of `Warning: 299` headers."""
    return [f'unknown field "{path}"' for path in unknown] + [
        f'duplicate field "{path}"' for path in duplicate
    ]


def strict_error(kind: Kind, unknown: Sequence[str], duplicate: Sequence[str] = ()) -> BadRequest:
    """All of them in one refusal, in upstream's words."""
    text = ", ".join(warnings(unknown, duplicate))
    return BadRequest(
        f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: '
        f"strict decoding error: {text}"
    )
