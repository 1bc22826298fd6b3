"""Owners of replicas, between a workload and its scale."""

from __future__ import annotations

from orlop.api.managedfields.scale import to_scale, to_workload

REPLICAS = {"f:spec": {"f:replicas": {}}}


def entry(manager: str, fields: dict, *, version: str = "apps/v1", **more: str) -> dict:
    rest = {"operation": "Apply", "apiVersion": version, "fieldsType": "FieldsV1"}
    return {"manager": manager, **rest, "fieldsV1": fields, **more}


BOTH = {"f:spec": {"f:paused": {}, "f:replicas": {}}}
PAUSED = {"f:spec": {"f:paused": {}}}


def test_a_scale_has_the_owners_of_replicas() -> None:
    entries = [entry("one", BOTH), entry("two", PAUSED)]
    assert to_scale(entries) == [entry("one", REPLICAS, version="autoscaling/v1")]
    assert to_scale(None) == []


def test_what_did_not_change_hands_stays() -> None:
    entries = [entry("one", BOTH), entry("two", PAUSED)]
    assert to_workload(entries, to_scale(entries), "apps/v1") == entries


def test_a_new_owner_takes_replicas_and_nothing_else() -> None:
    new = entry("me", REPLICAS, version="autoscaling/v1", subresource="scale")
    assert to_workload([entry("one", BOTH)], [new], "apps/v1") == [
        entry("me", REPLICAS, subresource="scale"),
        entry("one", PAUSED),
    ]


def test_an_owner_of_replicas_alone_is_forgotten() -> None:
    new = entry("me", REPLICAS, version="autoscaling/v1", subresource="scale")
    changed = to_workload([entry("one", REPLICAS)], [new], "apps/v1")
    assert [one["manager"] for one in changed] == ["me"]
