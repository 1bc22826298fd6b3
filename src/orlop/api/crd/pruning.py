"""Brings an object into the shape of its schema: what the schema does not name goes.

Called for every custom resource that comes in, and for those read from the store, which may have
been written under an earlier schema. As apiextensions' pruning and its rules for nulls; whether
the values are right is validation's.
"""

from __future__ import annotations

from typing import Any

from ..objects import Obj
from ..schema.paths import MAX_FINDINGS, Path, text
from .structural_schema import ABSENT, Node

_OF_RESOURCE = ("apiVersion", "kind", "metadata")


def prune(node: Node, obj: Obj, *, is_resource: bool = True) -> list[str]:
    """Remove, in place, what the schema does not name; return its paths.

    `metadata` is left as it is.
    """
    unknown: list[str] = []
    _object(node, obj, None, unknown, is_resource=is_resource)
    return unknown


def _object(node: Node, obj: Obj, path: Path, unknown: list[str], *, is_resource: bool) -> None:
    gone = []
    for key, value in obj.items():
        if is_resource and key in _OF_RESOURCE:
            continue
        below = node.properties.get(key) or node.additional
        if below is not None:
            if value is None:
                if not below.nullable and below.default is ABSENT:
                    gone.append(key)
            elif type(value) is dict or type(value) is list:
                _value(below, value, (path, key), unknown)
        elif not node.preserve:
            if len(unknown) < MAX_FINDINGS:
                unknown.append(text((path, key)))
            gone.append(key)
    for key in gone:
        del obj[key]


def _value(node: Node, value: Any, path: Path, unknown: list[str]) -> None:
    if type(value) is dict:
        _object(node, value, path, unknown, is_resource=node.embedded)
    elif type(value) is list and node.items is not None:
        for index, item in enumerate(value):
            if type(item) is dict or type(item) is list:
                _value(node.items, item, (path, index), unknown)


def embedded(node: Node, value: Any) -> list[tuple[str, Obj]]:
    """Return where whole objects are inside this one, and those objects."""
    found: list[tuple[str, Obj]] = []
    _find_embedded(node, value, None, found)
    return found


def _find_embedded(node: Node, value: Any, path: Path, found: list[tuple[str, Obj]]) -> None:
    if type(value) is dict:
        if node.embedded:
            found.append((text(path), value))
        for key, item in value.items():
            below = node.properties.get(key) or node.additional
            if below is not None:
                _find_embedded(below, item, (path, key), found)
    elif type(value) is list and node.items is not None:
        for index, item in enumerate(value):
            _find_embedded(node.items, item, (path, index), found)
