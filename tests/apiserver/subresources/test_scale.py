"""Scale: one shape for all workloads."""

from __future__ import annotations

import pytest

from orlop.api import kinds
from orlop.api.objects import Key

PATH = "/apis/apps/v1/namespaces/default/deployments/a"
MERGE = "application/merge-patch+json"


@pytest.fixture
async def deployment(local) -> dict:
    template = {"metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]}}  # fmt: skip
    spec = {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    return await local.create(
        kinds.DEPLOYMENT, {"metadata": {"name": "a", "namespace": "default"}, "spec": spec}
    )


async def test_a_scale_shows_replicas_and_selector(http, deployment) -> None:
    reply = await http("GET", f"{PATH}/scale")
    assert (reply.json["kind"], reply.json["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert reply.json["spec"] == {"replicas": 2}
    assert reply.json["status"] == {"replicas": 0, "selector": "a=b"}
    assert reply.json["metadata"]["uid"] == deployment["metadata"]["uid"]


async def test_a_scale_is_put(http, deployment) -> None:
    scale = (await http("GET", f"{PATH}/scale")).json
    scale["spec"]["replicas"] = 5
    assert (await http("PUT", f"{PATH}/scale", scale)).json["spec"]["replicas"] == 5
    found = (await http("GET", PATH)).json
    assert (found["spec"]["replicas"], found["metadata"]["generation"]) == (5, 2)
    conflict = await http("PUT", f"{PATH}/scale", scale)
    assert conflict.code == 409, "its resourceVersion is of before"


@pytest.mark.parametrize(
    ("media_type", "patch"),
    [
        (MERGE, {"spec": {"replicas": 7}}),
        ("application/strategic-merge-patch+json", {"spec": {"replicas": 7}}),
        (
            "application/json-patch+json",
            [{"op": "replace", "path": "/spec/replicas", "value": 7}],
        ),
    ],
)
async def test_a_scale_is_patched(http, deployment, media_type, patch) -> None:
    reply = await http("PATCH", f"{PATH}/scale", patch, Content_Type=media_type)
    assert reply.json["spec"]["replicas"] == 7
    assert (await http("GET", PATH)).json["spec"]["replicas"] == 7


async def test_to_zero_and_back(local, http, deployment) -> None:
    await http("PATCH", f"{PATH}/scale", {"spec": {"replicas": 0}}, Content_Type=MERGE)
    assert (await local.get(kinds.DEPLOYMENT, Key("default", "a")))["spec"]["replicas"] == 0
    assert (await http("GET", f"{PATH}/scale")).json["spec"] == {}


@pytest.mark.parametrize(("replicas", "code"), [(-1, 422), ("x", 400), (True, 400), (1.5, 400)])
async def test_a_number_that_is_none_is_refused(http, deployment, replicas, code) -> None:
    patch = {"spec": {"replicas": replicas}}
    assert (await http("PATCH", f"{PATH}/scale", patch, Content_Type=MERGE)).code == code


async def test_what_is_not_there_or_cannot_be_scaled_is_not_found(http, deployment, pod) -> None:
    path = "/apis/apps/v1/namespaces/default/deployments/none/scale"
    assert (await http("GET", path)).code == 404
    await http("POST", "/api/v1/namespaces/default/pods", pod("a"))
    assert (await http("GET", "/api/v1/namespaces/default/pods/a/scale")).code == 404


def owners(found: dict) -> dict:
    entries = found["metadata"]["managedFields"]
    return {
        (one["manager"], one["operation"], one.get("subresource", "")): one["fieldsV1"]
        for one in entries
    }


REPLICAS = {"f:spec": {"f:replicas": {}}}
APPLY = "application/apply-patch+yaml"


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
async def test_who_scales_owns_the_replicas(http, deployment, method: str) -> None:
    scale = (await http("GET", f"{PATH}/scale")).json
    scale["spec"]["replicas"] = 5
    headers = {"Content_Type": MERGE} if method == "PATCH" else {}
    body = {"spec": {"replicas": 5}} if method == "PATCH" else scale
    await http(method, f"{PATH}/scale?fieldManager=me", body, **headers)
    found = owners((await http("GET", PATH)).json)
    assert found["me", "Update", "scale"] == REPLICAS
    assert "f:replicas" not in found["test", "Update", ""]["f:spec"]
    await http("PATCH", PATH, {"spec": {"replicas": 6}}, Content_Type=MERGE, User_Agent="x/1")
    found = owners((await http("GET", PATH)).json)
    assert ("me", "Update", "scale") not in found
    assert found["x", "Update", ""] == REPLICAS


async def test_scaling_to_what_it_is_changes_nothing(http, deployment) -> None:
    before = (await http("GET", PATH)).json
    await http("PATCH", f"{PATH}/scale", {"spec": {"replicas": 2}}, Content_Type=MERGE)
    assert (await http("GET", PATH)).json == before


async def test_a_scale_is_applied(http, deployment) -> None:
    body = '{"apiVersion":"autoscaling/v1","kind":"Scale","spec":{"replicas":7}}'
    path = f"{PATH}/scale?fieldManager=me"
    refused = await http("PATCH", path, body, Content_Type=APPLY)
    assert refused.code == 409
    assert refused.json["details"]["causes"][0]["field"] == ".spec.replicas"
    forced = await http("PATCH", f"{path}&force=true", body, Content_Type=APPLY)
    assert (forced.code, forced.json["spec"]) == (200, {"replicas": 7})
    found = (await http("GET", PATH)).json
    assert owners(found)["me", "Apply", "scale"] == REPLICAS
    assert (await http("PATCH", path, body, Content_Type=APPLY)).code == 200
    assert (await http("GET", PATH)).json == found


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ('{"apiVersion":"apps/v1","kind":"Deployment"}', "expected: autoscaling/v1, Kind=Scale"),
        (
            '{"apiVersion":"autoscaling/v1","kind":"Scale","spec":{"size":1}}',
            ".spec.size: field not declared in schema",
        ),
    ],
)
async def test_only_a_scale_is_applied_to_a_scale(http, deployment, body, message) -> None:
    reply = await http("PATCH", f"{PATH}/scale?fieldManager=me", body, Content_Type=APPLY)
    assert reply.code == 400
    assert message in reply.json["message"]


@pytest.mark.parametrize("body", [[], {"spec": 1}, {"metadata": 1}, {"spec": {"replicas": "x"}}])
async def test_a_scale_that_is_none_is_refused(http, deployment, body) -> None:
    assert (await http("PUT", f"{PATH}/scale", body)).code == 400
