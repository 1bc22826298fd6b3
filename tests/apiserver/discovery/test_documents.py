"""Discovery in both forms, with the details that kubectl trips over."""

from __future__ import annotations

import pytest

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


async def test_the_groups_are_listed_with_their_versions(http) -> None:
    reply = await http("GET", "/apis")
    groups = {group["name"]: group for group in reply.json["groups"]}
    assert {"apps", "batch", "rbac.authorization.k8s.io", "coordination.k8s.io"} <= set(groups)
    assert groups["apps"]["preferredVersion"] == {"groupVersion": "apps/v1", "version": "v1"}
    versions = [version["version"] for version in groups["autoscaling"]["versions"]]
    assert versions == ["v2", "v1"]
    one = await http("GET", "/apis/apps")
    assert one.json == {"kind": "APIGroup", "apiVersion": "v1", **groups["apps"]}


async def test_the_resources_of_a_version_have_names_verbs_and_subresources(http) -> None:
    reply = await http("GET", "/api/v1")
    resources = {resource["name"]: resource for resource in reply.json["resources"]}
    pods = resources["pods"]
    assert (pods["kind"], pods["singularName"], pods["namespaced"]) == ("Pod", "pod", True)
    assert pods["shortNames"] == ["po"]
    assert "all" in pods["categories"]
    assert set(pods["verbs"]) >= {"get", "list", "watch", "create", "deletecollection"}
    assert resources["pods/eviction"]["group"] == "policy"
    assert resources["pods/log"]["verbs"] == ["get"]
    assert resources["pods/exec"]["verbs"] == ["create", "get"]


async def test_the_core_group_has_its_own_root(http) -> None:
    reply = await http("GET", "/api")
    assert reply.json["kind"] == "APIVersions"
    assert reply.json["versions"] == ["v1"]


@pytest.mark.parametrize("path", ["/apis/none", "/apis/apps/v9", "/api/v2", "/apis/apps/v1/"])
async def test_unknown_groups_are_not_found_and_slashes_do_not_matter(http, path) -> None:
    reply = await http("GET", path)
    assert reply.code == (200 if path.endswith("/") else 404)


@pytest.mark.parametrize("path", ["/api", "/apis"])
async def test_the_aggregated_form_has_empty_groups_where_they_are_the_enclosing_ones(
    http, path
) -> None:
    reply = await http("GET", path, Accept=f"{AGGREGATED},application/json")
    assert reply.headers["Content-Type"] == AGGREGATED
    assert reply.json["kind"] == "APIGroupDiscoveryList"
    resources = [
        resource
        for group in reply.json["items"]
        for version in group["versions"]
        for resource in version["resources"]
    ]
    assert resources
    assert all(not resource["responseKind"]["group"] for resource in resources)
    scales = [
        subresource["responseKind"]
        for resource in resources
        for subresource in resource.get("subresources", ())
        if subresource["subresource"] == "scale"
    ]
    assert all(scale["group"] == "autoscaling" for scale in scales)


async def test_both_forms_list_the_same_resources(http) -> None:
    aggregated = (await http("GET", "/apis", Accept=AGGREGATED)).json
    for group in aggregated["items"]:
        name = group["metadata"]["name"]
        for version in group["versions"]:
            legacy = (await http("GET", f"/apis/{name}/{version['version']}")).json
            old = {one["name"] for one in legacy["resources"] if "/" not in one["name"]}
            assert {one["resource"] for one in version["resources"]} == old


async def test_a_client_that_has_it_already_is_told_so_without_a_content_type(http) -> None:
    first = await http("GET", "/apis", Accept=AGGREGATED)
    again = await http("GET", "/apis", Accept=AGGREGATED, If_None_Match=first.headers["ETag"])
    assert again.code == 304
    assert "Content-Type" not in again.headers
    assert again.text == ""
    plain = await http("GET", "/apis", If_None_Match=first.headers["ETag"])
    assert plain.code == 200, "the other form has another tag"


async def test_the_version_is_that_of_the_schema(http) -> None:
    reply = await http("GET", "/version")
    assert reply.json["gitVersion"].endswith("+orlop")
    major, minor = reply.json["major"], reply.json["minor"]
    assert reply.json["gitVersion"].startswith(f"v{major}.{minor}.")
