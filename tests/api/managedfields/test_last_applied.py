"""From client-side apply to server-side apply, by its annotation."""

from __future__ import annotations

import json

import pytest

from orlop.api.managedfields.conflicts import Conflicts
from orlop.api.managedfields.last_applied import ANNOTATION, apply_with_last_applied
from orlop.api.managedfields.shapes import LEAF, Map, Struct
from orlop.api.managedfields.write import Write

SHAPE = Struct(
    {
        "apiVersion": LEAF,
        "kind": LEAF,
        "metadata": Struct({"name": LEAF, "annotations": Map(LEAF)}),
        "data": Map(LEAF),
    },
    {"metadata"},
)


def config(**data: str) -> dict:
    return {"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "a"}, "data": data}


def live(last: dict | str, **data: str) -> dict:
    """As `kubectl apply` left it; since then `data` may have become another."""
    text = last if isinstance(last, str) else json.dumps(last)
    fields = {"f:data": {f"f:{name}": {} for name in data}, "f:metadata": {"f:annotations": {}}}
    entry = {
        "manager": "kubectl-client-side-apply",
        "operation": "Update",
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }
    metadata = {"name": "a", "annotations": {ANNOTATION: text}, "managedFields": [entry]}
    return {**config(**data), "metadata": metadata}


def apply(obj: dict | None, stated: dict, manager: str = "kubectl") -> dict:
    return apply_with_last_applied(Write(manager, "v1", SHAPE, "2026-01-01T00:00:00Z"), obj, stated)


def test_kubectl_may_change_what_its_client_side_wrote() -> None:
    obj = apply(live(config(x="1"), x="1"), config(x="2"))
    assert obj["data"] == {"x": "2"}
    assert json.loads(obj["metadata"]["annotations"][ANNOTATION]) == config(x="2")


def test_what_others_changed_since_is_a_conflict() -> None:
    with pytest.raises(Conflicts) as conflicts:
        apply(live(config(x="1", y="1"), x="1", y="changed"), config(x="2", y="2"))
    assert [fields for _, fields in conflicts.value.held] == [{"f:data": {"f:y": {}}}]


@pytest.mark.parametrize(
    "last",
    ["", "{", "[]", {**config(x="1"), "apiVersion": "v2"}, {**config(x="1"), "colour": 1}],
    ids=str,
)
def test_an_annotation_of_something_else_allows_nothing(last) -> None:
    with pytest.raises(Conflicts):
        apply(live(last, x="1"), config(x="2"))


def test_other_managers_have_no_such_privilege() -> None:
    with pytest.raises(Conflicts):
        apply(live(config(x="1"), x="1"), config(x="2"), "argo")


def test_without_the_annotation_none_is_made() -> None:
    assert "annotations" not in apply(None, config(x="1"))["metadata"]


def test_the_annotation_never_contains_itself() -> None:
    stated = config(x="1")
    stated["metadata"]["annotations"] = {ANNOTATION: "old", "a": "b"}
    kept = json.loads(apply(None, stated)["metadata"]["annotations"][ANNOTATION])
    assert kept["metadata"] == {"name": "a", "annotations": {"a": "b"}}


def test_an_annotation_that_would_be_too_large_is_dropped() -> None:
    obj = apply(live(config(x="1"), x="1"), config(x="y" * (256 * 1024)))
    assert ANNOTATION not in obj["metadata"]["annotations"]
