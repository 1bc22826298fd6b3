"""Fills in the defaults that a schema names.

Called for custom resources on create, update and read, after pruning. As apiextensions'
defaulting: a default applies where its field is absent from an object that is there, and where it
is null but may not be.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ...errors import BadRequest
from ..objects import Obj
from ..reading import MAX_VALUES
from .structural_schema import ABSENT, Node


def apply(node: Node, obj: Obj) -> None:
    """Complete `obj` in place; BadRequest where its defaults would make it too large."""
    if node.has_defaults:
        _Filler().value(node, obj)


class _Filler:
    """Counts what it adds: a list of nothing but empty items may stand for gigabytes."""

    def __init__(self) -> None:
        self._left = MAX_VALUES

    def value(self, node: Node, value: Any) -> None:
        if type(value) is dict:
            self._object(node, value)
        elif type(value) is list and node.items is not None and node.items.has_defaults:
            for index in range(len(value)):
                self._entry(node.items, value, index)

    def _object(self, node: Node, value: dict[str, Any]) -> None:
        for name, below in node.properties.items():
            if not below.has_defaults:
                continue
            held = value.get(name, ABSENT)
            is_missing = held is ABSENT or (held is None and not below.nullable)
            if is_missing and below.default is not ABSENT:
                held = value[name] = self._default(below)
            if held is not ABSENT:
                self.value(below, held)
        if node.additional is not None and node.additional.has_defaults:
            for name in value:
                if name not in node.properties:
                    self._entry(node.additional, value, name)

    def _entry(self, node: Node, holder: Any, at: Any) -> None:
        if holder[at] is None and not node.nullable and node.default is not ABSENT:
            holder[at] = self._default(node)
        self.value(node, holder[at])

    def _default(self, node: Node) -> Any:
        self._left -= node.default_cost
        if self._left < 0:
            raise BadRequest(
                "the defaults of its schema would make the object too large: "
                "split it into several objects"
            )
        return copied(node.default)


def copied(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))
