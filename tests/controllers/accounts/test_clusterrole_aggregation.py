"""Roles that sum up others follow them."""

from __future__ import annotations

from orlop.api.kinds import CLUSTER_ROLE
from orlop.api.objects import Key
from orlop.apiserver.bootstrap.roles import CLUSTER_ROLES
from orlop.controllers.accounts.clusterrole_aggregation import ClusterRoleAggregation

from ..world import eventually

LABEL = "rbac.authorization.k8s.io/aggregate-to-view"
PODS = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}
THINGS = {"verbs": ["get"], "apiGroups": ["example.org"], "resources": ["things"]}


def controller(cluster):
    return lambda informers: ClusterRoleAggregation(cluster.api, informers)


def role(name, *rules, **labels):
    return {"metadata": {"name": name, "labels": labels}, "rules": list(rules)}


def sums(name, *selectors, rules=()):
    rule = {"clusterRoleSelectors": [{"matchLabels": labels} for labels in selectors]}
    return {"metadata": {"name": name}, "aggregationRule": rule, "rules": list(rules)}


async def has(cluster, name, *rules):
    async def probe():
        return ((await cluster.get(CLUSTER_ROLE, name)).get("rules") or []) == list(rules)

    await eventually(probe, f"{name} has {rules}")


async def test_a_sum_has_the_rules_of_all_it_selects_each_once(cluster):
    await cluster.create(CLUSTER_ROLE, sums("sum", {"a": "b"}, {"c": "d"}))
    async with cluster.running(controller(cluster)):
        await cluster.create(CLUSTER_ROLE, role("two", THINGS, PODS, c="d"))
        await cluster.create(CLUSTER_ROLE, role("one", PODS, a="b"))
        await cluster.create(CLUSTER_ROLE, role("other", {**PODS, "verbs": ["delete"]}, a="x"))
        await has(cluster, "sum", PODS, THINGS)


async def test_a_sum_follows_changes_and_deletions(cluster):
    await cluster.create(CLUSTER_ROLE, sums("sum", {"a": "b"}, rules=[THINGS]))
    await cluster.create(CLUSTER_ROLE, role("one", PODS, a="b"))
    async with cluster.running(controller(cluster)):
        await has(cluster, "sum", PODS)
        await cluster.api.patch(CLUSTER_ROLE, Key("", "one"), {"rules": [THINGS]})
        await has(cluster, "sum", THINGS)
        await cluster.api.delete(CLUSTER_ROLE, Key("", "one"))
        await has(cluster, "sum")


async def test_what_is_labelled_for_view_reaches_edit_and_admin(cluster):
    await cluster.server.prepare()
    async with cluster.running(controller(cluster)):
        await cluster.create(CLUSTER_ROLE, role("things-viewer", THINGS, **{LABEL: "true"}))

        async def reached():
            found = [await cluster.get(CLUSTER_ROLE, n) for n in ("view", "edit", "admin")]
            return all(THINGS in one["rules"] for one in found)

        await eventually(reached)


async def test_the_roles_of_a_new_cluster_are_sums_already(cluster):
    await cluster.server.prepare()
    names = ("admin", "edit", "view")
    before = {name: await cluster.get(CLUSTER_ROLE, name) for name in names}
    async with cluster.running(controller(cluster)):
        await cluster.create(CLUSTER_ROLE, sums("last", {"x": "y"}))
        await cluster.create(CLUSTER_ROLE, role("one", PODS, x="y"))
        await has(cluster, "last", PODS)  # so the others have been looked at
    assert {name: await cluster.get(CLUSTER_ROLE, name) for name in names} == before
    assert before["view"]["rules"] == CLUSTER_ROLES["view"].rules
