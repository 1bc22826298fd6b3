"""A pod's plan holds its token, and says where the API server is."""

from __future__ import annotations

import base64
import json

import pytest

from orlop.api.kinds import CONFIG_MAP, POD, SERVICE_ACCOUNT
from orlop.api.objects import Key
from orlop.jwt import SigningKey
from orlop.kubelet.planning.live_plan import TokenRenewal
from orlop.wellknown import SERVICE_ACCOUNT_PATH

from .conftest import waiting


@pytest.fixture
def signing_key(authority):
    return SigningKey.from_pem(authority.service_account_key)


async def make_account(site):
    await site.api.create(SERVICE_ACCOUNT, {"metadata": {"name": "default"}}, namespace="default")


async def publish_ca(site):
    ca = {"metadata": {"name": "kube-root-ca.crt"}, "data": {"ca.crt": "CA"}}
    await site.api.create(CONFIG_MAP, ca, namespace="default")


def plan_of(site):
    return json.loads((site.folder() / "plan.json").read_text())


async def test_token_ca_and_namespace_are_in_the_plan(site, signing_key):
    await make_account(site)
    await publish_ca(site)
    uid = await site.create()
    await site.submitted()
    plan = plan_of(site)
    [volume] = plan["volumes"]
    found = {file["path"]: base64.b64decode(file["data"]).decode() for file in volume["files"]}
    assert (found["ca.crt"], found["namespace"]) == ("CA", "default")
    claims = signing_key.verify(found["token"])
    assert claims["kubernetes.io"]["pod"] == {"name": "web", "uid": uid}
    assert claims["kubernetes.io"]["node"]["name"] == "main"
    [mount] = plan["containers"][0]["mounts"]
    assert (mount["path"], mount["readOnly"]) == (SERVICE_ACCOUNT_PATH, True)


async def test_every_container_is_told_where_the_api_server_is(site):
    await site.create("web", automountServiceAccountToken=False)
    await site.submitted()
    plan = plan_of(site)
    env = dict(plan["containers"][0]["env"])
    assert env["KUBERNETES_SERVICE_HOST"] == "10.96.0.1"
    assert env["KUBERNETES_SERVICE_PORT"] == "443"
    assert plan["hostEnv"]["KUBERNETES_SERVICE_HOST"] == ["10.96.0.1", "192.0.2.1"]
    assert plan["hostEnv"]["KUBERNETES_SERVICE_PORT"] == ["443", "6443"]
    assert plan_of(site)["volumes"] == []


async def test_each_audience_has_a_token_of_its_own(site, signing_key):
    await make_account(site)
    sources = [
        {"serviceAccountToken": {"path": "a", "audience": "vault", "expirationSeconds": 900}},
        {"serviceAccountToken": {"path": "b", "audience": "other"}},
    ]
    volumes = [{"name": "tokens", "projected": {"sources": sources}}]
    await site.create(automountServiceAccountToken=False, volumes=volumes)
    await site.submitted()
    files = plan_of(site)["volumes"][0]["files"]
    claims = [signing_key.verify(base64.b64decode(file["data"]).decode()) for file in files]
    assert [one["aud"] for one in claims] == [["vault"], ["other"]]
    assert [one["exp"] - one["iat"] for one in claims] == [900, 3600]


async def test_a_pod_waits_for_its_account_and_then_starts(site):
    await publish_ca(site)
    await site.create()
    pod = await site.until(lambda pod: waiting(pod).get("reason") == "CreateContainerConfigError")
    assert 'serviceaccounts "default" not found' in waiting(pod)["message"]
    assert any(reason == "FailedMount" for _, reason, _ in await site.events())
    await make_account(site)
    await site.submitted()


async def test_the_plan_is_private(site):
    await make_account(site)
    await publish_ca(site)
    await site.create()
    await site.submitted()
    assert (site.folder() / "plan.json").stat().st_mode & 0o077 == 0
    await site.api.delete(POD, Key("default", "web"), grace=0)


async def test_a_token_is_renewed_before_it_ends_and_its_agent_told(site, signing_key):
    """With a life so short that its renewal comes within the test."""
    await site.restart(TokenRenewal(aged=0.0003, first_look=0.5))
    await make_account(site)
    await publish_ca(site)
    uid = await site.create()
    agent = await site.agent()
    agent.tell({"type": "hello", "job": agent.job, "node": "n1", "seq": 0, "revision": 0})
    first = files_in(plan_of(site)["volumes"][0])["token"]
    renewed = files_in(await agent.hear("volume-files"))["token"]
    assert renewed != first
    assert signing_key.verify(renewed)["kubernetes.io"]["pod"] == {"name": "web", "uid": uid}


def files_in(volume):
    return {file["path"]: base64.b64decode(file["data"]).decode() for file in volume["files"]}
