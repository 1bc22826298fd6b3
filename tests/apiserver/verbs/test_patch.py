"""patch, in three dialects."""

from __future__ import annotations

import asyncio

import pytest

from orlop import errors
from orlop.api import kinds
from orlop.api.objects import Key

A = Key("default", "a")
PATH = "/api/v1/namespaces/default/pods/a"
STRATEGIC = "application/strategic-merge-patch+json"


async def test_a_merge_patch_sets_and_removes(api, config_map) -> None:
    await api.create(kinds.CONFIG_MAP, config_map("a", {"x": "1", "y": "2"}))
    after = await api.patch(kinds.CONFIG_MAP, A, {"data": {"x": None, "z": "3"}})
    assert after["data"] == {"y": "2", "z": "3"}


async def test_a_json_patch_is_a_list_of_operations(api, config_map) -> None:
    await api.create(kinds.CONFIG_MAP, config_map("a", {"x": "1"}))
    operations = [
        {"op": "test", "path": "/data/x", "value": "1"},
        {"op": "add", "path": "/data/y", "value": "2"},
        {"op": "remove", "path": "/data/x"},
    ]
    after = await api.patch(kinds.CONFIG_MAP, A, operations, patch_type="json")
    assert after["data"] == {"y": "2"}
    with pytest.raises(errors.Invalid):
        await api.patch(kinds.CONFIG_MAP, A, operations, patch_type="json")


async def test_a_strategic_patch_merges_lists_by_their_key(api, pod) -> None:
    sent = pod("a")
    sent["spec"]["containers"].append({"name": "side", "image": "old"})
    await api.create(kinds.POD, sent)
    patch = {"spec": {"containers": [{"name": "side", "image": "new"}]}}
    after = await api.patch(kinds.POD, A, patch, patch_type="strategic")
    images = {one["name"]: one["image"] for one in after["spec"]["containers"]}
    assert images == {"main": "busybox", "side": "new"}


async def test_a_status_is_patched_at_its_own_path(api, pod) -> None:
    await api.create(kinds.POD, pod("a"))
    condition = {"type": "Ready", "status": "True"}
    for kind in ("one", "two"):
        patch = {"status": {"conditions": [{**condition, "type": kind}]}, "spec": {"nodeName": "n"}}
        after = await api.patch(kinds.POD, A, patch, patch_type="strategic", subresource="status")
    assert {one["type"] for one in after["status"]["conditions"]} == {"one", "two"}
    assert "nodeName" not in after["spec"]


async def test_a_patch_that_names_an_old_revision_conflicts(api, config_map) -> None:
    made = await api.create(kinds.CONFIG_MAP, config_map("a"))
    old = made["metadata"]["resourceVersion"]
    await api.patch(kinds.CONFIG_MAP, A, {"data": {"x": "1"}})
    with pytest.raises(errors.Conflict, match="has been modified"):
        await api.patch(
            kinds.CONFIG_MAP, A, {"metadata": {"resourceVersion": old}, "data": {"x": "2"}}
        )


async def test_many_patches_at_once_all_count(api, config_map) -> None:
    await api.create(kinds.CONFIG_MAP, config_map("a"))
    patches = [api.patch(kinds.CONFIG_MAP, A, {"data": {f"k{n}": "x"}}) for n in range(100)]
    await asyncio.gather(*patches)
    assert len((await api.get(kinds.CONFIG_MAP, A))["data"]) == 101


async def test_a_patch_that_changes_nothing_keeps_the_revision(api, config_map) -> None:
    made = await api.create(kinds.CONFIG_MAP, config_map("a", {"x": "1"}))
    assert await api.patch(kinds.CONFIG_MAP, A, {"data": {"x": "1"}}) == made


async def test_a_patch_of_what_is_not_there_is_not_found(api) -> None:
    with pytest.raises(errors.NotFound):
        await api.patch(kinds.CONFIG_MAP, A, {"data": {}})


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        ({"metadata": {"name": "b"}}, "does not match the name on the URL"),
        ({"metadata": {"namespace": "b"}}, "does not match the namespace"),
        ({"kind": "Node"}, "Node"),
        ([], "object"),
    ],
)
async def test_a_patch_cannot_make_it_another_object(http, pod, patch, message) -> None:
    await http("POST", "/api/v1/namespaces/default/pods", pod("a"))
    reply = await http("PATCH", PATH, patch, Content_Type="application/merge-patch+json")
    assert reply.code == 400
    assert message in reply.json["message"]


async def test_unknown_dialects_are_named_what_is_known(http, pod) -> None:
    await http("POST", "/api/v1/namespaces/default/pods", pod("a"))
    reply = await http("PATCH", PATH, {}, Content_Type="application/json")
    assert reply.code == 415
    assert STRATEGIC in reply.json["message"]


@pytest.mark.parametrize("encoding", ["json", "cbor"])
async def test_an_apply_patch_is_yaml_alone(http, pod, encoding: str) -> None:
    await http("POST", "/api/v1/namespaces/default/pods", pod("a"))
    media_type = f"application/apply-patch+{encoding}"
    reply = await http("PATCH", f"{PATH}?fieldManager=me", "{}", Content_Type=media_type)
    assert (reply.code, reply.json["reason"]) == (415, "UnsupportedMediaType")
    assert "application/apply-patch+yaml" in reply.json["message"]


async def test_unknown_fields_of_a_patch_are_warned_of(http, pod) -> None:
    await http("POST", "/api/v1/namespaces/default/pods", pod("a"))
    patch = {"spec": {"colour": "red"}, "metadata": {"labels": {"x": "y"}}}
    reply = await http("PATCH", PATH, patch, Content_Type=STRATEGIC)
    assert reply.code == 200
    assert reply.headers["Warning"] == '299 - "unknown field \\"spec.colour\\""'
