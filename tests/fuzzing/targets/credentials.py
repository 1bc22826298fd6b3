"""What callers show to say who they are, or send to be signed: tokens, requests, certificates."""

from __future__ import annotations

import base64
import functools
import json
import os
import ssl
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from orlop import pki
from orlop.apiserver.admission.rights.certificates import _parsed
from orlop.apiserver.proxy.webhook_client import CallFailed, believing
from orlop.controllers.certificates.csr_signers import KUBELET_CLIENT, KUBELET_SERVING, refusal
from orlop.gateway import ingress
from orlop.jwt import BadToken, SigningKey, claims_of, verify_with

from ..target import Registry, Target, encoded

target = Registry()
MEMORY = "/dev/shm"


def _encoded(part: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()


@target("token-jwt", "jwt.py: tokens of ours and of other issuers", "strangers")
def token_jwt() -> Target:
    key = SigningKey(rsa.generate_private_key(65537, 2048))
    numbers = ec.generate_private_key(ec.SECP256R1()).public_key().public_numbers()
    point = {
        name: base64.urlsafe_b64encode(number.to_bytes(32, "big")).decode().rstrip("=")
        for name, number in (("x", numbers.x), ("y", numbers.y))
    }
    keys = {"r": key.jwk(), "e": {"kty": "EC", "crv": "P-256", **point}}

    def run(data: bytes) -> None:
        token = data.decode("utf-8", "surrogateescape")
        for read in (claims_of, key.verify, lambda text: verify_with(keys, text)):
            try:
                read(token)
            except BadToken:
                pass

    claims = {"iss": "https://a", "sub": "b", "aud": ["c"], "exp": 1.7e9}
    elliptic = f"{_encoded({'alg': 'ES256', 'kid': 'e'})}.{_encoded(claims)}.{'A' * 86}"
    other = f"{_encoded({'alg': 'RS256', 'kid': 'r'})}.{_encoded(claims)}.{'A' * 342}"
    seeds = encoded((key.sign(claims), elliptic, other, "a.b.c", "abcdef.0123456789abcdef"))
    words = encoded((".", "=", "-", "_", _encoded([]), _encoded(None), _encoded({"alg": "none"})))
    return Target(run, seeds, (*words, *(seed.split(b".")[0] for seed in seeds)))


def _request(groups: tuple[str, ...], names: tuple[str, ...]) -> bytes:
    subject = [x509.NameAttribute(NameOID.COMMON_NAME, "system:node:n")]
    subject += [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(subject))
    if names:
        known = x509.SubjectAlternativeName([x509.DNSName(name) for name in names])
        builder = builder.add_extension(known, critical=False)
    made = builder.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    return made.public_bytes(serialization.Encoding.DER)


@target("csr", "certificate signing requests: admission, signers, pki.py", "small accounts")
def csr() -> Target:
    authority = pki.ensure(Path(tempfile.mkdtemp(prefix="orlop-fuzz-")), ["localhost"])

    def run(data: bytes) -> None:
        """`data` is what the armour is around: noise in base64 would be all that is tried."""
        body = base64.encodebytes(data).decode()
        pem = f"-----BEGIN CERTIFICATE REQUEST-----\n{body}-----END CERTIFICATE REQUEST-----\n"
        text = base64.b64encode(pem.encode()).decode()
        found = _parsed(text)
        if found is not None:
            list(found.subject)
        for signer in (KUBELET_CLIENT, KUBELET_SERVING):
            usage = "client auth" if signer == KUBELET_CLIENT else "server auth"
            refusal({"signerName": signer, "usages": [usage], "request": text})
        for is_server in (False, True):
            try:
                authority.sign_request(pem.encode(), 600, is_server=is_server)
            except ValueError:
                pass

    seeds = (
        _request(("system:nodes",), ("a.b",)),
        _request((), ()),
        _request(("a", "b"), ("a", "b", "*.c")),
    )
    return Target(run, seeds, (b"\x30\x82", b"\xa0\x00", b"\x06\x03\x55\x04\x03", b"\x30\x80"))


@target("pem", "kubernetes.io/tls Secrets of the router, bundles of webhooks", "small accounts")
def pem() -> Target:
    folder = pki.ensure(Path(tempfile.mkdtemp(prefix="orlop-fuzz-")), ["localhost"])
    pair = folder.pair("apiserver")
    good = (pair.crt.read_bytes(), pair.key.read_bytes())
    # OpenSSL reads a key from a file: on a disk, its folder would take most of the time.
    if os.path.isdir(MEMORY):
        in_memory = functools.partial(tempfile.TemporaryDirectory, dir=MEMORY)
        cast("Any", ingress).tempfile = SimpleNamespace(TemporaryDirectory=in_memory)

    def run(data: bytes) -> None:
        parts = (base64.b64encode(part).decode() for part in (data, good[1]))
        try:
            ingress.load_context({"data": dict(zip(("tls.crt", "tls.key"), parts, strict=True))})
        except (ValueError, OSError):
            pass
        try:
            # An empty one means the system's authorities, which take their time to be read.
            believing(base64.b64encode(data or b"-").decode())
        except CallFailed:
            pass

    words = (b"-----BEGIN CERTIFICATE-----\n", b"-----END CERTIFICATE-----\n", b"-----", b"\n")
    return Target(run, (good[0], *good, good[0] * 2), words, (ssl.SSLError,))
