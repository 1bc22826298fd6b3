"""Nobody gives away rights that they do not have themselves."""

from __future__ import annotations

import itertools
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orlop.api import kinds
from orlop.apiserver.admission.rights.rbac_escalation import Held, path_covers
from tests.apiserver.auth.test_authorization import binding, role, subject

Obj = dict[str, Any]
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ROLES = f"{RBAC}/namespaces/default/roles"
BINDINGS = f"{RBAC}/namespaces/default/rolebindings"
READ_PODS = {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]}
MANAGE = {"verbs": ["*"], "apiGroups": [kinds.ROLE.group], "resources": ["roles", "rolebindings"]}
MANAGE_ONLY = {**MANAGE, "verbs": ["create", "update", "patch", "get"]}


async def give(local, *rules, name="eves") -> None:
    """Let eve do what the rules say, in the namespace default."""
    await local.create(kinds.ROLE, role(name, *rules))
    bound = binding(name, "Role", name, subject("User", "eve"), namespace="default")
    await local.create(kinds.ROLE_BINDING, bound)


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        (READ_PODS, 201),
        ({**READ_PODS, "verbs": ["get"]}, 201),
        ({**READ_PODS, "resourceNames": ["a"]}, 201),
        ({**READ_PODS, "verbs": ["delete"]}, 403),
        ({**READ_PODS, "verbs": ["*"]}, 403),
        ({**READ_PODS, "resources": ["pods/log"]}, 403),
        ({**READ_PODS, "resources": ["*"]}, 403),
        ({**READ_PODS, "apiGroups": ["", "apps"]}, 403),
        ({"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]}, 403),
        ({"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"],
          "resourceNames": ["mine"]}, 201),
        ({"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"],
          "resourceNames": ["mine", "yours"]}, 403),
        ({"verbs": ["patch"], "apiGroups": ["apps"], "resources": ["deployments/scale"]}, 201),
    ],
)  # fmt: skip
async def test_a_role_may_hold_what_its_maker_holds(site, local, rule, code) -> None:
    mine = {"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]}
    scale = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*/scale"]}
    await give(local, READ_PODS, MANAGE_ONLY, {**mine, "resourceNames": ["mine"]}, scale)
    async with site.http("eve") as eve:
        assert (await eve("POST", ROLES, role("new", rule))).code == code


async def test_the_refusal_says_what_is_lacking(site, local) -> None:
    await give(local, MANAGE_ONLY)
    async with site.http("eve", ("physics",)) as eve:
        reply = await eve("POST", ROLES, role("new", READ_PODS))
    assert reply.json["message"] == (
        'roles.rbac.authorization.k8s.io "new" is forbidden: user "eve" '
        '(groups=["physics" "system:authenticated"]) is attempting to grant RBAC permissions not '
        'currently held:\n{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}'
    )


async def test_a_role_is_not_widened_by_an_update_either(site, local) -> None:
    await give(local, MANAGE_ONLY)
    await local.create(kinds.ROLE, role("theirs", READ_PODS))
    async with site.http("eve") as eve:
        path = f"{ROLES}/theirs"
        patch = {"Content_Type": "application/merge-patch+json"}
        wider = {"rules": [{**READ_PODS, "verbs": ["delete"]}]}
        assert (await eve("PATCH", path, wider, **patch)).code == 403
        assert (await eve("PATCH", path, {"metadata": {"labels": {"a": "b"}}}, **patch)).code == 200
        assert (await eve("PATCH", path, {"rules": []}, **patch)).code == 200


async def test_who_may_escalate_or_bind_may(site, local) -> None:
    await give(local, MANAGE)
    async with site.http("eve") as eve:
        assert (await eve("POST", ROLES, role("new", READ_PODS))).code == 201
        bound = binding("b", "Role", "new", subject("User", "adam"), namespace="default")
        assert (await eve("POST", BINDINGS, bound)).code == 201
        # The right to bind roles is none to bind cluster roles.
        bound = binding("c", "ClusterRole", "view", subject("User", "adam"), namespace="default")
        assert (await eve("POST", BINDINGS, bound)).code == 403


async def test_a_binding_needs_all_that_the_role_holds(site, local) -> None:
    await give(local, MANAGE_ONLY, READ_PODS)
    await local.create(kinds.ROLE, role("pods", READ_PODS))
    secrets = {"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]}
    await local.create(kinds.ROLE, role("secrets", secrets))
    async with site.http("eve") as eve:
        for name, code in (("pods", 201), ("secrets", 403), ("none", 404)):
            bound = binding(name, "Role", name, subject("User", "adam"), namespace="default")
            assert (await eve("POST", BINDINGS, bound)).code == code


async def test_the_right_to_bind_may_be_for_one_role_alone(site, local) -> None:
    one = {"verbs": ["bind"], "apiGroups": [kinds.ROLE.group], "resources": ["clusterroles"]}
    await give(local, MANAGE_ONLY, {**one, "resourceNames": ["view"]})
    async with site.http("eve") as eve:
        for name, code in (("view", 201), ("edit", 403)):
            bound = binding(name, "ClusterRole", name, subject("User", "x"), namespace="default")
            assert (await eve("POST", BINDINGS, bound)).code == code


async def test_a_role_that_sums_up_others_is_for_who_holds_everything(site, local) -> None:
    rule = {"verbs": ["create"], "apiGroups": [kinds.ROLE.group], "resources": ["clusterroles"]}
    await local.create(kinds.CLUSTER_ROLE, {"metadata": {"name": "r"}, "rules": [rule]})
    await local.create(
        kinds.CLUSTER_ROLE_BINDING, binding("r", "ClusterRole", "r", subject("User", "eve"))
    )
    sums = {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}
    async with site.http("eve") as eve:
        path = f"{RBAC}/clusterroles"
        assert (await eve("POST", path, {"metadata": {"name": "plain"}})).code == 201
        made = {"metadata": {"name": "sum"}, "aggregationRule": sums}
        assert (await eve("POST", path, made)).code == 403
    async with site.http() as admin:
        assert (await admin("POST", path, made)).code == 201


async def test_an_administrator_of_a_namespace_hands_on_what_they_are(site, local) -> None:
    bound = binding("a", "ClusterRole", "admin", subject("User", "eve"), namespace="default")
    await local.create(kinds.ROLE_BINDING, bound)
    async with site.http("eve") as eve:
        for name, code in (("edit", 201), ("admin", 201), ("cluster-admin", 403)):
            bound = binding(name, "ClusterRole", name, subject("User", "x"), namespace="default")
            assert (await eve("POST", BINDINGS, bound)).code == code


_WORDS = st.lists(st.sampled_from(["*", "a", "b", "a/s", "*/s"]), max_size=3)
_RULES = st.fixed_dictionaries(
    {"verbs": _WORDS, "apiGroups": _WORDS, "resources": _WORDS},
    optional={
        "resourceNames": _WORDS,
        "nonResourceURLs": st.lists(st.sampled_from(["*", "/a", "/a*", "/b"])),
    },
)


def _covers(held: Obj, verb: str, group: str, resource: str, name: str) -> bool:
    _, slash, sub = resource.partition("/")
    names = held.get("resourceNames") or []
    return bool(
        {"*", verb} & set(held["verbs"])
        and {"*", group} & set(held["apiGroups"])
        and {"*", resource, f"*/{sub}" if slash else "*"} & set(held["resources"])
        and (not names or name in names)
    )


@given(st.lists(_RULES, max_size=4), _RULES)
def test_a_rule_is_held_where_each_thing_that_it_names_is(held: list[Obj], rule: Obj) -> None:
    things = itertools.product(
        rule["verbs"], rule["apiGroups"], rule["resources"], rule.get("resourceNames") or [""]
    )
    paths = itertools.product(rule["verbs"], rule.get("nonResourceURLs") or [])
    expected = all(any(_covers(one, *thing) for one in held) for thing in things) and all(
        any(
            {"*", verb} & set(one["verbs"])
            and any(path_covers(own, path) for own in one.get("nonResourceURLs") or [])
            for one in held
        )
        for verb, path in paths
    )
    assert Held(held).covers(rule) is expected


async def test_a_role_of_millions_of_combinations_holds_nobody_up(site, local) -> None:
    named = [{"verbs": [f"v{n}"], "apiGroups": ["*"], "resources": ["*"]} for n in range(70)]
    groups = [{"verbs": ["*"], "apiGroups": [f"g{n}"], "resources": ["*"]} for n in range(70)]
    resources = [{"verbs": ["*"], "apiGroups": ["*"], "resources": [f"r{n}"]} for n in range(70)]
    await give(local, READ_PODS, MANAGE_ONLY)
    await give(local, *named, *groups, *resources, name="many")
    long = {"verbs": ["get"] * 800, "apiGroups": [""] * 800, "resources": ["pods"] * 10}
    other = {"verbs": [f"x{n}" for n in range(2000)], "apiGroups": [f"y{n}" for n in range(2000)],
             "resources": [f"z{n}" for n in range(2000)]}  # fmt: skip
    each = {"verbs": [f"v{n}" for n in range(70)], "apiGroups": [f"g{n}" for n in range(70)],
            "resources": [f"r{n}" for n in range(70)]}  # fmt: skip
    async with site.http("eve") as eve:
        started = time.process_time()
        assert (await eve("POST", ROLES, role("long", long))).code == 201
        assert (await eve("POST", ROLES, role("other", other))).code == 403
        refused = await eve("POST", ROLES, role("each", each))
        assert time.process_time() - started < 4  # some tenths of a second, as it is now
    assert refused.code == 403
    assert "split them into several roles" in refused.json["message"]
