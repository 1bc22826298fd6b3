"""Certificates that are asked for: by whom, approved by whom, and what may not be had."""

from __future__ import annotations

import base64

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from orlop.api import kinds
from tests.apiserver.auth.test_authorization import binding, subject
from tools.devroot import PROJECT

PATH = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
SIGNER = "kubernetes.io/kube-apiserver-client"
KEY = ec.generate_private_key(ec.SECP256R1())
GROUP = "certificates.k8s.io"


def pem(name: str = "eve", *groups: str) -> str:
    names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    names.append(x509.NameAttribute(NameOID.COMMON_NAME, name))
    request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(names))
    signed = request.sign(KEY, hashes.SHA256()).public_bytes(Encoding.PEM)
    return base64.b64encode(signed).decode()


def csr(name: str = "c", request: str = "", **spec) -> dict:
    usages = ["client auth", "digital signature"]
    fields = {"request": request or pem(), "signerName": SIGNER, "usages": usages, **spec}
    return {"metadata": {"name": name}, "spec": fields}


def condition(kind: str, **more: str) -> dict:
    return {"type": kind, "status": "True", "reason": "Test", **more}


async def let(local, name: str, user: str, *rules: dict) -> None:
    await local.create(kinds.CLUSTER_ROLE, {"metadata": {"name": name}, "rules": list(rules)})
    bound = binding(name, "ClusterRole", name, subject("User", user))
    await local.create(kinds.CLUSTER_ROLE_BINDING, bound)


def rule(verbs: str, resource: str, *names: str) -> dict:
    made = {"verbs": verbs.split(), "apiGroups": [GROUP], "resources": [resource]}
    return {**made, "resourceNames": list(names)} if names else made


async def test_the_asker_is_who_asks_whatever_the_request_says(site, local) -> None:
    await let(local, "ask", "eve", rule("create get", "certificatesigningrequests"))
    async with site.http("eve", ("physics",)) as eve:
        made = await eve("POST", PATH, csr(username="admin", groups=["system:masters"], uid="0"))
    assert made.code == 201
    spec = made.json["spec"]
    assert (spec["username"], spec["groups"]) == ("eve", ["physics", "system:authenticated"])
    assert "uid" not in spec


@pytest.mark.parametrize(
    ("request_", "code", "words"),
    [
        (pem("eve", "system:masters"), 403, "with system:masters group is not allowed"),
        ("bm90aGluZw==", 422, "spec.request"),
        (pem("eve", "physics"), 201, ""),
    ],
)
async def test_what_may_be_asked_for(http, request_, code, words) -> None:
    reply = await http("POST", PATH, csr(request=request_))
    assert reply.code == code
    assert words in reply.text


async def test_approval_changes_conditions_and_nothing_else(http) -> None:
    made = (await http("POST", PATH, csr())).json
    made["status"] = {"conditions": [condition("Approved")], "certificate": "eA=="}
    made["spec"]["signerName"] = "other.org/signer"
    reply = await http("PUT", f"{PATH}/c/approval", made)
    assert reply.code == 200
    assert reply.json["spec"]["signerName"] == SIGNER
    assert "certificate" not in reply.json["status"]
    [approved] = reply.json["status"]["conditions"]
    assert approved["type"] == "Approved"
    assert approved["lastUpdateTime"]
    assert (await http("GET", f"{PATH}/c/approval")).json == reply.json


async def test_approval_by_patch(http) -> None:
    await http("POST", PATH, csr())
    change = {"status": {"conditions": [condition("Denied")]}}
    merge = {"Content_Type": "application/merge-patch+json"}
    reply = await http("PATCH", f"{PATH}/c/approval", change, **merge)
    assert [one["type"] for one in reply.json["status"]["conditions"]] == ["Denied"]


@pytest.mark.parametrize(
    "conditions",
    [
        [condition("Approved"), condition("Denied")],
        [{"type": "Approved", "status": "False"}],
        [{"type": "Approved"}],
        [{"status": "True"}],
    ],
)
async def test_decisions_that_are_none(http, conditions) -> None:
    made = (await http("POST", PATH, csr())).json
    made["status"] = {"conditions": conditions}
    assert (await http("PUT", f"{PATH}/c/approval", made)).code == 422


async def test_a_decision_stays(http) -> None:
    made = (await http("POST", PATH, csr())).json
    made["status"] = {"conditions": [condition("Approved")]}
    approved = (await http("PUT", f"{PATH}/c/approval", made)).json
    approved["status"] = {"conditions": []}
    reply = await http("PUT", f"{PATH}/c/approval", approved)
    assert (reply.code, "may not remove" in reply.json["message"]) == (422, True)
    stale = await http("PUT", f"{PATH}/c/approval", made)
    assert stale.code == 409


@pytest.mark.parametrize(
    ("signers", "code"),
    [((SIGNER,), 200), (("kubernetes.io/*",), 200), (("other.org/x",), 403), (None, 403)],
)
async def test_who_approves_must_be_let_for_that_signer(site, local, http, signers, code) -> None:
    rules = [rule("update", "certificatesigningrequests/approval")]
    if signers is not None:
        rules.append(rule("approve", "signers", *signers))
    await let(local, "approver", "adam", *rules)
    made = (await http("POST", PATH, csr())).json
    made["status"] = {"conditions": [condition("Approved")]}
    async with site.http("adam") as adam:
        reply = await adam("PUT", f"{PATH}/c/approval", made)
    assert reply.code == code
    assert code == 200 or "not permitted to approve" in reply.json["message"]


async def test_who_signs_must_be_let_too(site, local, http) -> None:
    await let(local, "signer", "adam", rule("update", "certificatesigningrequests/status"))
    made = (await http("POST", PATH, csr())).json
    made["status"] = {"certificate": "eA=="}
    async with site.http("adam") as adam:
        reply = await adam("PUT", f"{PATH}/c/status", made)
        assert (reply.code, "not permitted to sign" in reply.json["message"]) == (403, True)
        await let(local, "sign", "adam", rule("sign", "signers", SIGNER))
        assert (await adam("PUT", f"{PATH}/c/status", made)).code == 200


@pytest.mark.parametrize("path", sorted((PROJECT / "tests/fuzzing/found/csr").glob("*")))
async def test_what_is_almost_a_request_is_refused_in_words(http, path) -> None:
    body = base64.encodebytes(path.read_bytes()).decode()
    armoured = f"-----BEGIN CERTIFICATE REQUEST-----\n{body}-----END CERTIFICATE REQUEST-----\n"
    reply = await http("POST", PATH, csr(request=base64.b64encode(armoured.encode()).decode()))
    assert (reply.code, "PEM block type" in reply.json["message"]) == (422, True)
