"""The table of a custom resource: what `kubectl get` prints of it.

Made when a definition is compiled, of its additionalPrinterColumns; without any, a resource shows
its name and age. As apiextensions' tableconvertor: a path that leads nowhere is an empty cell.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from .. import times
from ..objects import Obj
from ..tables.cells import NAME, Cells, Printer, name_of
from .jsonpath import JsonPath

_AGE: Obj = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp",
             "description": "When the object was created, in UTC."}  # fmt: skip
_Cell = Callable[[Any, float], Any]


def printer(columns: Sequence[Obj]) -> Printer:
    """Make the printer of these additionalPrinterColumns."""
    chosen = list(columns) or [_AGE]
    cells: list[tuple[JsonPath, _Cell]] = [
        (JsonPath(one["jsonPath"]), _CELLS.get(one["type"], _text)) for one in chosen
    ]

    def row(obj: Obj, now: float) -> Cells:
        out: Cells = [name_of(obj)]
        for path, cell in cells:
            value = path.first(obj)
            out.append(None if value is None else cell(value, now))
        return out

    return Printer((NAME, *(_header(one) for one in chosen)), row)


def _header(one: Obj) -> Obj:
    path = one["jsonPath"]
    about = one.get("description") or (
        f"Custom resource definition column (in JSONPath format): {path}"
    )
    return {
        "name": one["name"],
        "type": one["type"],
        "format": one.get("format", ""),
        "description": about,
        "priority": one.get("priority", 0),
    }


def _text(value: Any, now: float) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _integer(value: Any, now: float) -> Any:
    return int(value) if isinstance(value, int | float) else None


def _number(value: Any, now: float) -> Any:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _boolean(value: Any, now: float) -> Any:
    return value if isinstance(value, bool) else None


def _date(value: Any, now: float) -> Any:
    try:
        return times.human_duration(now - times.parse(value))
    except (ValueError, TypeError):
        return "<invalid>"


_CELLS: dict[str, _Cell] = {
    "string": _text,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "date": _date,
}
