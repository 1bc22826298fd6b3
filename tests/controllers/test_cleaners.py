"""Leases, signing requests and bootstrap tokens whose time is over."""

from __future__ import annotations

import base64

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from orlop.api.kinds import CERTIFICATE_SIGNING_REQUEST, LEASE, NODE, SECRET
from orlop.api.objects import Key
from orlop.api.times import rfc3339, rfc3339_micro
from orlop.client.clock import ManualClock
from orlop.controllers.accounts.token_cleaner import TokenCleaner
from orlop.controllers.certificates.csr_cleaner import CsrCleaner
from orlop.controllers.gc.lease_gc import IDENTITY, LeaseGc
from tests.controllers.world import World, eventually, stays


@pytest.fixture
def clock(cluster: World) -> ManualClock:
    made = ManualClock()
    cluster.server.registry.now = made.now
    return made


async def is_there(cluster: World, kind, name: str, namespace: str) -> bool:
    return await cluster.find(kind, name, namespace) is not None


async def is_gone(cluster: World, kind, name: str, namespace: str) -> bool:
    return not await is_there(cluster, kind, name, namespace)


async def lease(cluster: World, clock: ManualClock, name: str, namespace: str, **metadata) -> None:
    spec = {"renewTime": rfc3339_micro(clock.now()), "leaseDurationSeconds": 40,
            "holderIdentity": "x"}  # fmt: skip
    body = {"metadata": {"name": name, "namespace": namespace, **metadata}, "spec": spec}
    await cluster.api.create(LEASE, body, namespace=namespace)


async def test_leases_of_nobody_go_when_they_have_run_out(cluster, clock):
    await cluster.create(NODE, {"metadata": {"name": "here"}})
    for name in ("here", "gone"):
        await lease(cluster, clock, name, "kube-node-lease")
    await lease(cluster, clock, "leader", "kube-system")
    identity = {"labels": {IDENTITY: "kube-apiserver"}}
    await lease(cluster, clock, "apiserver-old", "kube-system", **identity)
    async with cluster.running(lambda i: LeaseGc(cluster.api, i, clock=clock)) as informers:
        await informers.synced()
        await stays(lambda: is_there(cluster, LEASE, "gone", "kube-node-lease"), 0.1)
        clock.advance(41)
        await eventually(lambda: is_gone(cluster, LEASE, "gone", "kube-node-lease"))
        await eventually(lambda: is_gone(cluster, LEASE, "apiserver-old", "kube-system"))
        assert await is_there(cluster, LEASE, "here", "kube-node-lease")
        assert await is_there(cluster, LEASE, "leader", "kube-system")
        await cluster.api.delete(NODE, Key("", "here"))
        await eventually(lambda: is_gone(cluster, LEASE, "here", "kube-node-lease"))


def request() -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "eve")])
    made = x509.CertificateSigningRequestBuilder().subject_name(name).sign(key, hashes.SHA256())
    return base64.b64encode(made.public_bytes(serialization.Encoding.PEM)).decode()


async def csr(cluster: World, name: str, answer: str = "") -> None:
    spec = {"request": request(), "signerName": "kubernetes.io/kube-apiserver-client",
            "usages": ["client auth"]}  # fmt: skip
    made = await cluster.create(
        CERTIFICATE_SIGNING_REQUEST, {"metadata": {"name": name}, "spec": spec}
    )
    if answer:
        made["status"] = {"conditions": [{"type": answer, "status": "True", "reason": "r"}]}
        await cluster.api.update(CERTIFICATE_SIGNING_REQUEST, made, subresource="approval")


async def test_signing_requests_go_an_hour_after_their_answer_and_a_day_without_one(cluster, clock):
    for name, answer in (("waits", ""), ("approved", "Approved"), ("denied", "Denied")):
        await csr(cluster, name, answer)
    kind = CERTIFICATE_SIGNING_REQUEST
    async with cluster.running(lambda i: CsrCleaner(cluster.api, i, clock=clock)) as informers:
        await informers.synced()
        clock.advance(3500)
        await stays(lambda: is_there(cluster, kind, "denied", ""), 0.1)
        clock.advance(101)
        for name in ("approved", "denied"):
            await eventually(lambda name=name: is_gone(cluster, kind, name, ""))
        assert await is_there(cluster, kind, "waits", "")
        clock.advance(23 * 3600)
        await eventually(lambda: is_gone(cluster, kind, "waits", ""))


async def test_bootstrap_tokens_go_when_they_expire(cluster, clock):
    def token(name: str, kind: str, expires: float | None) -> dict:
        data = {"token-id": "abcdef", "token-secret": "0123456789abcdef"}
        if expires is not None:
            data["expiration"] = rfc3339(clock.now() + expires)
        return {"metadata": {"name": name, "namespace": "kube-system"}, "type": kind,
                "stringData": data}  # fmt: skip

    kind = "bootstrap.kubernetes.io/token"
    await cluster.create(SECRET, token("bootstrap-token-abcdef", kind, 60), "kube-system")
    await cluster.create(SECRET, token("other", "Opaque", 60), "kube-system")
    async with cluster.running(lambda i: TokenCleaner(cluster.api, i, clock=clock)) as informers:
        await informers.synced()
        name = "bootstrap-token-abcdef"
        await stays(lambda: is_there(cluster, SECRET, name, "kube-system"), 0.1)
        clock.advance(61)
        await eventually(lambda: is_gone(cluster, SECRET, name, "kube-system"))
        assert await is_there(cluster, SECRET, "other", "kube-system")
