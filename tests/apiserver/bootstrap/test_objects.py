"""What every cluster has from its first moment."""

from __future__ import annotations

import pytest

from orlop.api import kinds
from orlop.api.objects import Key
from orlop.apiserver.bootstrap.roles import CLUSTER_ROLES


async def test_namespaces_roles_and_the_apis_service_are_there(site, local) -> None:
    names = {one["metadata"]["name"] for one in (await local.list(kinds.NAMESPACE)).items}
    assert names == {"default", "kube-system", "kube-public", "kube-node-lease"}
    namespace = await local.get(kinds.NAMESPACE, Key("", "default"))
    assert namespace["status"]["phase"] == "Active"
    assert namespace["metadata"]["labels"]["kubernetes.io/metadata.name"] == "default"
    service = await local.get(kinds.SERVICE, Key("default", "kubernetes"))
    assert service["spec"]["clusterIP"] == "10.96.0.1"
    assert service["spec"]["ports"][0]["targetPort"] == site.port
    await local.get(kinds.CLUSTER_ROLE, Key("", "cluster-admin"))


async def test_a_second_start_changes_nothing(site, local) -> None:
    await local.patch(kinds.NAMESPACE, Key("", "default"), {"metadata": {"labels": {"mine": "1"}}})
    before = site.store.revision
    await site.server.prepare(site.port)
    assert site.store.revision == before


def may(role: str, verb: str, resource: str, group: str = "") -> bool:
    wanted = {"verbs": [verb], "apiGroups": [group], "resources": [resource]}
    return any(
        all(set(rule.get(key, ())) & {*values, "*"} for key, values in wanted.items())
        for rule in CLUSTER_ROLES[role].rules
    )


@pytest.mark.parametrize(
    ("verb", "resource", "group", "allowed"),
    [
        ("list", "pods", "", ["view", "edit", "admin", "cluster-admin"]),
        ("get", "pods/log", "", ["view", "edit", "admin", "cluster-admin"]),
        ("get", "deployments", "apps", ["view", "edit", "admin", "cluster-admin"]),
        ("get", "secrets", "", ["edit", "admin", "cluster-admin"]),
        ("create", "pods", "", ["edit", "admin", "cluster-admin"]),
        ("create", "pods/exec", "", ["edit", "admin", "cluster-admin"]),
        ("create", "pods/eviction", "", ["edit", "admin", "cluster-admin"]),
        ("patch", "deployments/scale", "apps", ["edit", "admin", "cluster-admin"]),
        ("create", "serviceaccounts/token", "", ["edit", "admin", "cluster-admin"]),
        ("create", "rolebindings", kinds.ROLE.group, ["admin", "cluster-admin"]),
        ("update", "resourcequotas", "", ["cluster-admin"]),
        ("create", "namespaces", "", ["cluster-admin"]),
        ("list", "nodes", "", ["cluster-admin"]),
        ("update", "deployments/status", "apps", ["cluster-admin"]),
        ("bind", "roles", kinds.ROLE.group, ["cluster-admin"]),
    ],
)
def test_who_may_what_is_as_upstream_has_it(verb, resource, group, allowed) -> None:
    roles = ("view", "edit", "admin", "cluster-admin")
    assert [role for role in roles if may(role, verb, resource, group)] == allowed


async def test_rules_that_a_role_lacks_are_added_unless_it_is_told_otherwise(site, local) -> None:
    key = Key("", "system:basic-user")
    whole = (await local.get(kinds.CLUSTER_ROLE, key))["rules"]
    mine = {"verbs": ["get"], "apiGroups": ["mine"], "resources": ["x"]}
    await local.patch(kinds.CLUSTER_ROLE, key, {"rules": [mine]})
    await site.server.prepare(site.port)
    assert (await local.get(kinds.CLUSTER_ROLE, key))["rules"] == [mine, *whole]
    note = {"annotations": {"rbac.authorization.kubernetes.io/autoupdate": "false"}}
    await local.patch(kinds.CLUSTER_ROLE, key, {"metadata": note, "rules": [mine]})
    await site.server.prepare(site.port)
    assert (await local.get(kinds.CLUSTER_ROLE, key))["rules"] == [mine]
