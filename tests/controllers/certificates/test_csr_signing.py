"""Approved requests become certificates that the API server knows."""

from __future__ import annotations

import base64
import datetime as dt
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtensionOID, NameOID

from orlop import pki
from orlop.api.kinds import CERTIFICATE_SIGNING_REQUEST
from orlop.api.objects import condition_of
from orlop.controllers.certificates.csr_signing import CsrSigning
from tests.apiserver.admission.rights.test_certificates import condition, csr

from ..world import eventually


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return pki.ensure(tmp_path_factory.mktemp("pki"), ["localhost"])


async def decide(cluster, kind, name="c", **spec):
    made = await cluster.create(CERTIFICATE_SIGNING_REQUEST, csr(name, **spec))
    made["status"] = {"conditions": [condition(kind)]}
    await cluster.api.update(CERTIFICATE_SIGNING_REQUEST, made, subresource="approval")


async def until(cluster, probe, name="c"):
    async def check():
        found = await cluster.get(CERTIFICATE_SIGNING_REQUEST, name)
        return found if probe(found) else False

    return await eventually(check)


def is_signed(obj):
    return (obj.get("status") or {}).get("certificate")


def controller(cluster, authority):
    return lambda informers: CsrSigning(cluster.api, informers, authority.sign_request)


@pytest.mark.parametrize(("asked", "given"), [(None, 365 * 86400), (3600, 3600)])
async def test_an_approved_request_is_signed(cluster, authority, asked, given):
    async with cluster.running(controller(cluster, authority)):
        await decide(cluster, "Approved", **({"expirationSeconds": asked} if asked else {}))
        found = await until(cluster, is_signed)
    certificate = x509.load_pem_x509_certificate(base64.b64decode(is_signed(found)))
    ca = x509.load_pem_x509_certificate(authority.ca.read_bytes())
    certificate.verify_directly_issued_by(ca)
    [name] = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    assert name.value == "eve"
    left = certificate.not_valid_after_utc - dt.datetime.now(dt.UTC)
    assert abs(left.total_seconds() - given) < 60
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [x509.oid.ExtendedKeyUsageOID.CLIENT_AUTH]
    assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


@pytest.mark.parametrize("usages", [["server auth"], ["client auth", "cert sign"]])
async def test_other_uses_fail_and_say_why(cluster, authority, usages):
    async with cluster.running(controller(cluster, authority)):
        await decide(cluster, "Approved", usages=usages)
        found = await until(cluster, lambda obj: condition_of(obj, "Failed"))
    assert condition_of(found, "Failed")["reason"] == "SignerValidationFailure"
    assert condition_of(found, "Approved")
    assert not is_signed(found)


@pytest.mark.parametrize(
    ("decision", "signer"),
    [("Denied", "kubernetes.io/kube-apiserver-client"), ("Approved", "other.org/signer")],
)
async def test_what_is_denied_or_others_to_sign_is_left_alone(cluster, authority, decision, signer):
    async with cluster.running(controller(cluster, authority)):
        await decide(cluster, decision, signerName=signer)
        await cluster.create(CERTIFICATE_SIGNING_REQUEST, csr("pending"))
        await decide(cluster, "Approved", "last")
        await until(cluster, is_signed, "last")
    for name in ("c", "pending"):
        assert not is_signed(await cluster.get(CERTIFICATE_SIGNING_REQUEST, name))


def test_a_request_that_is_none_is_refused(authority):
    with pytest.raises(ValueError, match="PEM"):
        authority.sign_request(b"nonsense", 60)


def test_a_request_of_a_name_of_bits_is_refused_in_words():
    """Of which cryptography says a TypeError, where a kind of name has no bits."""
    found = Path(__file__).parents[2] / "fuzzing/found/csr/a-name-of-bits"
    body = base64.encodebytes(found.read_bytes())
    edges = (b"-----%s CERTIFICATE REQUEST-----\n" % word for word in (b"BEGIN", b"END"))
    with pytest.raises(ValueError, match="cannot be read"):
        pki.read_request(body.join(edges))


def test_a_request_with_names_that_nobody_can_read_is_refused_in_words(authority) -> None:
    strange = bytes.fromhex("3004a3023000")  # an X.400 address
    key = ec.generate_private_key(ec.SECP256R1())
    extension = x509.UnrecognizedExtension(ExtensionOID.SUBJECT_ALTERNATIVE_NAME, strange)
    request = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(x509.Name([]))
        .add_extension(extension, critical=False)
        .sign(key, hashes.SHA256())
    )
    with pytest.raises(ValueError, match="cannot be read"):
        authority.sign_request(request.public_bytes(Encoding.PEM), 60, is_server=True)
