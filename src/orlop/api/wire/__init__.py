"""Reads how the messages of Kubernetes' protobuf are made up, from the committed table.

Used by schema, for exact types, and by protobuf, for field numbers. Lines are parsed when their
message is first asked for; the notation is explained at the top of `table`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from . import table

_FIELD = re.compile(r"(~?)([\w$.-]+)=(\d+):([\[{]*(?:@[\w.]+|[a-zA-Z*]))(\*?)(!?)")


class WireField(NamedTuple):
    name: str  # as in JSON
    number: int
    spec: str
    pointer: bool
    always: bool
    inline: bool  # a sub-message whose fields are its parent's in JSON


class Wire:
    """The messages, by `module.Name` (`core_v1.PodSpec`)."""

    def __init__(self) -> None:
        self._lines = dict(line.split(" ", 1) for line in table.TABLE.splitlines() if " " in line)
        self._messages: dict[str, dict[int, WireField]] = {}

    def message(self, name: str) -> dict[int, WireField]:
        """Return the fields of a message by number; none where the table does not have it."""
        fields = self._messages.get(name)
        if fields is None:
            parsed = [_field(text) for text in self._lines.get(name, "").split()]
            fields = self._messages[name] = {field.number: field for field in parsed}
        return fields

    def knows(self, name: str) -> bool:
        return name in self._lines

    def flat_fields(self, name: str) -> dict[str, WireField]:
        """Return the fields by their JSON names, with those of inlined structs."""
        fields: dict[str, WireField] = {}
        for field in self.message(name).values():
            if field.inline:
                fields |= self.flat_fields(field.spec[1:])
            else:
                fields[field.name] = field
        return fields


def _field(text: str) -> WireField:
    match = _FIELD.fullmatch(text)
    assert match is not None, f"the wire table is damaged at {text!r}: run tools/update-protobuf"
    inline, name, number, spec, pointer, always = match.groups()
    return WireField(name, int(number), spec, bool(pointer), bool(always), bool(inline))
