"""Metadata of any kind, and the answer a client sees."""

from __future__ import annotations

from typing import Any

import pytest

from orlop.api import kinds
from orlop.api.kinds import Kind
from orlop.api.validation import FieldError, invalid, validate_create, validate_update
from orlop.api.validation.errors import bad_value, shown

Obj = dict[str, Any]
NAMED = {"name": "a", "namespace": "default"}


def told(kind: Kind, metadata: Obj) -> list[str]:
    return [str(error) for error in validate_create(kind, {"metadata": metadata})]


def starts(found: list[str], expected: list[str]) -> bool:
    return len(found) == len(expected) and all(
        one.startswith(start) for one, start in zip(found, expected, strict=True)
    )


@pytest.mark.parametrize(
    ("kind", "metadata", "expected"),
    [
        (kinds.CONFIG_MAP, NAMED, []),
        (
            kinds.CONFIG_MAP,
            {"namespace": "default"},
            ["metadata.name: Required value: name or generateName is required"],
        ),
        (
            kinds.CONFIG_MAP,
            {**NAMED, "name": "A"},
            ['metadata.name: Invalid value: "A": a lowercase RFC 1123 subdomain'],
        ),
        (kinds.CONFIG_MAP, {"name": "a"}, ["metadata.namespace: Required value"]),
        (
            kinds.CONFIG_MAP,
            {"name": "a", "namespace": "a.b"},
            ['metadata.namespace: Invalid value: "a.b": must not contain dots'],
        ),
        (
            kinds.NODE,
            {"name": "a", "namespace": "b"},
            ["metadata.namespace: Forbidden: not allowed on this type"],
        ),
        (
            kinds.NAMESPACE,
            {"name": "a.b"},
            ['metadata.name: Invalid value: "a.b": must not contain dots'],
        ),
        (kinds.CLUSTER_ROLE, {"name": "system:node"}, []),
        (kinds.CLUSTER_ROLE, {"name": "a/b"}, ['metadata.name: Invalid value: "a/b": may not']),
        (kinds.CONFIG_MAP, {**NAMED, "generateName": "a-"}, []),
        (
            kinds.CONFIG_MAP,
            {**NAMED, "generateName": "A-"},
            ['metadata.generateName: Invalid value: "A-"'],
        ),
        (
            kinds.CONFIG_MAP,
            {**NAMED, "labels": {"-a": "b"}},
            ['metadata.labels: Invalid value: "-a": name part must consist of'],
        ),
        (
            kinds.CONFIG_MAP,
            {**NAMED, "labels": {"a": "b c"}},
            ['metadata.labels: Invalid value: "b c": a valid label must be an empty string'],
        ),
        (kinds.CONFIG_MAP, {**NAMED, "annotations": {"a/B": "any thing\n"}}, []),
        (
            kinds.CONFIG_MAP,
            {**NAMED, "annotations": {"a b": ""}},
            ['metadata.annotations: Invalid value: "a b"'],
        ),
        (
            kinds.CONFIG_MAP,
            {**NAMED, "annotations": {"a": "x" * 262145}},
            ["metadata.annotations: Too long: may not be more than 262144 bytes"],
        ),
        (kinds.CONFIG_MAP, {**NAMED, "finalizers": ["a.b/c", "orphan"]}, []),
        (
            kinds.CONFIG_MAP,
            {**NAMED, "finalizers": ["mine"]},
            [
                'metadata.finalizers: Invalid value: "mine": name is neither a standard finalizer '
                "name nor is it fully qualified"
            ],
        ),
        (
            kinds.CONFIG_MAP,
            {**NAMED, "ownerReferences": [{"apiVersion": "v1"}]},
            [
                'metadata.ownerReferences[0].kind: Invalid value: "": must not be empty',
                'metadata.ownerReferences[0].name: Invalid value: "": must not be empty',
                'metadata.ownerReferences[0].uid: Invalid value: "": must not be empty',
            ],
        ),
        (
            kinds.CONFIG_MAP,
            {**NAMED, "ownerReferences": [{"kind": "A", "name": "a", "uid": "u"}]},
            [
                'metadata.ownerReferences[0].apiVersion: Invalid value: "": version must not be '
                "empty"
            ],
        ),
    ],
)
def test_metadata_of_a_new_object(kind: Kind, metadata: Obj, expected: list[str]) -> None:
    assert starts(told(kind, metadata), expected)


def test_an_object_has_one_controller() -> None:
    owner = {"apiVersion": "v1", "kind": "A", "name": "a", "uid": "u", "controller": True}
    found = told(kinds.CONFIG_MAP, {**NAMED, "ownerReferences": [owner, {**owner, "name": "b"}]})
    assert len(found) == 1
    assert 'Found "true" in references for A/a and A/b' in found[0]


OLD = {"name": "a", "namespace": "default", "uid": "u", "generation": 2}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, []),
        ({"labels": {"a": "b"}}, []),
        ({"name": "b"}, ['metadata.name: Invalid value: "b": field is immutable']),
        ({"namespace": "b"}, ['metadata.namespace: Invalid value: "b": field is immutable']),
        ({"uid": "v"}, ['metadata.uid: Invalid value: "v": field is immutable']),
        ({"generation": 1}, ["metadata.generation: Invalid value: 1: must not be decremented"]),
        ({"labels": {"-": ""}}, ['metadata.labels: Invalid value: "-"']),
    ],
)
def test_metadata_of_an_update(change: Obj, expected: list[str]) -> None:
    new, old = {"metadata": {**OLD, **change}}, {"metadata": OLD}
    found = [str(error) for error in validate_update(kinds.CONFIG_MAP, new, old)]
    assert starts(found, expected)


def test_an_object_that_is_being_deleted_gains_no_finalizers() -> None:
    deleted = {**OLD, "deletionTimestamp": "2026-01-02T12:04:05Z", "finalizers": ["a.b/c"]}
    old = {"metadata": deleted}
    assert validate_update(kinds.CONFIG_MAP, {"metadata": {**deleted, "finalizers": []}}, old) == []
    new = {"metadata": {**deleted, "finalizers": ["a.b/c", "d.e/f"]}}
    found = validate_update(kinds.CONFIG_MAP, new, old)
    assert found[0].reason == "FieldValueForbidden"
    assert 'found new finalizers []string{"d.e/f"}' in found[0].message


def test_the_answer_for_one_error() -> None:
    error = FieldError("FieldValueRequired", "spec.containers", "Required value")
    answer = invalid(kinds.POD, "x", [error])
    assert answer.message == 'Pod "x" is invalid: spec.containers: Required value'
    assert answer.status()["code"] == 422
    assert answer.details == {
        "name": "x",
        "kind": "Pod",
        "causes": [
            {
                "reason": "FieldValueRequired",
                "message": "Required value",
                "field": "spec.containers",
            }
        ],
    }


def test_the_answer_for_several_errors_names_the_group() -> None:
    errors = [bad_value("spec.a", 1, "no"), bad_value("spec.b", True, "no")]
    answer = invalid(kinds.DEPLOYMENT, "x", [*errors, errors[0]])
    assert answer.message == (
        'Deployment.apps "x" is invalid: '
        "[spec.a: Invalid value: 1: no, spec.b: Invalid value: true: no]"
    )
    assert answer.details is not None
    assert answer.details["group"] == "apps"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a", '"a"'),
        ('a"b', '"a\\"b"'),
        (5, "5"),
        (1.5, "1.5"),
        (True, "true"),
        (None, "null"),
        ({"a": "b"}, 'map[string]string{"a":"b"}'),
        ({}, "{}"),
        ([1, 2], "[1,2]"),
        ({"a": 1}, '{"a":1}'),
    ],
)
def test_values_are_shown_as_go_shows_them(value: object, text: str) -> None:
    assert shown(value) == text
