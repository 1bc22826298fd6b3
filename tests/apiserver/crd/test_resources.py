"""Custom resources by every verb, as clients meet them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.apiserver.conftest import Http

from .conftest import DEFINITIONS, THINGS, definition, serve, thing, version

Obj = dict[str, Any]
MERGE = "application/merge-patch+json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


async def test_create_prunes_completes_and_starts_a_generation(things: Http) -> None:
    body = {**thing(free={"x": 1}), "status": {"ready": "yes"}}
    body["spec"]["junk"] = 1
    reply = await things("POST", THINGS, body)
    assert reply.code == 201
    assert reply.json["spec"] == {"size": 3, "color": "red", "replicas": 1, "free": {"x": 1}}
    assert "status" not in reply.json
    assert reply.json["metadata"]["generation"] == 1
    assert reply.headers["Warning"] == '299 - "unknown field \\"spec.junk\\""'


async def test_strict_field_validation_refuses_all_unknown_fields_at_once(things: Http) -> None:
    body = thing(junk=1)
    body["metadata"]["odd"] = 1
    reply = await things("POST", f"{THINGS}?fieldValidation=Strict", body)
    assert reply.code == 400
    assert reply.json["message"] == (
        'Thing in version "v1" cannot be handled as a Thing: strict decoding error: '
        'unknown field "metadata.odd", unknown field "spec.junk"'
    )


async def test_invalid_values_are_told_by_field(things: Http) -> None:
    reply = await things("POST", THINGS, thing(size="big", color="green"))
    assert reply.code == 422
    causes = {one["field"]: one["reason"] for one in reply.json["details"]["causes"]}
    assert causes == {
        "spec.size": "FieldValueTypeInvalid",
        "spec.color": "FieldValueNotSupported",
        "<nil>": "FieldValueInvalid",
    }


async def test_rules_hold_on_create_update_and_scale(things: Http) -> None:
    reply = await things("POST", THINGS, thing(replicas=9))
    assert 'spec: Invalid value: "object": more replicas than size' in reply.json["message"]
    await things("POST", THINGS, thing())
    reply = await things("PATCH", f"{THINGS}/a", {"spec": {"size": 2}}, Content_Type=MERGE)
    assert "must not shrink" in reply.json["message"]
    reply = await things(
        "PATCH", f"{THINGS}/a/scale", {"spec": {"replicas": 9}}, Content_Type=MERGE
    )
    assert reply.code == 422


async def test_the_generation_follows_the_spec_and_not_the_status(things: Http) -> None:
    await things("POST", THINGS, thing())
    reply = await things("PATCH", f"{THINGS}/a", {"spec": {"size": 5}}, Content_Type=MERGE)
    assert reply.json["metadata"]["generation"] == 2
    reply = await things("PATCH", f"{THINGS}/a", {"status": {"ready": "x"}}, Content_Type=MERGE)
    assert "status" not in reply.json
    patch = {"status": {"ready": "yes"}, "spec": {"size": 9}, "metadata": {"labels": {"a": "b"}}}
    reply = await things("PATCH", f"{THINGS}/a/status", patch, Content_Type=MERGE)
    assert reply.json["status"] == {"ready": "yes"}
    assert reply.json["spec"]["size"] == 5
    assert "labels" not in reply.json["metadata"]
    assert reply.json["metadata"]["generation"] == 2


async def test_without_a_subresource_status_is_a_field_like_others(http: Http) -> None:
    await serve(http, definition(version(subresources={})))
    body = {**thing(), "status": {"ready": "no"}}
    assert (await http("POST", THINGS, body)).json["status"] == {"ready": "no"}
    reply = await http("PATCH", f"{THINGS}/a", {"status": {"ready": "yes"}}, Content_Type=MERGE)
    assert reply.json["metadata"]["generation"] == 2
    assert (await http("GET", f"{THINGS}/a/status")).code == 404


async def test_scale_shows_and_changes_the_replicas(things: Http) -> None:
    await things("POST", THINGS, thing())
    await things("PATCH", f"{THINGS}/a/status", {"status": {"replicas": 2, "selector": "a=b"}},
                 Content_Type=MERGE)  # fmt: skip
    scale = (await things("GET", f"{THINGS}/a/scale")).json
    assert (scale["spec"], scale["status"]) == (
        {"replicas": 1},
        {"replicas": 2, "selector": "a=b"},
    )
    scale["spec"]["replicas"] = 3
    assert (await things("PUT", f"{THINGS}/a/scale", scale)).json["spec"] == {"replicas": 3}
    assert (await things("GET", f"{THINGS}/a")).json["spec"]["replicas"] == 3


async def test_update_must_name_a_revision_and_the_newest(things: Http) -> None:
    made = (await things("POST", THINGS, thing())).json
    made["spec"]["size"] = 4
    without = {**made, "metadata": {**made["metadata"], "resourceVersion": ""}}
    reply = await things("PUT", f"{THINGS}/a", without)
    assert reply.json["message"] == (
        'Thing.example.com "a" is invalid: metadata.resourceVersion: Invalid value: 0: '
        "must be specified for an update"
    )
    assert (await things("PUT", f"{THINGS}/a", made)).code == 200
    assert (await things("PUT", f"{THINGS}/a", made)).code == 409


async def test_an_update_does_not_create(things: Http) -> None:
    body = thing("nobody")
    body["metadata"]["resourceVersion"] = ""
    assert (await things("PUT", f"{THINGS}/nobody", body)).code == 404


async def test_json_patch_works_and_strategic_merge_is_refused(things: Http) -> None:
    await things("POST", THINGS, thing())
    patch = [{"op": "test", "path": "/spec/size", "value": 3},
             {"op": "replace", "path": "/spec/size", "value": 4}]  # fmt: skip
    reply = await things("PATCH", f"{THINGS}/a", patch, Content_Type="application/json-patch+json")
    assert reply.json["spec"]["size"] == 4
    reply = await things(
        "PATCH", f"{THINGS}/a", {}, Content_Type="application/strategic-merge-patch+json"
    )
    assert reply.code == 415
    assert "application/strategic-merge-patch+json" not in reply.json["message"]


async def test_null_in_a_merge_patch_brings_the_default_back(things: Http) -> None:
    await things("POST", THINGS, thing(color="blue"))
    reply = await things("PATCH", f"{THINGS}/a", {"spec": {"color": None}}, Content_Type=MERGE)
    assert reply.json["spec"]["color"] == "red"


async def test_tables_have_the_definitions_columns(things: Http) -> None:
    await things("POST", THINGS, thing())
    table = (await things("GET", THINGS, Accept=TABLE)).json
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Size", "Ready"]
    assert table["rows"][0]["cells"] == ["a", 3, None]


async def test_selectable_fields_select_with_their_defaults(things: Http) -> None:
    await things("POST", THINGS, thing("a"))
    await things("POST", THINGS, thing("b", color="blue"))

    async def names(selector: str) -> list[str]:
        found = (await things("GET", f"{THINGS}?fieldSelector={selector}")).json
        return [one["metadata"]["name"] for one in found["items"]]

    assert await names("spec.color%3Dred") == ["a"]
    assert await names("spec.color!%3Dred") == ["b"]
    assert await names("spec.color%3Dblue,metadata.name%3Db") == ["b"]
    refused = await things("GET", f"{THINGS}?fieldSelector=spec.size%3D3")
    assert (refused.code, refused.json["message"]) == (400, "field label not supported: spec.size")


async def test_a_watch_shows_changes_in_the_shape_of_the_schema(things: Http) -> None:
    await things("POST", THINGS, thing())
    await things("DELETE", f"{THINGS}/a")
    url = f"{things.url}{THINGS}?watch=true&resourceVersion=1&timeoutSeconds=1"
    async with things.session.get(url) as response:
        events = [json.loads(line) for line in (await response.text()).splitlines()]
    assert [event["type"] for event in events] == ["ADDED", "DELETED"]
    assert events[0]["object"]["spec"]["color"] == "red"


async def test_objects_of_yesterday_have_the_shape_of_today(things: Http) -> None:
    await things("POST", THINGS, thing(free={"x": 1}))
    changed = version()
    schema = json.loads(json.dumps(changed["schema"]))
    spec = schema["openAPIV3Schema"]["properties"]["spec"]
    del spec["properties"]["free"]
    spec["properties"]["added"] = {"type": "string", "default": "new"}
    patch = {"spec": {"versions": [{**changed, "schema": schema}]}}
    path = f"{DEFINITIONS}/things.example.com"
    assert (await things("PATCH", path, patch, Content_Type=MERGE)).code == 200
    for found in (
        (await things("GET", f"{THINGS}/a")).json,
        (await things("GET", THINGS)).json["items"][0],
    ):
        assert found["spec"] == {"size": 3, "color": "red", "replicas": 1, "added": "new"}


async def test_a_stricter_schema_does_not_hold_what_nobody_touches(things: Http) -> None:
    await things("POST", THINGS, thing(size=3))
    changed = json.loads(json.dumps(version()))
    spec = changed["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"]["size"]["minimum"] = 10
    path = f"{DEFINITIONS}/things.example.com"
    await things("PATCH", path, {"spec": {"versions": [changed]}}, Content_Type=MERGE)
    labels = {"metadata": {"labels": {"a": "b"}}}
    assert (await things("PATCH", f"{THINGS}/a", labels, Content_Type=MERGE)).code == 200
    grown = {"spec": {"size": 4}}
    assert (await things("PATCH", f"{THINGS}/a", grown, Content_Type=MERGE)).code == 422


async def test_two_versions_without_conversion_are_two_names_of_one_object(http: Http) -> None:
    free: Obj = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    old = version("v1beta1", storage=False, schema={"openAPIV3Schema": free}, selectableFields=[],
                  deprecated=True)  # fmt: skip
    await serve(http, definition(version(), old))
    await http("POST", THINGS, thing())
    beta = THINGS.replace("/v1/", "/v1beta1/")
    found = (await http("GET", f"{beta}/a")).json
    assert (found["apiVersion"], found["spec"]["size"]) == ("example.com/v1beta1", 3)
    found["spec"]["size"] = 7
    assert (await http("PUT", f"{beta}/a", found)).json["apiVersion"] == "example.com/v1beta1"
    assert (await http("GET", f"{THINGS}/a")).json["apiVersion"] == "example.com/v1"
    groups = (await http("GET", "/apis/example.com")).json
    assert [one["version"] for one in groups["versions"]] == ["v1", "v1beta1"]


async def test_a_deprecated_version_says_so_to_readers_and_writers(http: Http) -> None:
    old = version("v1alpha1", storage=False, deprecated=True)
    older = version("v0", storage=False, deprecated=True, deprecationWarning="use v1")
    await serve(http, definition(version(), old, older))
    await http("POST", THINGS, thing())
    alpha = THINGS.replace("/v1/", "/v1alpha1/")
    expected = '299 - "example.com/v1alpha1 Thing is deprecated"'
    for path in (alpha, f"{alpha}/a"):
        assert (await http("GET", path)).headers["Warning"] == expected
    reply = await http("PATCH", f"{THINGS.replace('/v1/', '/v0/')}/a", {}, Content_Type=MERGE)
    assert reply.headers["Warning"] == '299 - "use v1"'
    assert "Warning" not in (await http("GET", THINGS)).headers


async def test_another_storage_version_is_remembered(http: Http) -> None:
    await serve(http, definition(version(), version("v2", storage=False)))
    await http("POST", THINGS, thing())
    versions = [version(storage=False), version("v2")]
    path = f"{DEFINITIONS}/things.example.com"
    reply = await http("PATCH", path, {"spec": {"versions": versions}}, Content_Type=MERGE)
    assert reply.json["status"]["storedVersions"] == ["v1", "v2"]
    assert (await http("GET", f"{THINGS}/a")).json["apiVersion"] == "example.com/v1"


async def test_deletecollection_and_dry_run(things: Http) -> None:
    assert (await things("POST", f"{THINGS}?dryRun=All", thing())).code == 201
    assert (await things("GET", THINGS)).json["items"] == []
    for name in ("a", "b"):
        await things("POST", THINGS, thing(name))
    assert len((await things("DELETE", THINGS)).json["items"]) == 2
    assert (await things("GET", THINGS)).json["items"] == []


async def test_a_list_names_itself_and_holds_the_version_asked_for(things: Http) -> None:
    await things("POST", THINGS, thing())
    found = (await things("GET", "/apis/example.com/v1/things")).json
    assert (found["kind"], found["apiVersion"]) == ("ThingList", "example.com/v1")
    assert found["items"][0]["kind"] == "Thing"


@pytest.mark.parametrize(
    "body",
    [
        b'{"spec":[]}',
        b'{"spec":null}',
        b'{"metadata":{"name":"a"},"spec":"x"}',
        b'{"metadata":{"name":"a","labels":[]}}',
        b"[]",
        b'{"metadata":{"name":"a"},"spec":{"size":1e400}}',
        b'{"metadata":{"name":"a"},"spec":{"size":99999999999999999999999}}',
    ],
)
async def test_no_body_does_worse_than_be_refused(things: Http, body: bytes) -> None:
    reply = await things("POST", THINGS, body, Content_Type="application/json")
    assert reply.code in (201, 400, 422), reply.text


async def test_names_without_a_slash_are_finalizers_too(things: Http) -> None:
    body = thing()
    body["metadata"]["finalizers"] = ["finalizer.example.com"]
    assert (await things("POST", THINGS, body)).code == 201


async def test_objects_in_no_namespace(http: Http) -> None:
    await serve(http, definition(scope="Cluster"))
    path = "/apis/example.com/v1/things"
    assert (await http("POST", path, thing())).code == 201
    assert "namespace" not in (await http("GET", f"{path}/a")).json["metadata"]


APPLY = "application/apply-patch+yaml"


async def test_apply_merges_keyed_lists_and_knows_owners(http: Http) -> None:
    env = {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": {
            "type": "object",
            "required": ["name"],
            "properties": {"name": {"type": "string"}, "value": {"type": "string"}},
        },
    }
    spec = {"type": "object", "properties": {"env": env, "size": {"type": "integer"}}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    await serve(http, definition(version(schema=schema, selectableFields=[], subresources={})))

    async def apply(manager: str, spec: Obj, more: str = "") -> Any:
        body = json.dumps({**thing(), "spec": spec})
        path = f"{THINGS}/a?fieldManager={manager}{more}"
        return await http("PATCH", path, body, Content_Type=APPLY)

    assert (await apply("one", {"size": 1, "env": [{"name": "A", "value": "1"}]})).code == 201
    both = await apply("two", {"env": [{"name": "B", "value": "2"}]})
    assert [item["name"] for item in both.json["spec"]["env"]] == ["A", "B"]
    refused = await apply("two", {"size": 2, "env": [{"name": "B", "value": "2"}]})
    assert refused.code == 409
    assert "spec.size" in refused.json["message"]
    forced = await apply("two", {"size": 2, "env": [{"name": "B", "value": "2"}]}, "&force=true")
    assert forced.json["spec"]["size"] == 2
    less = await apply("two", {"size": 2})
    assert [item["name"] for item in less.json["spec"]["env"]] == ["A"]


async def test_managers_are_kept_over_versions(http: Http) -> None:
    await serve(http, definition(version(), version("v2", storage=False)))
    await http("POST", f"{THINGS}?fieldManager=one", thing())
    other = THINGS.replace("/v1/", "/v2/")
    reply = await http(
        "PATCH", f"{other}/a?fieldManager=two", {"spec": {"size": 9}}, Content_Type=MERGE
    )
    owners = {
        entry["manager"]: (entry["apiVersion"], "f:size" in entry["fieldsV1"]["f:spec"])
        for entry in reply.json["metadata"]["managedFields"]
    }
    assert owners == {"one": ("example.com/v1", False), "two": ("example.com/v2", True)}
