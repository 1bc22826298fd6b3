"""--as, --as-group: for those who may."""

from __future__ import annotations

import pytest

from orlop.api import kinds

WHOAMI = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


async def whoami(client, **headers: str):
    reply = await client("POST", WHOAMI, {}, **headers)
    return reply.json["status"]["userInfo"] if reply.code == 201 else reply.json["message"]


async def test_an_administrator_acts_as_anyone(http) -> None:
    info = await whoami(http, Impersonate_User="eve", Impersonate_Group="physics")
    assert info == {"username": "eve", "groups": ["physics", "system:authenticated"]}
    info = await whoami(http, Impersonate_User="eve", Impersonate_Uid="7",
                        Impersonate_Extra_Team="a")  # fmt: skip
    assert info["uid"] == "7"
    assert info["extra"] == {"team": ["a"]}


async def test_a_service_account_has_its_groups(http) -> None:
    info = await whoami(http, Impersonate_User="system:serviceaccount:tools:bot")
    assert info["groups"] == [
        "system:serviceaccounts",
        "system:serviceaccounts:tools",
        "system:authenticated",
    ]


async def test_what_follows_is_authorized_as_the_other(http) -> None:
    reply = await http("GET", "/api/v1/nodes", Impersonate_User="eve")
    assert reply.code == 403
    assert 'User "eve" cannot list resource "nodes"' in reply.json["message"]


async def test_others_may_not(site) -> None:
    async with site.http("eve") as eve:
        message = await whoami(eve, Impersonate_User="adam")
    assert message == (
        'users "adam" is forbidden: User "eve" cannot impersonate resource "users" '
        'in API group "" at the cluster scope'
    )


async def test_a_rule_may_allow_one_user_and_no_group(site, local) -> None:
    rule = {"verbs": ["impersonate"], "apiGroups": [""], "resources": ["users"],
            "resourceNames": ["adam"]}  # fmt: skip
    await local.create(kinds.CLUSTER_ROLE, {"metadata": {"name": "as-adam"}, "rules": [rule]})
    subject = {"kind": "User", "name": "eve", "apiGroup": kinds.ROLE.group}
    reference = {"apiGroup": kinds.ROLE.group, "kind": "ClusterRole", "name": "as-adam"}
    await local.create(
        kinds.CLUSTER_ROLE_BINDING,
        {"metadata": {"name": "b"}, "roleRef": reference, "subjects": [subject]},
    )
    async with site.http("eve") as eve:
        assert (await whoami(eve, Impersonate_User="adam"))["username"] == "adam"
        refused = await whoami(eve, Impersonate_User="adam", Impersonate_Group="system:masters")
        assert 'cannot impersonate resource "groups"' in refused


@pytest.mark.parametrize("header", ["Impersonate_Group", "Impersonate_Uid", "Impersonate_Extra_X"])
async def test_a_group_without_a_user_is_refused(http, header) -> None:
    reply = await http("POST", WHOAMI, {}, **{header: "x"})
    assert reply.code == 400
