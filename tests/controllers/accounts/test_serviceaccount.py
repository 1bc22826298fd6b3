"""Every namespace has its default account and the cluster's certificate."""

from __future__ import annotations

from orlop.api.kinds import CONFIG_MAP, NAMESPACE, SERVICE_ACCOUNT
from orlop.api.objects import Key
from orlop.controllers.accounts.serviceaccount import ServiceAccounts
from orlop.controllers.namespaces.root_ca import NAME, RootCa
from tests.controllers.world import World, eventually


def namespace(name: str) -> dict:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def accounts(cluster: World):
    return lambda informers: ServiceAccounts(cluster.api, informers)


def root_ca(cluster: World, certificate: str = "PEM"):
    return lambda informers: RootCa(cluster.api, informers, certificate)


async def test_old_and_new_namespaces_get_their_default_account(cluster):
    async with cluster.running(accounts(cluster)):
        await cluster.create(NAMESPACE, namespace("room"))
        for name in ("default", "kube-system", "room"):
            await eventually(lambda n=name: cluster.get(SERVICE_ACCOUNT, "default", n))


async def test_a_deleted_account_comes_back(cluster):
    async with cluster.running(accounts(cluster)):
        first = await eventually(lambda: cluster.get(SERVICE_ACCOUNT, "default"))
        await cluster.api.delete(SERVICE_ACCOUNT, Key("default", "default"))

        async def is_new():
            found = await cluster.get(SERVICE_ACCOUNT, "default")
            return found["metadata"]["uid"] != first["metadata"]["uid"]

        await eventually(is_new)


async def test_the_certificate_is_published_and_kept_right(cluster):
    async with cluster.running(root_ca(cluster)):
        found = await eventually(lambda: cluster.get(CONFIG_MAP, NAME))
        assert found["data"] == {"ca.crt": "PEM"}
        await cluster.patch(CONFIG_MAP, NAME, {"data": {"ca.crt": "forged", "more": "x"}})

        async def is_right():
            return (await cluster.get(CONFIG_MAP, NAME))["data"] == {"ca.crt": "PEM"}

        await eventually(is_right)
        await cluster.api.delete(CONFIG_MAP, Key("default", NAME))
        await eventually(is_right)


async def test_a_renewed_certificate_reaches_every_namespace(cluster):
    async with cluster.running(root_ca(cluster)):
        await eventually(lambda: cluster.get(CONFIG_MAP, NAME, "kube-system"))
    async with cluster.running(root_ca(cluster, "NEW")):

        async def is_renewed():
            return (await cluster.get(CONFIG_MAP, NAME, "kube-system"))["data"] == {"ca.crt": "NEW"}

        await eventually(is_renewed)
