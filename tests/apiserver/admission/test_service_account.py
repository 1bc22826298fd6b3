"""Where tokens are issued, every pod finds its own in the usual folder, unless it wants none."""

from __future__ import annotations

import pytest

from orlop import errors
from orlop.api import kinds
from orlop.wellknown import SERVICE_ACCOUNT_PATH


async def account(site, name="default", **fields):
    made = {"metadata": {"name": name, "namespace": "default"}, **fields}
    await site.admin.create(kinds.SERVICE_ACCOUNT, made)


def mounts(container):
    return [m for m in container.get("volumeMounts", []) if m["mountPath"] == SERVICE_ACCOUNT_PATH]


async def test_all_containers_find_token_ca_and_namespace(token_site, pod) -> None:
    wanted = pod("a")
    wanted["spec"]["initContainers"] = [{"name": "first", "image": "busybox"}]
    made = await token_site.admin.create(kinds.POD, wanted)
    [volume] = made["spec"]["volumes"]
    assert volume["name"].startswith("kube-api-access-")
    assert volume["projected"]["defaultMode"] == 0o644
    token, ca, namespace = volume["projected"]["sources"]
    assert token["serviceAccountToken"] == {"path": "token", "expirationSeconds": 3607}
    assert ca["configMap"]["name"] == "kube-root-ca.crt"
    assert namespace["downwardAPI"]["items"][0]["path"] == "namespace"
    for container in [*made["spec"]["containers"], *made["spec"]["initContainers"]]:
        [mount] = mounts(container)
        assert (mount["name"], mount["readOnly"]) == (volume["name"], True)


async def test_a_mount_of_ones_own_is_kept(token_site, pod) -> None:
    wanted = pod("a")
    mine = {"name": "mine", "mountPath": SERVICE_ACCOUNT_PATH}
    wanted["spec"]["containers"][0]["volumeMounts"] = [mine]
    wanted["spec"]["volumes"] = [{"name": "mine", "emptyDir": {}}]
    made = await token_site.admin.create(kinds.POD, wanted)
    assert [volume["name"] for volume in made["spec"]["volumes"]] == ["mine"]
    assert mounts(made["spec"]["containers"][0]) == [mine]


@pytest.mark.parametrize(
    ("of_pod", "of_account", "is_mounted"),
    [
        (None, None, True),
        (False, None, False),
        (None, False, False),
        (True, False, True),
        (False, True, False),
    ],
)
async def test_the_pod_then_the_account_say_whether(
    token_site, pod, of_pod, of_account, is_mounted
) -> None:
    said = {} if of_account is None else {"automountServiceAccountToken": of_account}
    await account(token_site, **said)
    wanted = pod("a")
    if of_pod is not None:
        wanted["spec"]["automountServiceAccountToken"] = of_pod
    made = await token_site.admin.create(kinds.POD, wanted)
    assert bool(made["spec"].get("volumes")) is is_mounted


async def test_an_account_that_is_not_there_is_refused_but_for_default(token_site, pod) -> None:
    wanted = pod("a")
    wanted["spec"]["serviceAccountName"] = "robot"
    words = 'error looking up service account default/robot: serviceaccount "robot" not found'
    with pytest.raises(errors.Forbidden, match=words):
        await token_site.admin.create(kinds.POD, wanted)
    await token_site.admin.create(kinds.POD, pod("b"))


async def test_the_old_name_of_the_field_is_understood(token_site, pod) -> None:
    await account(token_site, "robot")
    wanted = pod("a")
    wanted["spec"]["serviceAccount"] = "robot"
    made = await token_site.admin.create(kinds.POD, wanted)
    assert made["spec"]["serviceAccountName"] == made["spec"]["serviceAccount"] == "robot"


async def test_the_accounts_pull_secrets_are_the_pods_where_it_has_none(token_site, pod) -> None:
    await account(token_site, imagePullSecrets=[{"name": "registry"}])
    made = await token_site.admin.create(kinds.POD, pod("a"))
    assert made["spec"]["imagePullSecrets"] == [{"name": "registry"}]
    wanted = pod("b")
    wanted["spec"]["imagePullSecrets"] = [{"name": "own"}]
    made = await token_site.admin.create(kinds.POD, wanted)
    assert made["spec"]["imagePullSecrets"] == [{"name": "own"}]


async def test_a_copy_of_a_pod_keeps_the_volume_it_came_with(token_site, pod) -> None:
    made = await token_site.admin.create(kinds.POD, pod("a"))
    copy = pod("b")
    copy["spec"]["volumes"] = made["spec"]["volumes"]
    made_copy = await token_site.admin.create(kinds.POD, copy)
    assert made_copy["spec"]["volumes"] == made["spec"]["volumes"]
    assert mounts(made_copy["spec"]["containers"][0])
