"""The parts that the columns of all tables are made of.

Used by the tables of the kinds. A table here is its columns and a function from an object and the
time to the cells; the columns after the first few have a priority and show with `-o wide`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import BadRequest
from .. import selectors, times
from ..objects import Obj, meta

NONE = "<none>"
UNKNOWN = "<unknown>"
UNSET = "<unset>"

Cells = list[Any]
Row = Callable[[Obj, float], Cells]


@dataclass(frozen=True, slots=True)
class Printer:
    columns: Sequence[Obj]
    row: Row


def column(name: str, kind: str = "string", *, priority: int = 0, about: str = "") -> Obj:
    form = "name" if name == "Name" else ""
    return {
        "name": name,
        "type": kind,
        "format": form,
        "description": about or _ABOUT.get(name, ""),
        "priority": priority,
    }


def wide(name: str, kind: str = "string", *, about: str = "") -> Obj:
    return column(name, kind, priority=1, about=about)


_ABOUT = {
    "Name": "Name must be unique within a namespace.",
    "Age": "How long ago the object was created.",
    "Containers": "Names of each container in the template.",
    "Images": "Images referenced by each container in the template.",
    "Selector": "The labels by which the object finds its pods.",
}
NAME = column("Name")
AGE = column("Age")
TEMPLATE = (wide("Containers"), wide("Images"))


def name_of(obj: Obj) -> str:
    return str(meta(obj).get("name", ""))


def age(obj: Obj, now: float) -> str:
    return since(meta(obj).get("creationTimestamp"), now)


def since(text: str | None, now: float) -> str:
    if not text:
        return UNKNOWN
    return times.human_duration(now - times.parse(text))


def between(start: str, end: str) -> str:
    return times.human_duration(times.parse(end) - times.parse(start))


def joined(items: Iterable[str]) -> str:
    return ",".join(items) or NONE


def shortened(items: Sequence[str], limit: int = 3) -> str:
    """Return the first few, and how many more there are."""
    if not items:
        return ""
    more = len(items) - limit
    text = ",".join(items[:limit])
    return f"{text} + {more} more..." if more > 0 else text


def template_cells(template: Obj | None) -> list[str]:
    containers = ((template or {}).get("spec") or {}).get("containers") or ()
    return [
        ",".join(container.get("name", "") for container in containers),
        ",".join(container.get("image", "") for container in containers),
    ]


def label_text(labels: dict[str, str] | None) -> str:
    return joined(f"{key}={value}" for key, value in sorted((labels or {}).items()))


def selector_text(selector: Obj | None) -> str:
    if selector is None:
        return NONE
    try:
        return str(selectors.from_structure(selector)) or NONE
    except BadRequest:  # stored before a rule was there: the other columns are still true
        return "<error>"


def boolean(value: Any) -> str:
    return "True" if value else "False"
