"""Accessors over plain objects."""

from __future__ import annotations

from typing import Any

import pytest

from orlop.api import objects
from orlop.api.objects import Key

OWNER = {
    "apiVersion": "apps/v1",
    "kind": "ReplicaSet",
    "metadata": {"name": "rs", "uid": "u1", "namespace": "default"},
}


@pytest.mark.parametrize(
    ("obj", "key", "text"),
    [
        ({"metadata": {"name": "a", "namespace": "b"}}, Key("b", "a"), "b/a"),
        ({"metadata": {"name": "a"}}, Key("", "a"), "a"),
        ({"metadata": {"name": "a", "namespace": None}}, Key("", "a"), "a"),
    ],
)
def test_keys(obj: dict[str, Any], key: Key, text: str) -> None:
    assert objects.key_of(obj) == key
    assert str(key) == text


@pytest.mark.parametrize("obj", [{}, {"metadata": None}, {"metadata": {}}])
def test_what_is_missing_is_empty(obj: dict[str, Any]) -> None:
    assert objects.meta(obj) == {}
    assert objects.uid_of(obj) == ""
    assert objects.labels_of(obj) == {}
    assert objects.annotations_of(obj) == {}
    assert objects.controller_of(obj) is None
    assert not objects.is_deleting(obj)
    assert objects.phase_of(obj) == ""
    assert objects.condition_of(obj, "Ready") is None


def test_owners() -> None:
    reference = objects.owner_reference(OWNER)
    assert reference == {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "rs",
        "uid": "u1",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    other = {"uid": "u2", "controller": False}
    child = {"metadata": {"ownerReferences": [other, reference]}}
    assert objects.controller_of(child) == reference
    assert objects.is_controlled_by(child, OWNER)
    assert not objects.is_controlled_by({"metadata": {"ownerReferences": [other]}}, OWNER)


@pytest.mark.parametrize(
    ("phase", "deleting", "terminal", "active"),
    [
        ("Running", False, False, True),
        ("Pending", False, False, True),
        ("Running", True, False, False),
        ("Succeeded", False, True, False),
        ("Failed", True, True, False),
    ],
)
def test_lives_of_pods(phase: str, deleting: bool, terminal: bool, active: bool) -> None:
    metadata = {"deletionTimestamp": "2026-01-02T12:00:00Z"} if deleting else {}
    pod = {"metadata": metadata, "status": {"phase": phase}}
    assert objects.is_terminal(pod) is terminal
    assert objects.is_active(pod) is active
    assert objects.is_deleting(pod) is deleting


@pytest.mark.parametrize(
    ("conditions", "ready"),
    [
        ([], False),
        ([{"type": "Ready", "status": "True"}], True),
        ([{"type": "Ready", "status": "False"}], False),
        ([{"type": "Initialized", "status": "True"}], False),
    ],
)
def test_readiness(conditions: list[dict[str, str]], ready: bool) -> None:
    assert objects.is_ready({"status": {"conditions": conditions}}) is ready
