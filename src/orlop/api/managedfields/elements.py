"""Elements of paths: how FieldsV1 writes a field, a key or a value, and how messages do.

`f:name` is a field, `k:{"name":"a"}` an element of a keyed list, `v:"a"` one of a set. Called by
all walks; it knows no object.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from ..reading import decode_json
from .shapes import KeyedList, SetList

_encode = msgspec.json.encode


class NoKey(ValueError):
    """An element of a keyed list that cannot be told apart from others."""


def key_element(shape: KeyedList, item: Any) -> str:
    """Make `k:{"containerPort":80,"protocol":"TCP"}`: keys sorted, absent ones by their default."""
    if not isinstance(item, dict):
        what = "a null element" if item is None else "non-map elements"
        raise NoKey(f"associative list with keys may not have {what}")
    found = {}
    for key in sorted(shape.keys):
        value = item.get(key)
        if value is None:
            value = shape.defaults.get(key)
        if value is None:
            raise NoKey(
                f'associative list with keys has an element that omits key field "{key}" '
                "(and doesn't have default value)"
            )
        found[key] = value
    return f"k:{_encode(found).decode()}"


def value_element(item: Any) -> str:
    if item is None:
        raise NoKey("associative list without keys has an element that's an explicit null")
    if isinstance(item, dict):
        raise NoKey("associative list without keys has an element that's a map type")
    if isinstance(item, list):
        raise NoKey("not supported: associative list with lists as elements")
    return f"v:{_encode(item).decode()}"


def list_element(shape: KeyedList | SetList, item: Any) -> str:
    """Return the element of an item, in either sort of list that has elements."""
    return key_element(shape, item) if isinstance(shape, KeyedList) else value_element(item)


def is_element(text: str) -> bool:
    """Return whether this can be a key of a FieldsV1 document."""
    kind, rest = text[:2], text[2:]
    if kind == "f:":
        return True
    try:
        found = decode_json(rest) if kind in ("k:", "v:", "i:") else None
    except ValueError:
        return False
    if kind == "k:":
        return isinstance(found, dict) and bool(found)
    return kind == "v:" or (kind == "i:" and isinstance(found, int))


def text_of(path: Iterable[str]) -> str:
    """Write `.spec.containers[name="a"].image`, as messages name a field."""
    return "".join(_text(element) for element in path)


def _text(element: str) -> str:
    kind, rest = element[:2], element[2:]
    if kind == "f:":
        return f".{rest}"
    if kind == "k:":
        keys = decode_json(rest)
        named = (f"{name}={_encode(value).decode()}" for name, value in sorted(keys.items()))
        return f"[{','.join(named)}]"
    return f"[={rest}]" if kind == "v:" else f"[{rest}]"
