"""The life of a definition: accepted, served, changed, gone; over restarts too."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from orlop.api import kinds
from orlop.api.objects import Key
from orlop.apiserver import ApiServer
from orlop.store import Store
from tests.apiserver.conftest import Http, Site

from .conftest import DEFINITIONS, THINGS, definition, eventually, serve, thing, version

Obj = dict[str, Any]
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def conditions(found: Obj) -> dict[str, tuple[str, str]]:
    return {one["type"]: (one["status"], one["reason"]) for one in found["status"]["conditions"]}


async def test_a_definition_is_accepted_and_established(http: Http) -> None:
    made = await serve(http, definition())
    assert conditions(made) == {
        "NamesAccepted": ("True", "NoConflicts"),
        "Established": ("True", "InitialNamesAccepted"),
    }
    assert made["status"]["storedVersions"] == ["v1"]
    assert made["status"]["acceptedNames"] == {
        "plural": "things",
        "singular": "thing",
        "kind": "Thing",
        "listKind": "ThingList",
        "shortNames": ["th"],
        "categories": ["all"],
    }
    assert made["metadata"]["generation"] == 1


async def test_an_invalid_definition_is_refused_with_its_fields(http: Http) -> None:
    reply = await http("POST", DEFINITIONS, definition(scope="Galaxy"))
    assert reply.code == 422
    assert reply.json["details"]["causes"][0]["field"] == "spec.scope"


async def test_its_kind_is_in_discovery_and_gone_with_it(things: Http) -> None:
    listed = (await things("GET", "/apis/example.com/v1")).json["resources"]
    assert [one["name"] for one in listed] == ["things", "things/scale", "things/status"]
    assert listed[0]["shortNames"] == ["th"]
    groups = (await things("GET", "/apis", Accept=AGGREGATED)).json["items"]
    group = next(one for one in groups if one["metadata"]["name"] == "example.com")
    assert group["versions"][0]["resources"][0]["categories"] == ["all"]
    await things("DELETE", f"{DEFINITIONS}/things.example.com")

    async def is_gone() -> bool:
        return (await things("GET", "/apis/example.com/v1")).code == 404

    await eventually(is_gone)
    assert (await things("GET", THINGS)).code == 404


async def test_its_schema_is_published(things: Http) -> None:
    index = (await things("GET", "/openapi/v3")).json["paths"]
    assert "apis/example.com/v1" in index
    document = (await things("GET", "/openapi/v3/apis/example.com/v1")).json
    published = document["components"]["schemas"]["com.example.v1.Thing"]
    assert published["properties"]["spec"]["description"] == "What the thing is."
    assert published["x-kubernetes-group-version-kind"] == [
        {"group": "example.com", "version": "v1", "kind": "Thing"}
    ]
    path = document["paths"]["/apis/example.com/v1/namespaces/{namespace}/things/{name}"]
    assert "application/strategic-merge-patch+json" not in path["patch"]["requestBody"]["content"]
    old = (await things("GET", "/openapi/v2")).json["definitions"]
    assert old["com.example.v1.Thing"]["properties"]["spec"]["required"] == ["size"]
    assert "com.example.v1.ThingList" in old


async def test_a_hash_of_openapi_changes_with_the_schema(things: Http) -> None:
    def url(index: Obj) -> str:
        return str(index["paths"]["apis/example.com/v1"]["serverRelativeURL"])

    before = url((await things("GET", "/openapi/v3")).json)
    patch = [{"op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema/description",
              "value": "new"}]  # fmt: skip
    patch[0]["op"] = "add"
    reply = await things("PATCH", f"{DEFINITIONS}/things.example.com", patch,
                         Content_Type="application/json-patch+json")  # fmt: skip
    assert reply.json["metadata"]["generation"] == 2
    assert url((await things("GET", "/openapi/v3")).json) != before


async def test_names_that_are_taken_are_not_accepted_until_they_are_free(http: Http) -> None:
    await serve(http, definition())
    rival = definition(plural="thongs", kind="Thing")
    await http("POST", DEFINITIONS, rival)

    async def told() -> Obj | None:
        found = (await http("GET", f"{DEFINITIONS}/thongs.example.com")).json
        return found if found["status"].get("conditions") else None

    found = await eventually(told)
    assert conditions(found)["NamesAccepted"] == ("False", "SingularConflict")
    assert conditions(found)["Established"] == ("False", "NotAccepted")
    assert (await http("GET", "/apis/example.com/v1/thongs")).code == 404
    await http("DELETE", f"{DEFINITIONS}/things.example.com")

    async def served() -> bool:
        return (await http("GET", "/apis/example.com/v1/thongs")).code == 200

    await eventually(served, 5)


async def test_deleting_it_deletes_its_objects_first(things: Http, site: Site) -> None:
    for name in ("a", "b"):
        assert (await things("POST", THINGS, thing(name))).code == 201
    reply = await things("DELETE", f"{DEFINITIONS}/things.example.com")
    assert reply.json["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
    assert conditions(reply.json)["Terminating"] == ("True", "InstanceDeletionPending")

    async def is_gone() -> bool:
        return (await things("GET", f"{DEFINITIONS}/things.example.com")).code == 404

    await eventually(is_gone)
    assert site.store.count("things.example.com") == 0


async def test_an_object_with_a_finalizer_holds_its_definition(things: Http) -> None:
    held = thing("a")
    held["metadata"]["finalizers"] = ["keeper.example.com"]
    assert (await things("POST", THINGS, held)).code == 201
    await things("DELETE", f"{DEFINITIONS}/things.example.com")

    async def marked() -> bool:
        return "deletionTimestamp" in (await things("GET", f"{THINGS}/a")).json["metadata"]

    await eventually(marked)
    refused = await things("POST", THINGS, thing("b"))
    assert (refused.code, refused.json["message"]) == (
        405,
        "create not allowed while custom resource definition is terminating",
    )
    merge = "application/merge-patch+json"
    freed = {"metadata": {"finalizers": None}}
    assert (await things("PATCH", f"{THINGS}/a", freed, Content_Type=merge)).code == 200

    async def is_gone() -> bool:
        return (await things("GET", f"{DEFINITIONS}/things.example.com")).code == 404

    await eventually(is_gone, 5)


async def test_a_definition_that_serves_nothing_is_emptied_all_the_same(
    things: Http, site: Site
) -> None:
    await things("POST", THINGS, thing("a"))
    patch = [{"op": "replace", "path": "/spec/versions/0/served", "value": False}]
    await things("PATCH", f"{DEFINITIONS}/things.example.com", patch,
                 Content_Type="application/json-patch+json")  # fmt: skip
    assert (await things("GET", THINGS)).code == 404
    await things("DELETE", f"{DEFINITIONS}/things.example.com")

    async def is_empty() -> bool:
        return site.store.count("things.example.com") == 0

    await eventually(is_empty)


async def test_it_is_served_at_once_after_a_restart(things: Http, site: Site) -> None:
    await things("POST", THINGS, thing("a"))
    await site.server.stop()
    await site.store.close()
    store = await Store.open(site.folder / "state.db")
    try:
        again = ApiServer(store, schema=site.server.registry.schema)
        api = again.client("system:test", ["system:masters"])
        kind = again.registry.kinds.by_resource("example.com", "v1", "things")
        assert kind is not None
        assert (await api.get(kind, Key("default", "a")))["spec"]["color"] == "red"
    finally:
        await store.close()


async def test_a_watch_ends_when_the_schema_changes(things: Http) -> None:
    async def watch() -> str:
        return (await things("GET", f"{THINGS}?watch=true&resourceVersion=0")).text

    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        task = group.create_task(watch())
        await asyncio.sleep(0.1)
        patch = {"spec": {"versions": [version(deprecated=True)]}}
        merge = "application/merge-patch+json"
        await things("PATCH", f"{DEFINITIONS}/things.example.com", patch, Content_Type=merge)
    assert task.done()


async def test_an_update_must_name_its_revision(things: Http) -> None:
    made = (await things("GET", f"{DEFINITIONS}/things.example.com")).json
    del made["metadata"]["resourceVersion"]
    reply = await things("PUT", f"{DEFINITIONS}/things.example.com", made)
    assert reply.code == 422
    assert "metadata.resourceVersion" in reply.json["message"]


async def test_no_definition_takes_the_place_of_a_built_in_kind(http: Http, site: Site) -> None:
    taken = definition(plural="leases", kind="Lease", group="coordination.k8s.io")
    taken["metadata"] = {
        "name": "leases.coordination.k8s.io",
        "annotations": {"api-approved.kubernetes.io": "https://example.com"},
    }
    await serve(http, taken)
    assert site.server.registry.kinds.by_resource("coordination.k8s.io", "v1", "leases") == (
        kinds.LEASE
    )


@pytest.mark.parametrize("path", ["/apis/example.com/v1/things/a/b", "/apis/example.com/v2/things"])
async def test_paths_that_are_not_there_are_404(things: Http, path: str) -> None:
    assert (await things("GET", path)).code == 404
