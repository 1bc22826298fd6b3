"""A pod is given its node once."""

from __future__ import annotations

import pytest

from orlop import errors
from orlop.api import kinds
from orlop.api.objects import Key, condition_of

A = Key("default", "a")


def binding(**metadata: object) -> dict[str, object]:
    return {"metadata": {"name": "a", **metadata}, "target": {"kind": "Node", "name": "n1"}}


async def test_a_binding_sets_the_node_and_says_so(api, pod) -> None:
    await api.create(kinds.POD, pod("a"))
    bound = binding(annotations={"x.dev/y": "z"})
    answer = await api.create_subresource(kinds.POD, A, "binding", bound)
    assert answer["status"] == "Success"
    found = await api.get(kinds.POD, A)
    assert found["spec"]["nodeName"] == "n1"
    assert found["metadata"]["annotations"] == {"x.dev/y": "z"}
    scheduled = condition_of(found, "PodScheduled")
    assert scheduled is not None
    assert scheduled["status"] == "True"
    assert scheduled["lastTransitionTime"]


async def test_a_second_binding_conflicts(api, pod) -> None:
    await api.create(kinds.POD, pod("a"))
    await api.create_subresource(kinds.POD, A, "binding", binding())
    with pytest.raises(errors.Conflict, match='already assigned to node "n1"'):
        await api.create_subresource(kinds.POD, A, "binding", binding())


async def test_a_binding_meant_for_another_pod_of_that_name_conflicts(api, pod) -> None:
    await api.create(kinds.POD, pod("a"))
    with pytest.raises(errors.Conflict, match="UID in precondition"):
        await api.create_subresource(kinds.POD, A, "binding", binding(uid="other"))


async def test_a_gated_pod_is_not_bound(api, pod) -> None:
    gated = pod("a")
    gated["spec"]["schedulingGates"] = [{"name": "x.dev/wait"}]
    await api.create(kinds.POD, gated)
    with pytest.raises(errors.Conflict, match="schedulingGates"):
        await api.create_subresource(kinds.POD, A, "binding", binding())


@pytest.mark.parametrize("target", [{}, {"kind": "Pod", "name": "x"}, {"kind": "Node"}])
async def test_a_binding_must_name_a_node(api, pod, target) -> None:
    await api.create(kinds.POD, pod("a"))
    with pytest.raises(errors.BadRequest, match="Node"):
        await api.create_subresource(kinds.POD, A, "binding", {"target": target})


async def test_a_binding_of_no_pod_is_not_found(api) -> None:
    with pytest.raises(errors.NotFound, match='pods "a" not found'):
        await api.create_subresource(kinds.POD, A, "binding", binding())


async def test_bindings_can_be_posted_as_a_resource_of_their_own(http, pod) -> None:
    await http("POST", "/api/v1/namespaces/default/pods", pod("a"))
    reply = await http("POST", "/api/v1/namespaces/default/bindings", binding())
    assert reply.code == 201
    found = await http("GET", "/api/v1/namespaces/default/pods/a")
    assert found.json["spec"]["nodeName"] == "n1"


@pytest.mark.parametrize("body", [{"target": 5}, {"target": {"name": "n1"}, "metadata": 5}])
async def test_what_is_no_binding_is_a_bad_request(api, pod, body) -> None:
    await api.create(kinds.POD, pod("a"))
    with pytest.raises(errors.BadRequest, match="must be a Binding"):
        await api.create_subresource(kinds.POD, A, "binding", body)
