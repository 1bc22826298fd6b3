"""Kubelets get their certificates by themselves, where RBAC lets them."""

from __future__ import annotations

import base64

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from orlop import pki
from orlop.api.kinds import CERTIFICATE_SIGNING_REQUEST, CLUSTER_ROLE_BINDING
from orlop.api.objects import Key, condition_of
from orlop.controllers.certificates.csr_approval import CsrApproval
from orlop.controllers.certificates.csr_signers import KUBELET_CLIENT, KUBELET_SERVING, refusal
from orlop.controllers.certificates.csr_signing import CsrSigning
from tests.controllers.world import World, eventually, stays

ROLE = "system:certificates.k8s.io:certificatesigningrequests:"
USAGES = ["digital signature", "client auth"]


def pem(name: str, group: str = "system:nodes", *alternatives: x509.GeneralName) -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, group),
            x509.NameAttribute(NameOID.COMMON_NAME, name),
        ]
    )
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    if alternatives:
        names = x509.SubjectAlternativeName(alternatives)
        builder = builder.add_extension(names, critical=False)
    made = builder.sign(key, hashes.SHA256())
    return base64.b64encode(made.public_bytes(serialization.Encoding.PEM)).decode()


def spec(request: str, signer: str = KUBELET_CLIENT, usages: list[str] | None = None) -> dict:
    return {"request": request, "signerName": signer, "usages": usages or USAGES}


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (spec(pem("system:node:a")), ""),
        (spec(pem("a")), "common name"),
        (spec(pem("system:node:a", "system:masters")), "organization"),
        (spec(pem("system:node:a", "system:nodes", x509.DNSName("a"))), "not allowed"),
        (spec(pem("system:node:a"), usages=["server auth"]), '"client auth" is required'),
        (spec(pem("system:node:a"), KUBELET_SERVING, ["server auth"]), "is required"),
        (
            spec(pem("system:node:a", "system:nodes", x509.DNSName("a")), KUBELET_SERVING,
                 ["server auth"]),
            "",
        ),
        (
            spec(pem("system:node:a", "system:nodes", x509.RFC822Name("a@b.c")), KUBELET_SERVING,
                 ["server auth"]),
            "only DNS and IP",
        ),
    ],
)  # fmt: skip
def test_what_kubelets_may_ask_for(made, why) -> None:
    said = refusal(made)
    assert why in said if why else said == ""


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return pki.ensure(tmp_path_factory.mktemp("pki"), ["localhost"])


async def bind(cluster: World, role: str, user: str) -> None:
    subject = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}
    reference = {"kind": "ClusterRole", "apiGroup": "rbac.authorization.k8s.io",
                 "name": ROLE + role}  # fmt: skip
    body = {"metadata": {"name": f"{role}-{user.replace(':', '-')}"}, "roleRef": reference,
            "subjects": [subject]}  # fmt: skip
    await cluster.create(CLUSTER_ROLE_BINDING, body)


@pytest.mark.parametrize(
    ("role", "asker", "approved"),
    [
        ("selfnodeclient", "system:node:a", True),
        ("nodeclient", "system:bootstrap:abcdef", True),
        ("selfnodeclient", "system:bootstrap:abcdef", False),
        ("", "system:node:a", False),
    ],
)
async def test_rbac_decides_who_gets_one(cluster, authority, role, asker, approved):
    if role:
        await bind(cluster, role, asker)
    node = cluster.server.client(asker, [])
    async with cluster.running(
        lambda informers: CsrApproval(cluster.api, informers),
        lambda informers: CsrSigning(cluster.api, informers, authority.sign_request),
    ):
        body = {"metadata": {"name": "c"}, "spec": spec(pem("system:node:a"))}
        await node.create(CERTIFICATE_SIGNING_REQUEST, body)

        async def is_signed() -> bool:
            found = await cluster.api.get(CERTIFICATE_SIGNING_REQUEST, Key("", "c"))
            return bool((found.get("status") or {}).get("certificate"))

        async def is_not() -> bool:
            found = await cluster.api.get(CERTIFICATE_SIGNING_REQUEST, Key("", "c"))
            return condition_of(found, "Approved") is None

        if approved:
            await eventually(is_signed)
        else:
            await stays(is_not, 0.3)


async def test_a_serving_certificate_has_the_names_that_were_approved(cluster, authority):
    request = pem("system:node:a", "system:nodes", x509.DNSName("a.cluster"))
    body = {"metadata": {"name": "c"}, "spec": spec(request, KUBELET_SERVING, ["server auth"])}
    made = await cluster.create(CERTIFICATE_SIGNING_REQUEST, body)
    made["status"] = {"conditions": [{"type": "Approved", "status": "True", "reason": "r"}]}
    await cluster.api.update(CERTIFICATE_SIGNING_REQUEST, made, subresource="approval")
    async with cluster.running(
        lambda informers: CsrSigning(cluster.api, informers, authority.sign_request)
    ):

        async def certificate() -> str:
            found = await cluster.get(CERTIFICATE_SIGNING_REQUEST, "c")
            return found["status"]["certificate"]

        text = base64.b64decode(await eventually(certificate))
    found = x509.load_pem_x509_certificate(text)
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["a.cluster"]
    usage = found.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [x509.oid.ExtendedKeyUsageOID.SERVER_AUTH]
