"""kubectl auth can-i and its relatives."""

from __future__ import annotations

import pytest

AUTHORIZATION = "/apis/authorization.k8s.io/v1"


@pytest.mark.parametrize(
    ("spec", "allowed"),
    [
        ({"resourceAttributes": {"verb": "delete", "resource": "nodes"}}, True),
        ({"nonResourceAttributes": {"verb": "get", "path": "/metrics"}}, True),
    ],
)
async def test_an_administrator_may_do_anything(http, spec, allowed) -> None:
    reply = await http("POST", f"{AUTHORIZATION}/selfsubjectaccessreviews", {"spec": spec})
    assert reply.code == 201
    assert reply.json["status"]["allowed"] is allowed
    assert reply.json["spec"] == spec


async def test_an_administrator_asks_for_others(http) -> None:
    spec = {"user": "eve", "resourceAttributes": {"verb": "get", "resource": "pods"}}
    reply = await http("POST", f"{AUTHORIZATION}/subjectaccessreviews", {"spec": spec})
    assert reply.json["status"]["allowed"] is False
    spec = {"groups": ["system:masters"], "resourceAttributes": spec["resourceAttributes"]}
    reply = await http("POST", f"{AUTHORIZATION}/subjectaccessreviews", {"spec": spec})
    assert reply.json["status"]["allowed"] is True


async def test_a_local_review_is_about_its_own_namespace(http) -> None:
    path = f"{AUTHORIZATION}/namespaces/default/localsubjectaccessreviews"
    wanted = {"verb": "get", "resource": "pods", "namespace": "default"}
    reply = await http("POST", path, {"spec": {"user": "eve", "resourceAttributes": wanted}})
    assert (reply.code, reply.json["status"]["allowed"]) == (201, False)
    wanted = {**wanted, "namespace": "other"}
    reply = await http("POST", path, {"spec": {"user": "eve", "resourceAttributes": wanted}})
    assert reply.code == 400


async def test_the_rules_of_a_user_are_listed(site, http) -> None:
    path = f"{AUTHORIZATION}/selfsubjectrulesreviews"
    reply = await http("POST", path, {"spec": {"namespace": "default"}})
    everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
    assert everything in reply.json["status"]["resourceRules"]
    async with site.http("eve") as eve:
        reply = await eve("POST", path, {"spec": {"namespace": "default"}})
    assert everything not in reply.json["status"]["resourceRules"]
    assert reply.json["status"]["resourceRules"], "every user may ask about themselves"


@pytest.mark.parametrize("spec", [{}, {"resourceAttributes": {}, "nonResourceAttributes": {}}])
async def test_a_question_about_nothing_is_refused(http, spec) -> None:
    reply = await http("POST", f"{AUTHORIZATION}/selfsubjectaccessreviews", {"spec": spec})
    assert reply.code == 400


async def test_a_review_whose_spec_is_none_is_a_bad_request(http) -> None:
    reply = await http("POST", f"{AUTHORIZATION}/selfsubjectaccessreviews", {"spec": 5})
    assert reply.code == 400
