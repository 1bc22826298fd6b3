"""The schema against upstream's own definitions: every field, type, requirement and merge key."""

from __future__ import annotations

from typing import Any

import pytest

from orlop.api.kinds import BUILT_IN
from orlop.api.schema import Schema, facts
from orlop.api.schema.definitions import Definitions, definition_name, reachable
from orlop.api.schema.model import struct_name

EXTENSIONS = (
    "x-kubernetes-patch-merge-key",
    "x-kubernetes-patch-strategy",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
)


_EXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
ANY_JSON = {
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1",
    "io.k8s.apimachinery.pkg.runtime.RawExtension",
    f"{_EXTENSIONS}CustomResourceSubresourceStatus",
    f"{_EXTENSIONS}JSON",
    f"{_EXTENSIONS}JSONSchemaPropsOrArray",
    f"{_EXTENSIONS}JSONSchemaPropsOrBool",
    f"{_EXTENSIONS}JSONSchemaPropsOrStringArray",
}


@pytest.fixture(scope="module")
def structs(schema: Schema) -> list[str]:
    roots = [struct_name(kind.group, kind.version, kind.kind) for kind in BUILT_IN]
    return reachable(schema, roots)


@pytest.fixture(scope="module")
def ours(schema: Schema, structs: list[str]) -> dict[str, Any]:
    return Definitions(schema, 2).all(structs)


def _plain(value: Any) -> Any:
    """The oracle allows null everywhere and calls its definitions by another path."""
    if isinstance(value, dict):
        value = {key: _plain(one) for key, one in value.items()}
        if "$ref" in value:
            name = value["$ref"].rpartition("/")[2]
            # Any JSON goes by two names; to us it is one.
            is_any = name in ANY_JSON
            value["$ref"] = "io.k8s.apimachinery.pkg.runtime.RawExtension" if is_any else name
        return value
    if isinstance(value, list):
        kept = [_plain(one) for one in value if one != "null"]
        return kept[0] if len(kept) == 1 and len(value) > 1 else kept
    return value


def _shape(prop: dict[str, Any]) -> dict[str, Any]:
    kept = ("type", "format", "$ref", "items", "additionalProperties")
    shape: dict[str, Any] = _plain({key: prop[key] for key in kept if key in prop})
    return shape


def test_every_struct_is_upstreams_and_has_just_its_fields(
    structs: list[str], ours: dict[str, Any], upstream: dict[str, Any]
) -> None:
    for struct in structs:
        name = definition_name(struct)
        assert name in upstream, name
        known = upstream[name].get("properties") or {}
        assert set(ours[name].get("properties") or {}) == set(known), name


def test_every_field_has_upstreams_type(
    structs: list[str], ours: dict[str, Any], upstream: dict[str, Any]
) -> None:
    wrong = {}
    for name in map(definition_name, structs):
        for field, prop in (ours[name].get("properties") or {}).items():
            found, expected = _shape(prop), _shape(upstream[name]["properties"][field])
            if found != expected and not _differs_in_width(found, expected):
                wrong[f"{name}.{field}"] = (found, expected)
    assert wrong == {}


def _differs_in_width(found: dict[str, Any], expected: dict[str, Any]) -> bool:
    """Fields newer than the wire table: only the width of a number is then unknown."""
    formats = {found.pop("format", ""), expected.pop("format", "")}
    return found == expected and formats <= {"int32", "int64"}


def test_the_width_of_numbers_is_known_but_for_the_newest_fields(
    structs: list[str], ours: dict[str, Any], upstream: dict[str, Any]
) -> None:
    wrong = [
        f"{name}.{field}"
        for name in map(definition_name, structs)
        for field, prop in (ours[name].get("properties") or {}).items()
        if prop.get("format") != upstream[name]["properties"][field].get("format")
    ]
    assert len(wrong) <= 12, wrong


def test_required_fields_are_upstreams(
    structs: list[str], ours: dict[str, Any], upstream: dict[str, Any]
) -> None:
    for name in map(definition_name, structs):
        assert set(ours[name].get("required", ())) == set(upstream[name].get("required", ())), name


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_how_fields_merge_is_upstreams(
    extension: str, structs: list[str], ours: dict[str, Any], upstream: dict[str, Any]
) -> None:
    wrong = {}
    for name in map(definition_name, structs):
        if ours[name].get(extension) != upstream[name].get(extension):
            wrong[name] = (ours[name].get(extension), upstream[name].get(extension))
        for field, prop in (ours[name].get("properties") or {}).items():
            expected = upstream[name]["properties"][field].get(extension)
            if prop.get(extension) != expected:
                wrong[f"{name}.{field}"] = (prop.get(extension), expected)
    assert wrong == {}


def test_descriptions_are_carried_over(structs: list[str], schema: Schema) -> None:
    docs = schema.docs()
    described = [name for name in structs if docs[name][0]]
    assert len(described) > 0.95 * len(structs)
    assert "containers belonging to the pod" in docs["core_v1.PodSpec"][1]["containers"]
    assert "\n" not in docs["core_v1.PodSpec"][1]["containers"]


def test_no_fact_is_about_something_that_does_not_exist(schema: Schema) -> None:
    fields = {
        f"{name.partition('.')[2]}.{field}"
        for name in schema.names()
        for field in schema.struct(name).fields
    }
    stated = {*facts.MERGES, *facts.LIST_KEYS, *facts.SETS, *facts.MAP_TYPES}
    assert stated - fields == set()
    shorts = {name.partition(".")[2] for name in schema.names()}
    assert set(facts.ATOMIC_STRUCTS) - shorts - set(schema.names()) == set()


@pytest.mark.parametrize(
    ("struct", "field", "spec"),
    [
        ("core_v1.PodSpec", "containers", "[@core_v1.Container"),
        ("core_v1.PodSpec", "terminationGracePeriodSeconds", "l"),
        ("core_v1.ContainerPort", "containerPort", "i"),
        ("core_v1.ResourceRequirements", "limits", "{q"),
        ("core_v1.Secret", "data", "{y"),
        ("core_v1.ServicePort", "targetPort", "x"),
        ("meta_v1.ObjectMeta", "creationTimestamp", "t"),
        ("coordination_v1.LeaseSpec", "renewTime", "T"),
        ("policy_v1.PodDisruptionBudgetStatus", "disruptedPods", "{t"),
        ("apps_v1.ControllerRevision", "data", "*"),
        ("networking_v1.IPBlock", "except", "[s"),
        ("authentication_v1.UserInfo", "extra", "{[s"),
        ("apiregistration_v1.APIServiceSpec", "caBundle", "y"),
    ],
)
def test_types_in_our_own_notation(struct: str, field: str, spec: str, schema: Schema) -> None:
    assert schema.struct(struct).fields[field].spec == spec


@pytest.mark.parametrize(
    ("struct", "field", "pointer", "always"),
    [
        ("apps_v1.DeploymentSpec", "replicas", True, False),
        ("core_v1.PodSpec", "hostNetwork", False, False),
        ("core_v1.PodSpec", "containers", False, True),
        ("core_v1.Container", "name", False, True),
        ("core_v1.SecurityContext", "privileged", True, False),
        ("core_v1.Volume", "emptyDir", True, False),
    ],
)
def test_which_zeros_mean_something(
    struct: str, field: str, pointer: bool, always: bool, schema: Schema
) -> None:
    found = schema.struct(struct).fields[field]
    assert (found.pointer, found.always) == (pointer, always)
