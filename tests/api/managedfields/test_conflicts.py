"""Conflicts in upstream's words."""

from __future__ import annotations

from orlop.api.managedfields.conflicts import Conflicts, error
from orlop.api.managedfields.entries import APPLY, UPDATE, Entry


def entry(manager: str, operation: str = APPLY, subresource: str = "") -> Entry:
    return Entry(manager, operation, "apps/v1", subresource, "", {})


REPLICAS = {"f:spec": {"f:replicas": {}}}
PORT = {"f:ports": {'k:{"containerPort":80,"protocol":"TCP"}': {"f:name": {}}}}


def test_a_single_conflict_is_one_line() -> None:
    found = error(Conflicts([(entry("kubectl"), REPLICAS)]))
    assert found.status() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'Apply failed with 1 conflict: conflict with "kubectl": .spec.replicas',
        "reason": "Conflict",
        "code": 409,
        "details": {
            "causes": [
                {
                    "reason": "FieldManagerConflict",
                    "message": 'conflict with "kubectl"',
                    "field": ".spec.replicas",
                }
            ]
        },
    }


def test_several_are_listed_by_manager() -> None:
    held = [
        (entry("scaler", UPDATE, "scale"), REPLICAS),
        (entry("editor", UPDATE), {**PORT, **REPLICAS, 'v:"x"': {}}),
    ]
    assert error(Conflicts(held)).message == (
        "Apply failed with 4 conflicts: "
        'conflicts with "editor" using apps/v1:\n'
        '- .ports[containerPort=80,protocol="TCP"].name\n'
        "- .spec.replicas\n"
        '- [="x"]\n'
        'conflicts with "scaler" with subresource "scale" using apps/v1:\n'
        "- .spec.replicas"
    )
