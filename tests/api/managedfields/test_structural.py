"""Shapes of custom resources, out of their structural schemas."""

from __future__ import annotations

import pytest

from orlop.api.kinds import POD, Kind
from orlop.api.managedfields.builtin import Shapes
from orlop.api.managedfields.compare import compare
from orlop.api.managedfields.configuration import NotTyped, fields_of
from orlop.api.managedfields.structural import fields_of as fields_of_schema

KIND = Kind("example.dev", "v1", "Thing", "things", True, subresources=("status",))
TEXT = {"type": "string"}
PORT = {
    "type": "object",
    "properties": {"port": {"type": "integer"}, "protocol": {**TEXT, "default": "TCP"}},
}
SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "size": {"x-kubernetes-int-or-string": True},
                "labels": {"type": "object", "additionalProperties": TEXT},
                "reference": {
                    "type": "object",
                    "properties": {"name": TEXT},
                    "x-kubernetes-map-type": "atomic",
                },
                "ports": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["port", "protocol"],
                    "items": PORT,
                },
                "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": TEXT},
                "plain": {"type": "array", "items": PORT},
                "raw": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "embedded": {
                    "type": "object",
                    "x-kubernetes-embedded-resource": True,
                    "properties": {"spec": {"type": "object"}},
                },
                "anything": {"x-kubernetes-preserve-unknown-fields": True},
            },
        },
        "status": {"type": "object", "properties": {"phase": TEXT}},
    },
}


@pytest.fixture
def shapes(schema) -> Shapes:
    shapes = Shapes(schema)
    shapes.use(KIND, *fields_of_schema(SCHEMA))
    return shapes


def spec(**fields) -> dict:
    return {"apiVersion": "example.dev/v1", "kind": "Thing", "spec": fields}


CASES = {
    "a number or a text": ({"size": 1}, {"f:size": {}}),
    "a map": ({"labels": {"a": "b"}}, {"f:labels": {"f:a": {}}}),
    "an atomic map": ({"reference": {"name": "b"}}, {"f:reference": {}}),
    "a keyed list, with a default": (
        {"ports": [{"port": 80}]},
        {"f:ports": {'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:port": {}}}},
    ),
    "a set": ({"tags": ["a"]}, {"f:tags": {'v:"a"': {}}}),
    "a list that says nothing": ({"plain": [{"port": 80}]}, {"f:plain": {}}),
    "what is preserved": ({"raw": {"a": {"b": 1}}}, {"f:raw": {"f:a": {".": {}, "f:b": {}}}}),
    "an object within": ({"embedded": {"kind": "Pod"}}, {"f:embedded": {"f:kind": {}}}),
    "anything": ({"anything": {"a": [1]}}, {"f:anything": {"f:a": {}}}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_custom_resource_merges_as_its_schema_says(shapes: Shapes, case: str) -> None:
    fields, owned = CASES[case]
    assert fields_of(spec(**fields), shapes.of(KIND)) == {"f:spec": owned}


def test_fields_it_does_not_have_are_refused(shapes: Shapes) -> None:
    with pytest.raises(NotTyped, match=r"\.spec\.colour: field not declared in schema"):
        fields_of(spec(colour=1), shapes.of(KIND))


def test_its_metadata_is_every_objects(shapes: Shapes) -> None:
    obj = {"metadata": {"name": "a", "uid": "b", "labels": {"c": "d"}}}
    owned = {"f:metadata": {"f:labels": {"f:c": {}}}}
    assert fields_of(obj, shapes.of(KIND)) == owned


def test_its_status_is_owned_through_its_own_endpoint(shapes: Shapes) -> None:
    old, new = spec(size=1), {**spec(size=2), "status": {"phase": "x"}}
    assert compare(old, new, shapes.of(KIND)).changed == {"f:spec": {"f:size": {}}}
    through_status = compare(old, new, shapes.of(KIND, "status"))
    assert through_status.changed == {"f:status": {".": {}, "f:phase": {}}}


def test_a_dropped_schema_and_a_kind_without_one_know_nothing(shapes: Shapes) -> None:
    shapes.drop(KIND)
    obj = spec(ports=[{"port": 1}], colour={"a": "b"})
    deduced = {".": {}, "f:colour": {".": {}, "f:a": {}}, "f:ports": {}}
    assert fields_of(obj, shapes.of(KIND)) == {"f:spec": deduced}
    status = compare({}, {"spec": {}, "status": {"a": 1}}, shapes.of(KIND, "status"))
    assert status.changed == {"f:status": {".": {}, "f:a": {}}}


def test_shapes_are_made_once(shapes: Shapes) -> None:
    assert shapes.of(POD) is shapes.of(POD)
    before = shapes.of(KIND)
    shapes.use(KIND, {})
    assert shapes.of(KIND) is not before, "a schema that changed is seen at once"
