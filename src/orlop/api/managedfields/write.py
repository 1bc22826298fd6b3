"""One write, as the field manager sees it.

Made by the API server for each call, handed to `manager`. It carries the shape of what is written
and knows the way to other versions of it; it does nothing by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from ..objects import Obj
from .entries import Entry
from .fieldset import FieldSet
from .shapes import Struct


class View(NamedTuple):
    """Another version of a kind: its shape, the way to it from the version written, and back."""

    shape: Struct
    convert: Callable[[Obj], Obj]
    back: Callable[[Obj], Obj]


def _no_other(api_version: str) -> View | None:
    return None


@dataclass(frozen=True, slots=True)
class Write:
    """One write: of whom, through which endpoint, when."""

    manager: str
    api_version: str
    shape: Struct
    now: str
    subresource: str = ""
    other: Callable[[str], View | None] = _no_other  # None for versions that are gone

    def entry(self, operation: str, fields: FieldSet, time: str) -> Entry:
        manager = self.manager or "unknown"
        return Entry(manager, operation, self.api_version, self.subresource, time, fields)

    def view(self, api_version: str) -> View | None:
        """Return the object in that version, this write's own among them."""
        if api_version == self.api_version:
            return View(self.shape, _same, _same)
        return self.other(api_version)


def _same(obj: Obj) -> Obj:
    return obj
