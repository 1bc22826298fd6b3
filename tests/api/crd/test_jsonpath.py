"""Paths of columns, and the tables made of them."""

from __future__ import annotations

from typing import Any

import pytest

from orlop.api import times
from orlop.api.crd.jsonpath import JsonPath
from orlop.api.crd.printer_columns import printer

OBJ: dict[str, Any] = {
    "metadata": {
        "name": "x",
        "labels": {"a.b/c": "l"},
        "creationTimestamp": "2026-01-02T11:00:00Z",
    },
    "spec": {"n": 3, "list": [1, 2, 3], "items": [{"k": "a", "v": 1}, {"k": "b", "v": 2}]},
    "status": {"conditions": [{"type": "Ready", "status": "True"}], "ok": False, "f": 0.5},
}
FOUND = {
    ".spec.n": [3],
    "{.spec.n}": [3],
    "$.spec.n": [3],
    ".spec.missing": [],
    ".spec.n.deeper": [],
    ".spec.list": [[1, 2, 3]],
    ".spec.list[0]": [1],
    ".spec.list[-1]": [3],
    ".spec.list[9]": [],
    ".spec.list[*]": [1, 2, 3],
    ".spec.list[1:]": [2, 3],
    ".spec.list[0:2]": [1, 2],
    ".spec.items[*].k": ["a", "b"],
    ".spec.items[?(@.k=='b')].v": [2],
    '.spec.items[?(@.k == "b")].v': [2],
    ".spec.items[?(@.v>1)].k": ["b"],
    ".spec.items[?(@.v!=1)].k": ["b"],
    ".spec.items[?(@.missing)].k": [],
    ".spec.items[?(@.k)].v": [1, 2],
    '.status.conditions[?(@.type=="Ready")].status': ["True"],
    ".metadata.labels.a\\.b/c": ["l"],
    ".metadata.labels['a.b/c']": ["l"],
    '.metadata.labels["a.b/c"]': ["l"],
}


@pytest.mark.parametrize("path", FOUND)
def test_a_path_leads_to(path: str) -> None:
    assert JsonPath(path).find(OBJ) == FOUND[path]


@pytest.mark.parametrize(
    "path", ["spec", ".spec[", ".spec[?(x)]", ".spec[a]", ".spec..n", ".spec[?(@.a=={)]", ".[]"]
)
def test_is_no_path(path: str) -> None:
    with pytest.raises(ValueError, match=r"JSONPath|neither|no filter|no value"):
        JsonPath(path)


NOW = times.parse("2026-01-02T12:00:00Z")
CELLS: list[tuple[str, str, Any]] = [
    ("string", ".metadata.name", "x"),
    ("string", ".spec.n", "3"),
    ("string", ".status.ok", "false"),
    ("string", ".spec.list", "[1,2,3]"),
    ("string", ".spec.missing", None),
    ("integer", ".spec.n", 3),
    ("integer", ".metadata.name", None),
    ("number", ".status.f", 0.5),
    ("boolean", ".status.ok", False),
    ("boolean", ".spec.n", None),
    ("date", ".metadata.creationTimestamp", "60m"),
    ("date", ".metadata.name", "<invalid>"),
]


@pytest.mark.parametrize(("kind", "path", "cell"), CELLS)
def test_a_cell_is_of_its_columns_type(kind: str, path: str, cell: Any) -> None:
    table = printer([{"name": "C", "type": kind, "jsonPath": path}])
    assert table.row(OBJ, NOW) == ["x", cell]


def test_without_columns_there_are_name_and_age() -> None:
    table = printer([])
    assert [column["name"] for column in table.columns] == ["Name", "Age"]
    assert table.row(OBJ, NOW) == ["x", "60m"]


def test_a_column_says_where_it_comes_from() -> None:
    column = printer([{"name": "C", "type": "string", "jsonPath": ".a", "priority": 1}]).columns[1]
    assert column == {
        "name": "C",
        "type": "string",
        "format": "",
        "description": "Custom resource definition column (in JSONPath format): .a",
        "priority": 1,
    }
