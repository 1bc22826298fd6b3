"""Fields that an applier wants to change and another manager owns, in upstream's words.

Raised by apply as a Conflict with one cause for each field; kubectl shows the message as it is and
other tools read the causes. As managedfields/internal/conflict.go.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ...errors import Conflict
from .elements import text_of
from .entries import APPLY, Entry
from .fieldset import FieldSet, paths


class Conflicts(Exception):
    """The conflicts of an apply: what each manager owns of what is to be changed."""

    def __init__(self, held: list[tuple[Entry, FieldSet]]) -> None:
        super().__init__(f"{len(held)} managers own fields that are to be changed")
        self.held = sorted(held, key=lambda one: one[0].identity)


def error(conflicts: Conflicts) -> Conflict:
    found = [
        (_name(entry), text_of(path)) for entry, fields in conflicts.held for path in paths(fields)
    ]
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {manager}", "field": field}
        for manager, field in found
    ]
    return Conflict(_message(found), details={"causes": causes})


def _message(found: list[tuple[str, str]]) -> str:
    if len(found) == 1:
        manager, field = found[0]
        return f"Apply failed with 1 conflict: conflict with {manager}: {field}"
    by_manager: dict[str, list[str]] = {}
    for manager, field in found:
        by_manager.setdefault(manager, []).append(field)
    return f"Apply failed with {len(found)} conflicts: " + "\n".join(_lines(by_manager))


def _lines(by_manager: Mapping[str, list[str]]) -> list[str]:
    lines = []
    for manager, fields in by_manager.items():
        lines.append(f"conflicts with {manager}:")
        lines += [f"- {field}" for field in fields]
    return lines


def _name(entry: Entry) -> str:
    name = msgspec.json.encode(entry.manager).decode()
    if entry.subresource:
        name += f' with subresource "{entry.subresource}"'
    return name if entry.operation == APPLY else f"{name} using {entry.api_version}"
