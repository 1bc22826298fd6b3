"""Secrets that ask for a service account's token get one, and go with the account."""

from __future__ import annotations

import base64

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from orlop.api.kinds import SECRET, SERVICE_ACCOUNT
from orlop.api.objects import Key
from orlop.apiserver.auth.serviceaccount_tokens import Tokens
from orlop.controllers.accounts.token_secrets import ACCOUNT_NAME, ACCOUNT_UID, TYPE, TokenSecrets
from orlop.errors import Unauthorized
from orlop.jwt import SigningKey

from ..world import NAMESPACE, eventually

KEY = SigningKey(rsa.generate_private_key(public_exponent=65537, key_size=2048))
CA = "-----BEGIN CERTIFICATE-----\n"


def secret(name="s", account="robot", **annotations):
    notes = {ACCOUNT_NAME: account, **annotations}
    return {"metadata": {"name": name, "annotations": notes}, "type": TYPE}


def controller(world):
    return lambda informers: TokenSecrets(world.api, informers, KEY, CA)


def text_of(found, name):
    return base64.b64decode(found["data"][name]).decode()


async def filled(world, name="s"):
    async def probe():
        found = await world.get(SECRET, name)
        return found if (found.get("data") or {}).get("token") else False

    return await eventually(probe)


async def gone(world, name="s"):
    async def probe():
        return await world.find(SECRET, name) is None

    await eventually(probe)


@pytest.mark.parametrize("is_running", [True, False])
async def test_a_secret_gets_token_ca_and_namespace(cluster, is_running):
    account = await cluster.create(SERVICE_ACCOUNT, {"metadata": {"name": "robot"}})
    if not is_running:
        await cluster.create(SECRET, secret())
    async with cluster.running(controller(cluster)):
        if is_running:
            await cluster.create(SECRET, secret())
        found = await filled(cluster)
    assert text_of(found, "namespace") == NAMESPACE
    assert text_of(found, "ca.crt") == CA
    uid = account["metadata"]["uid"]
    assert found["metadata"]["annotations"][ACCOUNT_UID] == uid
    who, _ = Tokens(cluster.store, KEY).authenticate(text_of(found, "token"))
    assert (who.name, who.uid) == (f"system:serviceaccount:{NAMESPACE}:robot", uid)


async def test_its_token_ends_with_the_secret_or_when_that_holds_another(cluster):
    await cluster.create(SERVICE_ACCOUNT, {"metadata": {"name": "robot"}})
    await cluster.create(SECRET, secret())
    async with cluster.running(controller(cluster)):
        token = text_of(await filled(cluster), "token")
    tokens = Tokens(cluster.store, KEY)
    with pytest.raises(Unauthorized, match="for the API server alone"):
        tokens.authenticate(token, ["vault"])
    await cluster.patch(SECRET, "s", {"data": {"token": "eA=="}})
    with pytest.raises(Unauthorized, match="holds another token"):
        tokens.authenticate(token)
    await cluster.api.delete(SECRET, Key(NAMESPACE, "s"))
    with pytest.raises(Unauthorized, match="Secret is gone"):
        tokens.authenticate(token)


async def test_a_secret_goes_with_its_account(cluster):
    await cluster.create(SERVICE_ACCOUNT, {"metadata": {"name": "robot"}})
    await cluster.create(SECRET, secret())
    async with cluster.running(controller(cluster)):
        await filled(cluster)
        await cluster.api.delete(SERVICE_ACCOUNT, Key(NAMESPACE, "robot"))
        await gone(cluster)


@pytest.mark.parametrize("account", ["nobody", "robot"])
async def test_a_secret_of_no_account_or_of_another_of_its_name_does_not_stay(cluster, account):
    await cluster.create(SERVICE_ACCOUNT, {"metadata": {"name": "robot"}})
    await cluster.create(SECRET, secret(account=account, **{ACCOUNT_UID: "of-before"}))
    async with cluster.running(controller(cluster)):
        await gone(cluster)


async def test_a_token_that_was_removed_is_made_again(cluster):
    await cluster.create(SERVICE_ACCOUNT, {"metadata": {"name": "robot"}})
    await cluster.create(SECRET, secret())
    async with cluster.running(controller(cluster)):
        before = await filled(cluster)
        await cluster.patch(SECRET, "s", {"data": {"token": None, "ca.crt": "eA=="}})
        after = await filled(cluster)

        async def mended():
            return text_of(await cluster.get(SECRET, "s"), "ca.crt") == CA

        await eventually(mended)
    assert text_of(after, "token").split(".")[1] == text_of(before, "token").split(".")[1]


async def test_other_secrets_are_left_alone(cluster):
    other = {"metadata": {"name": "o", "annotations": {ACCOUNT_NAME: "nobody"}}, "type": "Opaque"}
    await cluster.create(SECRET, other)
    await cluster.create(SERVICE_ACCOUNT, {"metadata": {"name": "robot"}})
    async with cluster.running(controller(cluster)):
        await cluster.create(SECRET, secret())
        await filled(cluster)
    assert "data" not in await cluster.get(SECRET, "o")
