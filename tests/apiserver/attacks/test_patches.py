"""Patches and objects that cost more than they weigh, sent by who administers one namespace."""

from __future__ import annotations

from typing import Any

import pytest

from tests.apiserver.attacks.target import Target

MAPS = "/api/v1/namespaces/small/configmaps"
JSON = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"


def _kept(target: Target, name: str, **metadata: Any) -> str:
    """The path of a map that is there."""
    target.ask("DELETE", f"{MAPS}/{name}", who="admin")
    made = target.ask("POST", MAPS, {"metadata": {"name": name, **metadata}, "data": {"a": "b"}})
    assert made.code == 201, made.body[:500]
    return f"{MAPS}/{name}"


def _many(form: str, count: int) -> list[str]:
    return [form % number for number in range(count)]


def _copies(source: str, count: int) -> list[dict[str, Any]]:
    return [{"op": "copy", "from": source, "path": f"/data/k{n}"} for n in range(count)]


DOUBLING = [{"op": "add", "path": "/data", "value": {"a": "x"}}, *_copies("/data", 24)]
REPEATING = [{"op": "add", "path": "/data", "value": {"a": "x" * 900_000}},
             *_copies("/data/a", 9_000)]  # fmt: skip


@pytest.mark.parametrize("operations", [DOUBLING, REPEATING], ids=["doubling", "repeating"])
def test_copies_are_counted_before_they_are_made(
    target: Target, operations: list[dict[str, Any]]
) -> None:
    path = _kept(target, "copies")
    with target.unharmed():
        reply = target.ask("PATCH", path, operations, JSON)
    assert (reply.code, reply.json["reason"]) == (413, "RequestEntityTooLarge")
    assert "the accumulated size increase of copy" in reply.message


@pytest.mark.parametrize(
    "operations",
    [
        [{"op": "add", "path": "/data" + "/a" * n, "value": {}} for n in range(1, 1_100)],
        [{"op": "add", "path": "/a" * 1_500_000, "value": {}}],
        [{"op": "add", "path": "/metadata/finalizers/" + "1" * 1_000_000, "value": "a"}],
        [{"op": "add", "path": "/metadata/finalizers", "value": ["a"] * 80_000},
         *[{"op": "add", "path": "/metadata/finalizers/0", "value": "b"}] * 9_000],
        [{"op": "test", "path": "", "value": None}] * 10_001,
        [{"op": "copy", "from": "", "path": f"/x{n}"} for n in range(40)],
    ],
    ids=["deeper each time", "a deep path", "an index", "in front", "too many", "all of it"],
)  # fmt: skip
def test_operations_have_bounds(target: Target, operations: list[dict[str, Any]]) -> None:
    path = _kept(target, "bounds")
    with target.unharmed():
        reply = target.ask("PATCH", path, operations, JSON)
    assert 400 <= reply.code < 500
    assert len(reply.body) < 200_000


@pytest.mark.parametrize(
    "patch",
    [
        {"metadata": {"$deleteFromPrimitiveList/finalizers": _many("y.io/%d", 40_000)}},
        {"metadata": {"$setElementOrder/finalizers": _many("x.io/%d", 20_000)[::-1],
                      "finalizers": _many("x.io/%d", 20_000)}},
        {"data": {"$retainKeys": _many("k%d", 20_000), **dict.fromkeys(_many("k%d", 20_000), "")}},
        {"metadata": {"ownerReferences": [{"$patch": "delete", "uid": uid}
                                          for uid in _many("%d", 20_000)]}},
        {"metadata": {"ownerReferences": [{"uid": {}, "name": "a"}, {"uid": [], "name": "a"}]}},
    ],
    ids=["delete from a list", "order", "retain", "delete elements", "keys that are none"],
)  # fmt: skip
def test_lists_are_merged_in_linear_time(target: Target, patch: dict[str, Any]) -> None:
    path = _kept(target, "lists", finalizers=_many("x.io/%d", 20_000))
    with target.unharmed():
        reply = target.ask("PATCH", path, patch, STRATEGIC)
    target.ask("PATCH", path, {"metadata": {"finalizers": None}},
               "application/merge-patch+json", who="admin")  # fmt: skip
    assert reply.code < 500, reply.body[:500]


def _pod(**spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "a"},
        "spec": {"containers": [{"name": "a", "image": "a"}], **spec},
    }


WIDE: list[tuple[str, dict[str, Any]]] = [
    ("pods", _pod(containers=[{"name": name, "image": "a"} for name in _many("c%d", 20_000)])),
    ("pods", _pod(tolerations=[{"key": one, "operator": "Exists"} for one in _many("k%d", 9_000)])),
    ("pods", _pod(volumes=[{"name": name, "emptyDir": {}} for name in _many("v%d", 25_000)])),
    ("services", {"metadata": {"name": "a"}, "spec": {
        "ports": [{"port": n, "name": f"p{n}"} for n in range(1, 30_000)]}}),
    ("configmaps", {"metadata": {"name": "a", "labels": dict.fromkeys(_many("l%d", 40_000), "a")}}),
    ("configmaps", {"metadata": {"name": "a", "ownerReferences": [
        {"apiVersion": "v1", "kind": "Pod", "name": uid, "uid": uid}
        for uid in _many("u%d", 18_000)]}}),
    ("configmaps", {"metadata": {"name": "a", "managedFields": [
        {"manager": name, "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1",
         "fieldsV1": {"f:data": {f"f:{name}": {}}}} for name in _many("m%d", 10_000)]}}),
    ("configmaps", {"metadata": {"name": "a"}, **{name: {} for name in _many("no%d", 60_000)}}),
    ("configmaps", {"metadata": {"name": "a"}, "data": {"x" * 1_000_000: {
        name: {} for name in _many("k%d", 50_000)}}}),
    ("configmaps", {"metadata": {"name": "a", "finalizers": _many("%d", 80_000)}}),
]  # fmt: skip


@pytest.mark.parametrize("place", range(len(WIDE)))
@pytest.mark.parametrize("is_applied", [False, True], ids=["created", "applied"])
def test_wide_objects_take_about_a_second(target: Target, place: int, is_applied: bool) -> None:
    resource, body = WIDE[place]
    path = f"/api/v1/namespaces/small/{resource}"
    with target.unharmed(growth=400):
        if not is_applied:
            reply = target.ask("POST", f"{path}?dryRun=All", body)
        else:
            query = "fieldManager=x&force=true&dryRun=All"
            kind = {"pods": "Pod", "services": "Service", "configmaps": "ConfigMap"}[resource]
            whole = {"apiVersion": "v1", "kind": kind, **body}
            reply = target.ask("PATCH", f"{path}/a?{query}", whole, APPLY)
    assert reply.code < 500, reply.body[:500]


def test_what_is_unknown_is_told_as_far_as_clients_can_hear(target: Target) -> None:
    """Python's own client takes a hundred headers; Go's a megabyte."""
    body = {"metadata": {"name": "unknown"}, **dict.fromkeys(_many("unknown%d", 5_000), 1)}
    reply = target.ask("POST", f"{MAPS}?dryRun=All", body)
    assert reply.code == 201
    strict = target.ask("POST", f"{MAPS}?dryRun=All&fieldValidation=Strict", body)
    assert strict.code == 400
    assert len(strict.body) < 20_000
