"""CustomResourceDefinitions: what may be in one, and what may change."""
# ruff: noqa: E501 -- a case and its message are one line

from __future__ import annotations

import copy
from typing import Any

import pytest

from orlop.api import kinds, validation

from .objects import prepared

Obj = dict[str, Any]
KIND = kinds.CUSTOM_RESOURCE_DEFINITION
SCHEMA: Obj = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {"n": {"type": "integer"}, "s": {"type": "string"}},
        },
    },
}
VERSION = "spec.versions[0]"
ROOT = f"{VERSION}.schema.openAPIV3Schema"
SPEC = f"{ROOT}.properties[spec]"


def definition() -> Obj:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": copy.deepcopy(SCHEMA)},
                }
            ],
        },
    }


def changed(path: str, value: Any) -> Obj:
    """The definition with one place of it changed; `...` takes the place away."""
    obj = prepared(KIND, definition())
    *outer, last = path.split("/")
    place: Any = obj
    for step in outer:
        place = place[int(step) if step.isdigit() else step]
    if value is ...:
        del place[last]
    else:
        place[int(last) if last.isdigit() else last] = value
    return obj


def test_a_plain_one_is_valid_and_completed() -> None:
    obj = prepared(KIND, definition())
    assert validation.validate_create(KIND, obj) == []
    names = obj["spec"]["names"]
    assert (names["singular"], names["listKind"]) == ("thing", "ThingList")
    assert obj["spec"]["conversion"] == {"strategy": "None"}
    assert obj["status"]["storedVersions"] == ["v1"]


WHOLE = "spec/versions/0/schema/openAPIV3Schema"
FIELD = f"{WHOLE}/properties/spec/properties/n"
RULES = f"{WHOLE}/properties/spec/x-kubernetes-validations"
WRONG: list[tuple[str, Any, str]] = [
    ("metadata/name", "other.example.com", 'metadata.name: Invalid value: "other.example.com": must be spec.names.plural+"."+spec.group'),
    ("spec/group", "local", 'spec.group: Invalid value: "local": should be a domain with at least one dot'),
    ("spec/group", "a.k8s.io", "metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups"),
    ("spec/scope", "Galaxy", 'spec.scope: Unsupported value: "Galaxy": supported values: "Cluster", "Namespaced"'),
    ("spec/scope", ..., "spec.scope: Required value"),
    ("spec/preserveUnknownFields", True, "spec.preserveUnknownFields: Invalid value: true: cannot set to true"),
    ("spec/names/kind", "Th ing", 'spec.names.kind: Invalid value: "Th ing": a DNS-1035 label'),
    ("spec/names/listKind", "Thing", "kind and listKind may not be the same"),
    ("spec/names/shortNames", ["UP"], 'spec.names.shortNames[0]: Invalid value: "UP"'),
    ("spec/versions", [], "spec.versions: Required value: must have at least one version"),
    ("spec/versions/0/storage", False, "must have exactly one version marked as storage version"),
    ("spec/versions/0/name", "V1", f'{VERSION}.name: Invalid value: "V1"'),
    ("spec/versions/0/schema", ..., f"{ROOT}: Required value: schemas are required"),
    ("spec/versions/0/deprecationWarning", "x", "can only be set for deprecated versions"),
    ("spec/conversion", {"strategy": "Magic"}, 'spec.conversion.strategy: Unsupported value: "Magic"'),
    ("spec/conversion", {"strategy": "Webhook"}, "spec.conversion.webhook.clientConfig: Required value"),
    ("spec/conversion", {"strategy": "Webhook", "webhook": {"clientConfig": {"url": "http://a"}, "conversionReviewVersions": ["v1"]}}, "'https' is the only allowed URL scheme"),
    ("spec/conversion", {"strategy": "Webhook", "webhook": {"clientConfig": {"url": "https://a"}, "conversionReviewVersions": ["v9"]}}, "must include at least one of v1, v1beta1"),
    ("spec/versions/0/additionalPrinterColumns", [{"name": "A", "type": "text", "jsonPath": ".a"}], 'additionalPrinterColumns[0].type: Invalid value: "text": must be one of'),
    ("spec/versions/0/additionalPrinterColumns", [{"name": "A", "type": "string", "jsonPath": "a"}], "additionalPrinterColumns[0].jsonPath: Invalid value"),
    ("spec/versions/0/subresources", {"scale": {"specReplicasPath": ".status.n", "statusReplicasPath": ".status.n"}}, "scale.specReplicasPath: Invalid value: \".status.n\": should be a json path under .spec"),
    ("spec/versions/0/subresources", {"scale": {"specReplicasPath": ".spec.n[0]", "statusReplicasPath": ".status.n"}}, "should be a simple json path (without array)"),
    ("spec/versions/0/selectableFields", [{"jsonPath": ".spec.missing"}], "selectableFields[0].jsonPath: Invalid value"),
    ("spec/versions/0/selectableFields", [{"jsonPath": ".spec.n"}, {"jsonPath": ".spec.n"}], "selectableFields[1].jsonPath: Duplicate value"),
    (f"{WHOLE}/type", "string", f'{ROOT}.type: Invalid value: "string": must be object at the root'),
    (f"{WHOLE}/properties/metadata", {"type": "object", "properties": {"labels": {"type": "object"}}}, "must not specify anything other than name and generateName"),
    (f"{FIELD}/type", ..., f"{SPEC}.properties[n].type: Required value: must not be empty for specified object fields"),
    (f"{FIELD}/type", "int", f'{SPEC}.properties[n].type: Unsupported value: "int"'),
    (f"{FIELD}/$ref", "#/x", f"{SPEC}.properties[n].$ref: Forbidden"),
    (f"{FIELD}/pattern", "(", f'{SPEC}.properties[n].pattern: Invalid value: "(": must be a valid regular expression'),
    (f"{FIELD}/default", "x", f"{SPEC}.properties[n].default: Invalid value"),
    (f"{FIELD}/x-kubernetes-int-or-string", True, f"{SPEC}.properties[n].type: Forbidden: must be empty if x-kubernetes-int-or-string is true"),
    (f"{FIELD}/x-kubernetes-preserve-unknown-fields", False, "must be true or undefined"),
    (f"{FIELD}/x-kubernetes-list-type", "set", "must be array if x-kubernetes-list-type is specified"),
    (f"{FIELD}/x-kubernetes-embedded-resource", True, "must be object if x-kubernetes-embedded-resource is true"),
    (f"{WHOLE}/properties/spec/additionalProperties", {"type": "string"}, "additionalProperties and properties are mutual exclusive"),
    (f"{WHOLE}/properties/spec/anyOf", [{"properties": {"z": {"minimum": 1}}}], f"{SPEC}.properties[z]: Required value: because it is defined in"),
    (f"{WHOLE}/properties/spec/oneOf", [{"type": "object"}], f"{SPEC}.oneOf[0].type: Forbidden: must be empty to be structural"),
    (f"{WHOLE}/properties/l", {"type": "array"}, "properties[l].items: Required value: must be specified"),
    (f"{WHOLE}/properties/l", {"type": "array", "uniqueItems": True, "items": {"type": "string"}}, "uniqueItems cannot be set to true"),
    (f"{WHOLE}/properties/l", {"type": "array", "x-kubernetes-list-type": "map", "items": {"type": "object"}}, "x-kubernetes-list-map-keys: Required value"),
    (f"{WHOLE}/properties/l", {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {"type": "object", "properties": {"k": {"type": "string"}}}}, "so it must have a default or be a required property"),
    (RULES, [{"rule": "self.n >"}], f"{SPEC}.x-kubernetes-validations[0].rule: Invalid value: \"self.n >\": compilation failed: ERROR: <input>:1:9: Syntax error"),
    (RULES, [{"rule": "selff.n > 1"}], "undeclared reference to 'selff'"),
    (RULES, [{"rule": " "}], f"{SPEC}.x-kubernetes-validations[0].rule: Required value"),
    (RULES, [{"rule": "true", "reason": "Because"}], 'x-kubernetes-validations[0].reason: Unsupported value: "Because"'),
    (RULES, [{"rule": "true", "fieldPath": "n"}], "fieldPath must be a valid path"),
    (RULES, [{"rule": "true", "message": "a\nb"}], "message must not contain line breaks"),
    (RULES, [{"rule": "true", "messageExpression": "'a"}], "messageExpression: Invalid value"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value", "expected"), WRONG)
def test_is_refused(path: str, value: Any, expected: str) -> None:
    problems = [str(error) for error in validation.validate_create(KIND, changed(path, value))]
    assert any(expected in problem for problem in problems), problems


RIGHT: list[tuple[str, Any]] = [
    (f"{FIELD}", {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}),
    (f"{FIELD}/default", 3),
    (f"{WHOLE}/properties/spec/oneOf", [{"required": ["n"]}, {"properties": {"n": {"minimum": 1}}}]),
    (f"{WHOLE}/properties/spec/not", {"required": ["n", "s"]}),
    (f"{WHOLE}/properties/metadata", {"type": "object", "properties": {"name": {"type": "string", "maxLength": 5}}}),
    (f"{WHOLE}/properties/m", {"type": "object", "additionalProperties": {"type": "string"}}),
    (f"{WHOLE}/properties/any", {"x-kubernetes-preserve-unknown-fields": True}),
    (RULES, [{"rule": "self.n > oldSelf.n", "message": "grows"}]),
    ("spec/versions/0/selectableFields", [{"jsonPath": ".spec.s"}]),
    ("spec/names/categories", ["all"]),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value"), RIGHT)
def test_is_accepted(path: str, value: Any) -> None:
    assert validation.validate_create(KIND, changed(path, value)) == []


def test_an_approved_group_of_the_project_is_accepted() -> None:
    obj = prepared(KIND, definition())
    obj["spec"]["group"] = "x.k8s.io"
    obj["metadata"] |= {
        "name": "things.x.k8s.io",
        "annotations": {"api-approved.kubernetes.io": "https://example.com/1"},
    }
    assert validation.validate_create(KIND, obj) == []


def established() -> Obj:
    obj = prepared(KIND, definition())
    obj["metadata"]["resourceVersion"] = "1"
    obj["status"]["conditions"] = [{"type": "Established", "status": "True"}]
    return obj


@pytest.mark.parametrize(
    ("path", "value"),
    [("spec/scope", "Cluster"), ("spec/names/kind", "Other"), ("spec/names/plural", "others")],
)
def test_what_an_established_one_is_cannot_change(path: str, value: str) -> None:
    old, new = established(), changed(path, value)
    new["metadata"] = dict(old["metadata"])
    problems = [str(error) for error in validation.validate_update(KIND, new, old)]
    assert any("field is immutable" in problem for problem in problems), problems


def test_a_version_that_may_still_be_stored_cannot_go() -> None:
    old = established()
    new = copy.deepcopy(old)
    new["spec"]["versions"][0]["name"] = "v2"
    problems = [str(error) for error in validation.validate_update(KIND, new, old)]
    assert any("v1 was previously a storage version" in problem for problem in problems)
