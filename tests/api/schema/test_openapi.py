"""OpenAPI documents: what kubectl looks for is in them, and nothing points nowhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from orlop.api.kinds import BUILT_IN, Kind, Kinds
from orlop.api.schema import Schema, gnostic, openapi
from orlop.api.schema.definitions import definition_name


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for one in value.values():
            yield from references(one)
    elif isinstance(value, list):
        for one in value:
            yield from references(one)


@pytest.fixture(scope="module")
def documents(schema: Schema) -> dict[tuple[str, str], dict[str, Any]]:
    kinds = Kinds()
    return {
        (group, version): openapi.v3_document(schema, kinds, group, version)
        for group, versions in kinds.groups().items()
        for version in versions
    }


@pytest.fixture(scope="module")
def swagger(schema: Schema) -> dict[str, Any]:
    return openapi.v2_document(schema, Kinds())


def test_the_index_names_a_document_for_each_group_version(schema: Schema) -> None:
    paths = openapi.v3_index(schema, Kinds())["paths"]
    assert paths["api/v1"]["serverRelativeURL"].startswith("/openapi/v3/api/v1?hash=")
    assert paths["apis/apps/v1"]["serverRelativeURL"].startswith("/openapi/v3/apis/apps/v1?hash=")
    assert len(paths) == len({(kind.group, kind.version) for kind in BUILT_IN})


def test_the_hash_changes_with_the_kinds_of_its_group_only(schema: Schema) -> None:
    kinds = Kinds()
    before = openapi.v3_index(schema, kinds)["paths"]
    kinds.add(Kind("apps", "v1", "Widget", "widgets", True))
    after = openapi.v3_index(schema, kinds)["paths"]
    assert before["apis/apps/v1"] != after["apis/apps/v1"]
    assert before["api/v1"] == after["api/v1"]


@pytest.mark.parametrize("kind", BUILT_IN, ids=lambda kind: kind.resource + "." + kind.version)
def test_explain_finds_each_kind_by_its_path_and_schema(kind: Kind, documents) -> None:
    document = documents[kind.group, kind.version]
    gvk = {"group": kind.group, "kind": kind.kind, "version": kind.version}
    matching = [
        definition
        for definition in document["components"]["schemas"].values()
        if definition.get("x-kubernetes-group-version-kind") == [gvk]
    ]
    assert len(matching) == 1
    assert "metadata" in matching[0]["properties"]
    paths = [path for path in document["paths"] if path.endswith(f"/{kind.plural}")]
    items = [one for path in paths for one in document["paths"][path].items()]
    operations = [one for method, one in items if method != "parameters"]
    assert gvk in [one["x-kubernetes-group-version-kind"] for one in operations]


def test_what_a_path_leaves_open_is_a_parameter_of_it(documents, swagger) -> None:
    for document in (*documents.values(), swagger):
        for path, item in document["paths"].items():
            named = {one["name"] for one in item["parameters"]}
            assert named == set(re.findall(r"{(\w+)}", path)), path
            assert all(one["required"] and one["in"] == "path" for one in item["parameters"])


def test_patch_takes_field_validation_so_that_kubectl_leaves_it_to_the_server(documents) -> None:
    for document in documents.values():
        for path, item in document["paths"].items():
            if "patch" in item:
                names = [parameter["name"] for parameter in item["patch"]["parameters"]]
                assert "fieldValidation" in names, path
                assert item["patch"]["x-kubernetes-action"] == "patch"


def test_clients_are_told_that_they_may_apply(documents, swagger) -> None:
    path = "/apis/apps/v1/namespaces/{namespace}/deployments/{name}"
    for under in ("", "/status", "/scale"):
        three = documents["apps", "v1"]["paths"][path + under]["patch"]
        two = swagger["paths"][path + under]["patch"]
        assert "application/apply-patch+yaml" in three["requestBody"]["content"]
        assert "application/apply-patch+yaml" in two["consumes"]
        for patch in (two, three):
            assert {"force", "fieldManager"} <= {one["name"] for one in patch["parameters"]}


def test_keys_that_elements_may_leave_out_have_their_default(documents, swagger) -> None:
    name = "io.k8s.api.core.v1.ContainerPort"
    port = documents["", "v1"]["components"]["schemas"][name]["properties"]["protocol"]
    assert port["default"] == "TCP"
    assert "default" not in swagger["definitions"][name]["properties"]["protocol"]


def test_no_reference_points_nowhere(documents, swagger) -> None:
    for document in documents.values():
        known = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
        assert set(references(document)) <= known
    known = {f"#/definitions/{name}" for name in swagger["definitions"]}
    assert set(references(swagger)) <= known


def test_a_reference_has_no_siblings_in_version_three(documents) -> None:
    spec = documents["apps", "v1"]["components"]["schemas"]["io.k8s.api.apps.v1.Deployment"]
    prop = spec["properties"]["spec"]
    assert prop["allOf"] == [{"$ref": "#/components/schemas/io.k8s.api.apps.v1.DeploymentSpec"}]
    assert "Specification of the desired behavior" in prop["description"]


def test_merge_keys_are_published(documents) -> None:
    schemas = documents["", "v1"]["components"]["schemas"]
    containers = schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
    assert containers["x-kubernetes-patch-merge-key"] == "name"
    assert containers["x-kubernetes-list-type"] == "map"
    assert containers["items"]["allOf"][0]["$ref"].endswith("io.k8s.api.core.v1.Container")


def test_types_that_are_either_of_two(documents, swagger) -> None:
    name = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
    three = documents["", "v1"]["components"]["schemas"][name]
    assert three["oneOf"] == [{"type": "integer"}, {"type": "string"}]
    assert swagger["definitions"][name]["format"] == "int-or-string"


def test_version_two_has_every_path_and_kind(swagger) -> None:
    assert swagger["swagger"] == "2.0"
    path = "/apis/apps/v1/namespaces/{namespace}/deployments/{name}"
    assert set(swagger["paths"][path]) == {"get", "put", "patch", "delete", "parameters"}
    assert "/api/v1/namespaces/{namespace}/pods/{name}/exec" in swagger["paths"]
    parameters = [one["name"] for one in swagger["paths"][path]["patch"]["parameters"]]
    assert "fieldValidation" in parameters
    assert swagger["definitions"]["io.k8s.api.core.v1.Pod"]["x-kubernetes-group-version-kind"]


@pytest.mark.parametrize(
    ("struct", "name"),
    [
        ("core_v1.Pod", "io.k8s.api.core.v1.Pod"),
        ("meta_v1.ObjectMeta", "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"),
        (
            "apiregistration_v1.APIService",
            "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIService",
        ),
    ],
)
def test_names_of_definitions(struct: str, name: str) -> None:
    assert definition_name(struct) == name


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        tag = varint()
        if tag & 7 == 0:
            yield tag >> 3, varint()
        else:
            assert tag & 7 == 2
            size = varint()
            yield tag >> 3, data[at : at + size]
            at += size


def _message(data: bytes) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = {}
    for number, value in _fields(data):
        found.setdefault(number, []).append(value)
    return found


def test_gnostic_carries_the_whole_document(swagger) -> None:
    document = _message(gnostic.encode(swagger))
    assert document[1] == [b"2.0"]
    paths = [_message(one)[1][0].decode() for one in _message(document[8][0])[2]]
    assert paths == list(swagger["paths"])
    definitions = {
        _message(one)[1][0].decode(): _message(_message(one)[2][0])
        for one in _message(document[9][0])[1]
    }
    assert list(definitions) == list(swagger["definitions"])
    pod_spec = definitions["io.k8s.api.core.v1.PodSpec"]
    assert pod_spec[19] == [b"containers"]
    properties = [_message(one)[1][0].decode() for one in _message(pod_spec[25][0])[1]]
    assert properties == list(swagger["definitions"]["io.k8s.api.core.v1.PodSpec"]["properties"])


def test_gnostic_carries_extensions_and_parameters() -> None:
    document = {
        "swagger": "2.0",
        "info": {"title": "t", "version": "v"},
        "paths": {
            "/x": {
                "patch": {
                    "parameters": [
                        {"name": "fieldValidation", "in": "query", "type": "string"},
                        {"name": "body", "in": "body", "schema": {"type": "object"}},
                    ],
                    "responses": {"200": {"description": "OK", "schema": {"$ref": "#/x"}}},
                    "x-kubernetes-action": "patch",
                }
            }
        },
        "definitions": {"D": {"type": "object", "x-list": ["a"]}},
    }
    encoded = _message(gnostic.encode(document))
    item = _message(_message(_message(encoded[8][0])[2][0])[2][0])
    operation = _message(item[8][0])
    query = _message(_message(_message(_message(operation[8][0])[1][0])[2][0])[3][0])
    assert (query[2], query[4], query[6]) == ([b"query"], [b"fieldValidation"], [b"string"])
    body = _message(_message(_message(operation[8][1])[1][0])[1][0])
    assert (body[2], body[3]) == ([b"body"], [b"body"])
    extension = _message(operation[13][0])
    assert extension[1] == [b"x-kubernetes-action"]
    assert _message(extension[2][0])[2] == [b'"patch"']
