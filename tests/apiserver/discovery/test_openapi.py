"""OpenAPI by path and form; what is in it is api.schema's to test."""

from __future__ import annotations

import pytest

PROTOBUF = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"


async def test_the_index_leads_to_a_document_per_group_version(http) -> None:
    index = (await http("GET", "/openapi/v3")).json["paths"]
    assert {"api/v1", "apis/apps/v1", "apis/batch/v1"} <= set(index)
    for path in ("api/v1", "apis/apps/v1"):
        reply = await http("GET", index[path]["serverRelativeURL"])
        assert reply.code == 200
        assert reply.json["openapi"].startswith("3.")
    operation = reply.json["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]
    parameters = {one["name"] for one in operation["patch"]["parameters"]}
    assert "fieldValidation" in parameters, "or kubectl validates by itself"


async def test_version_2_comes_as_json_or_protobuf(http) -> None:
    plain = await http("GET", "/openapi/v2")
    assert plain.json["swagger"] == "2.0"
    async with http.session.get(f"{http.url}/openapi/v2", headers={"Accept": PROTOBUF}) as reply:
        assert reply.headers["Content-Type"] == PROTOBUF.replace("@", ".")
        assert len(await reply.read()) > 100_000


@pytest.mark.parametrize("path", ["/openapi", "/openapi/v4", "/openapi/v3/apis/none/v1"])
async def test_what_is_not_there_is_not_found(http, path) -> None:
    assert (await http("GET", path)).code == 404


async def test_a_document_that_did_not_change_is_not_sent_again(http) -> None:
    first = await http("GET", "/openapi/v3")
    again = await http("GET", "/openapi/v3", If_None_Match=first.headers["ETag"])
    assert (again.code, again.text) == (304, "")
