"""RBAC as objects say it, refusals in upstream's words."""

from __future__ import annotations

from typing import Any

import pytest

from orlop.api import kinds
from orlop.apiserver.auth.authentication import user
from orlop.apiserver.auth.rbac import Attributes, Rbac

PODS = {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]}


def role(name: str, *rules: dict[str, Any], namespace: str = "default") -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace}, "rules": list(rules)}


def binding(name: str, role_kind: str, role_name: str, *subjects: dict[str, Any],
            namespace: str = "") -> dict[str, Any]:  # fmt: skip
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    reference = {"apiGroup": kinds.ROLE.group, "kind": role_kind, "name": role_name}
    return {"metadata": metadata, "roleRef": reference, "subjects": list(subjects)}


def subject(kind: str, name: str, **more: str) -> dict[str, Any]:
    group = {} if kind == "ServiceAccount" else {"apiGroup": kinds.ROLE.group}
    return {"kind": kind, "name": name, **group, **more}


@pytest.mark.parametrize(
    ("rule", "wanted", "allowed"),
    [
        (PODS, Attributes("get", "", "pods", namespace="default", name="a"), True),
        (PODS, Attributes("delete", "", "pods", namespace="default"), False),
        (PODS, Attributes("get", "apps", "pods", namespace="default"), False),
        (PODS, Attributes("get", "", "pods", "log", namespace="default"), False),
        (PODS, Attributes("get", "", "pods", namespace="other"), False),
        ({**PODS, "resources": ["pods/log"]},
         Attributes("get", "", "pods", "log", namespace="default"), True),
        ({**PODS, "resources": ["*/log"]},
         Attributes("get", "", "pods", "log", namespace="default"), True),
        ({**PODS, "resources": ["*"]}, Attributes("get", "", "secrets", namespace="default"), True),
        ({**PODS, "verbs": ["*"]}, Attributes("delete", "", "pods", namespace="default"), True),
        ({**PODS, "resourceNames": ["a"]},
         Attributes("get", "", "pods", namespace="default", name="a"), True),
        ({**PODS, "resourceNames": ["a"]},
         Attributes("get", "", "pods", namespace="default", name="b"), False),
        ({**PODS, "resourceNames": ["a"]},
         Attributes("list", "", "pods", namespace="default"), False),
    ],
)  # fmt: skip
async def test_a_role_allows_what_its_rules_cover(site, local, rule, wanted, allowed) -> None:
    await local.create(kinds.ROLE, role("r", rule))
    bound = binding("b", "Role", "r", subject("User", "eve"), namespace="default")
    await local.create(kinds.ROLE_BINDING, bound)
    assert Rbac(site.store).allows(user("eve"), wanted) is allowed
    assert not Rbac(site.store).allows(user("adam"), wanted)


@pytest.mark.parametrize(
    ("who", "is_bound"),
    [
        (user("eve"), True),
        (user("x", ["physics"]), True),
        (user("system:serviceaccount:tools:bot"), True),
        (user("bot"), False),
        (user("x", ["eve"]), False),
    ],
)
async def test_users_groups_and_service_accounts_are_bound(site, local, who, is_bound) -> None:
    everywhere = {"metadata": {"name": "r"}, "rules": [PODS]}
    await local.create(kinds.CLUSTER_ROLE, everywhere)
    subjects = [
        subject("User", "eve"),
        subject("Group", "physics"),
        subject("ServiceAccount", "bot", namespace="tools"),
    ]
    await local.create(kinds.CLUSTER_ROLE_BINDING, binding("b", "ClusterRole", "r", *subjects))
    wanted = Attributes("list", "", "pods", namespace="anywhere")
    assert Rbac(site.store).allows(who, wanted) is is_bound


async def test_a_role_binding_to_a_cluster_role_holds_in_its_namespace(site, local) -> None:
    await local.create(kinds.CLUSTER_ROLE, {"metadata": {"name": "r"}, "rules": [PODS]})
    bound = binding("b", "ClusterRole", "r", subject("User", "eve"), namespace="default")
    await local.create(kinds.ROLE_BINDING, bound)
    rbac = Rbac(site.store)
    assert rbac.allows(user("eve"), Attributes("list", "", "pods", namespace="default"))
    assert not rbac.allows(user("eve"), Attributes("list", "", "pods"))


async def test_a_new_binding_counts_from_the_next_request_on(site, local) -> None:
    rules = [{"verbs": ["get"], "nonResourceURLs": ["/logs/*", "/exact"]}]
    await local.create(kinds.CLUSTER_ROLE, {"metadata": {"name": "r"}, "rules": rules})
    rbac = Rbac(site.store)
    assert not rbac.allows(user("eve"), Attributes("get", path="/logs/a"))
    bound = binding("b", "ClusterRole", "r", subject("User", "eve"))
    await local.create(kinds.CLUSTER_ROLE_BINDING, bound)
    assert rbac.allows(user("eve"), Attributes("get", path="/logs/a"))
    assert rbac.allows(user("eve"), Attributes("get", path="/exact"))
    assert not rbac.allows(user("eve"), Attributes("get", path="/exact/more"))


@pytest.mark.parametrize(
    ("method", "path", "message"),
    [
        ("GET", "/api/v1/namespaces/default/pods",
         'pods is forbidden: User "eve" cannot list resource "pods" in API group "" '
         'in the namespace "default"'),
        ("GET", "/api/v1/nodes",
         'nodes is forbidden: User "eve" cannot list resource "nodes" in API group "" '
         "at the cluster scope"),
        ("DELETE", "/apis/apps/v1/namespaces/x/deployments/web",
         'deployments.apps "web" is forbidden: User "eve" cannot delete resource "deployments" '
         'in API group "apps" in the namespace "x"'),
        ("GET", "/api/v1/namespaces/x/pods/a/log",
         'pods "a" is forbidden: User "eve" cannot get resource "pods/log" in API group "" '
         'in the namespace "x"'),
        ("GET", "/secret/place", 'forbidden: User "eve" cannot get path "/secret/place"'),
        ("GET", "/apis/none.example/v1/things",
         'things.none.example is forbidden: User "eve" cannot list resource "things" '
         'in API group "none.example" at the cluster scope'),
    ],
)  # fmt: skip
async def test_a_refusal_is_worded_as_upstreams(site, method, path, message) -> None:
    async with site.http("eve") as eve:
        reply = await eve(method, path)
    assert (reply.code, reply.json["reason"]) == (403, "Forbidden")
    assert reply.json["message"] == message


async def test_an_ordinary_user_may_use_discovery_and_ask_what_they_may(site) -> None:
    async with site.http("eve") as eve:
        for path in ("/api", "/apis", "/api/v1", "/apis/apps/v1"):
            assert (await eve("GET", path)).code == 200
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        question = {"resourceAttributes": {"verb": "get", "resource": "pods"}}
        reply = await eve("POST", path, {"spec": question})
    assert (reply.code, reply.json["status"]) == (201, {"allowed": False})
