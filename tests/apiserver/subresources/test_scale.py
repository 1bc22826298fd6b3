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
