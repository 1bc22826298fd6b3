"""Tells clients about fields that are unknown or given twice.

Called by create, update and patch with what `Schema.decode` found, after the client's
`fieldValidation`: Strict refuses the object, Warn (the default) sends warnings, Ignore is silent.
Parsers keep the last of two equal keys, so duplicates are looked for in the body's own text.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import msgspec

from ...errors import BadRequest
from ..kinds import Kind
from .paths import MAX_FINDINGS, Path, text


def duplicate_fields(body: bytes | str) -> list[str]:
    """Return paths of keys that one object has twice; ValueError where the text is no JSON."""
    if is_plain(body):
        return []
    repeated: dict[int, list[str]] = {}
    kept: list[dict[str, Any]] = []  # so that no id is given out again while we look

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(items)
        if len(found) != len(items):
            times = Counter(key for key, _ in items)
            repeated[id(found)] = sorted(key for key, count in times.items() if count > 1)
            kept.append(found)
        return found

    document = json.loads(body, object_pairs_hook=pairs, parse_int=str, parse_float=str)
    return list(islice(_paths(document, None, repeated), MAX_FINDINGS)) if repeated else []


def is_plain(body: bytes | str) -> bool:
    """Return whether a text is just what we would write of its value, as those of Go's clients are.

    Then nothing in it was said twice, and a sixth of the work has shown it.
    """
    data = body.encode() if isinstance(body, str) else body
    try:
        return msgspec.json.encode(msgspec.json.decode(data)) == data.rstrip()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OverflowError):
        return False


def _paths(value: Any, path: Path, repeated: dict[int, list[str]]) -> Iterator[str]:
    if isinstance(value, dict):
        for key in repeated.get(id(value), ()):
            yield text((path, key))
        for key, item in value.items():
            if isinstance(item, dict | list):
                yield from _paths(item, (path, key), repeated)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            if isinstance(item, dict | list):
                yield from _paths(item, (path, index), repeated)


def warnings(unknown: Sequence[str], duplicate: Sequence[str] = ()) -> list[str]:
    """Make the texts of `Warning: 299` headers."""
    return [f'unknown field "{path}"' for path in unknown] + [
        f'duplicate field "{path}"' for path in duplicate
    ]


def strict_error(kind: Kind, unknown: Sequence[str], duplicate: Sequence[str] = ()) -> BadRequest:
    """Put all of them into one refusal, in upstream's words."""
    findings = ", ".join(warnings(unknown, duplicate))
    return BadRequest(
        f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: '
        f"strict decoding error: {findings}"
    )
