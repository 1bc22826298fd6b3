"""Fills in the defaults that a schema names.

Called for custom resources on create, update and read, after pruning. As apiextensions'
defaulting: a default applies where its field is absent from an object that is there, and where it
is null but may not be.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ..objects import Obj
from .node import ABSENT, Node


def apply(node: Node, obj: Obj) -> None:
    """Complete `obj` in place."""
    if node.has_defaults:
        _value(node, obj)


def _value(node: Node, value: Any) -> None:
    if type(value) is dict:
        for name, below in node.properties.items():
            if not below.has_defaults:
                continue
            held = value.get(name, ABSENT)
            is_missing = held is ABSENT or (held is None and not below.nullable)
            if is_missing and below.default is not ABSENT:
                held = value[name] = copied(below.default)
            if held is not ABSENT:
                _value(below, held)
        if node.additional is not None and node.additional.has_defaults:
            for name in value:
                if name not in node.properties:
                    _entry(node.additional, value, name)
    elif type(value) is list and node.items is not None and node.items.has_defaults:
        for index in range(len(value)):
            _entry(node.items, value, index)


def _entry(node: Node, holder: Any, at: Any) -> None:
    if holder[at] is None and not node.nullable and node.default is not ABSENT:
        holder[at] = copied(node.default)
    _value(node, holder[at])


def copied(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))
