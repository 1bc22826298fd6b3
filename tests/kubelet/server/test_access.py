"""Tokens open the kubelet's pages of numbers to whom the API server lets, and nothing else."""

from __future__ import annotations

import pytest

from orlop.api.kinds import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, SERVICE_ACCOUNT
from orlop.api.objects import Key
from orlop.jwt import SigningKey

from .test_server import nobody

__all__ = ["nobody"]


@pytest.fixture
def signing_key(authority):
    return SigningKey.from_pem(authority.service_account_key)


async def a_token(site, name):
    """Of a service account that is made here."""
    account = {"metadata": {"name": name}}
    await site.api.create(SERVICE_ACCOUNT, account, namespace="default")
    key = Key("default", name)
    made = await site.api.create_subresource(SERVICE_ACCOUNT, key, "token", {"spec": {}})
    return made["status"]["token"]


async def grant(site, name, *resources):
    rule = {"apiGroups": [""], "resources": list(resources), "verbs": ["get"]}
    await site.api.create(CLUSTER_ROLE, {"metadata": {"name": name}, "rules": [rule]})
    subject = {"kind": "ServiceAccount", "name": name, "namespace": "default"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    binding = {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]}
    await site.api.create(CLUSTER_ROLE_BINDING, binding)


async def asked_with(nobody, token, path):
    headers = {"Authorization": f"Bearer {token}"}
    url = nobody.url + path
    async with nobody.session.get(
        url, headers=headers, server_hostname="orlop-kubelet"
    ) as response:
        return response.status, await response.text()


async def test_whom_the_api_server_lets_reads_with_a_token(site, nobody):
    token = await a_token(site, "prometheus")
    code, words = await asked_with(nobody, token, "/metrics/resource")
    assert code == 403
    assert words == (
        "Forbidden (user=system:serviceaccount:default:prometheus, verb=get, resource=nodes, "
        "subresource=metrics)"
    )
    await grant(site, "prometheus", "nodes/metrics")
    for path in ("/metrics/resource", "/metrics/cadvisor", "/metrics"):
        assert (await asked_with(nobody, token, path))[0] == 200
    assert (await asked_with(nobody, token, "/stats/summary"))[0] == 403
    assert (await asked_with(nobody, "forged", "/metrics"))[0] == 401


async def test_a_token_opens_nothing_but_numbers(site, nobody):
    token = await a_token(site, "curious")
    await grant(site, "curious", "nodes/metrics", "nodes/stats", "nodes/proxy")
    assert (await asked_with(nobody, token, "/containerLogs/default/web/main"))[0] == 401
