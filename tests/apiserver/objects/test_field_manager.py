"""When a write is none, whatever the times of its managers say."""

from __future__ import annotations

import copy

import pytest

from orlop.apiserver.objects.field_manager import is_same

OBJ = {
    "kind": "X",
    "metadata": {
        "name": "a",
        "labels": {"a": "b"},
        "managedFields": [
            {"manager": "a", "operation": "Update", "time": "1", "fieldsV1": {"f:a": {}}},
            {"manager": "b", "operation": "Update", "time": "2", "fieldsV1": {"f:b": {}}},
        ],
    },
    "data": {"x": 1},
}


def changed(*path: object, to: object = None) -> dict:
    """OBJ with another value at a path, or with nothing there."""
    obj = copy.deepcopy(OBJ)
    here = obj
    for part in path[:-1]:
        here = here[part]
    if to is None:
        del here[path[-1]]
    else:
        here[path[-1]] = to
    return obj


ENTRIES = ("metadata", "managedFields")


@pytest.mark.parametrize(
    ("new", "same"),
    [
        (copy.deepcopy(OBJ), True),
        (changed(*ENTRIES, 0, "time", to="9"), True),
        (changed(*ENTRIES, to=OBJ["metadata"]["managedFields"][::-1]), True),
        (changed(*ENTRIES, 0, "manager", to="c"), False),
        (changed(*ENTRIES, 0, "fieldsV1", to={}), False),
        (changed(*ENTRIES, 1), False),
        (changed(*ENTRIES), False),
        (changed("metadata", "labels"), False),
        (changed("metadata", "annotations", to={"x": "y"}), False),
        (changed("data", "x", to=2), False),
        (changed("data"), False),
        (changed("spec", to={}), False),
    ],
)
def test_only_times_may_differ(new: dict, same: bool) -> None:
    assert is_same(new, OBJ) is same
    assert is_same(OBJ, new) is same
