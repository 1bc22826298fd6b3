"""Those who have a token can tell the true cluster-info."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json

from orlop.api.kinds import CONFIG_MAP, SECRET
from orlop.api.objects import Key
from orlop.controllers.accounts.bootstrap_signer import BootstrapSigner
from tests.controllers.world import World, eventually

INFO = Key("kube-public", "cluster-info")


def unpadded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


async def token(cluster: World, name: str, signs: bool) -> None:
    data = {"token-id": name, "token-secret": "0123456789abcdef"}
    data |= {"usage-bootstrap-signing": "true"} if signs else {}
    metadata = {"name": f"bootstrap-token-{name}", "namespace": "kube-system"}
    body = {"metadata": metadata, "type": "bootstrap.kubernetes.io/token", "stringData": data}
    await cluster.create(SECRET, body, "kube-system")


async def signatures(cluster: World) -> set[str]:
    data = (await cluster.api.get(CONFIG_MAP, INFO))["data"]
    return {name for name in data if name.startswith("jws-")}


async def test_each_token_that_may_signs_and_what_is_gone_signs_no_more(cluster):
    async with cluster.running(lambda informers: BootstrapSigner(cluster.api, informers)):
        await token(cluster, "abcdef", signs=True)
        await token(cluster, "fedcba", signs=False)
        metadata = {"name": INFO.name, "namespace": INFO.namespace}
        data = {"kubeconfig": "where the cluster is"}
        await cluster.create(CONFIG_MAP, {"metadata": metadata, "data": data}, INFO.namespace)

        async def is_signed() -> bool:
            return await signatures(cluster) == {"jws-kubeconfig-abcdef"}

        await eventually(is_signed)
        found = (await cluster.api.get(CONFIG_MAP, INFO))["data"]["jws-kubeconfig-abcdef"]
        header, nothing, mac = found.split(".")
        assert json.loads(unpadded(header)) == {"alg": "HS256", "kid": "abcdef"}
        assert nothing == ""
        payload = base64.urlsafe_b64encode(data["kubeconfig"].encode()).rstrip(b"=").decode()
        expected = hmac.digest(
            b"abcdef.0123456789abcdef", f"{header}.{payload}".encode(), hashlib.sha256
        )
        assert unpadded(mac) == expected

        await cluster.api.delete(SECRET, Key("kube-system", "bootstrap-token-abcdef"))

        async def is_unsigned() -> bool:
            return await signatures(cluster) == set()

        await eventually(is_unsigned)
