"""Tokens that only the key's owner can make, checked by openssl, too."""

from __future__ import annotations

import base64
import json
import subprocess

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from hypothesis import given
from hypothesis import strategies as st
from jwt import PyJWS
from jwt.algorithms import ECAlgorithm

from orlop.jwt import BadToken, SigningKey, verify_with


def new_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def pem(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def part(obj: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(obj).encode()).rstrip(b"=").decode()


def decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


PRIVATE = new_key()
KEY = SigningKey(PRIVATE)


def test_what_was_signed_is_read_back():
    claims = {"sub": "system:serviceaccount:a:b", "aud": ["x"], "exp": 12}
    token = KEY.sign(claims)
    assert KEY.verify(token) == claims
    assert json.loads(decoded(token.split(".")[0])) == {"alg": "RS256", "kid": KEY.key_id}


def test_openssl_agrees_with_the_signature(tmp_path):
    content, _, signature = KEY.sign({"sub": "a"}).rpartition(".")
    (tmp_path / "content").write_text(content)
    (tmp_path / "signature").write_bytes(decoded(signature))
    (tmp_path / "key.pem").write_bytes(pem(PRIVATE))
    public = ["openssl", "rsa", "-in", "key.pem", "-pubout", "-out", "public.pem"]
    subprocess.run(public, cwd=tmp_path, check=True, capture_output=True)
    verify = ["openssl", "dgst", "-sha256", "-verify", "public.pem", "-signature", "signature"]
    done = subprocess.run([*verify, "content"], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == "Verified OK\n"


def test_the_web_key_is_the_public_key():
    jwk = KEY.jwk()
    numbers = PRIVATE.public_key().public_numbers()
    assert int.from_bytes(decoded(jwk["n"])) == numbers.n
    assert int.from_bytes(decoded(jwk["e"])) == numbers.e
    assert (jwk["kty"], jwk["alg"], jwk["use"]) == ("RSA", "RS256", "sig")
    assert jwk["kid"] == SigningKey.from_pem(pem(PRIVATE)).key_id


def test_no_other_kind_of_key_signs():
    with pytest.raises(ValueError, match="must be an RSA key"):
        SigningKey.from_pem(pem(ec.generate_private_key(ec.SECP256R1())))


HEADER, CLAIMS, SIGNATURE = KEY.sign({"sub": "me"}).split(".")
OTHERS = SigningKey(new_key()).sign({"sub": "me"})


@pytest.mark.parametrize(
    "token",
    [
        "",
        "a",
        "a.b",
        "a.b.c",
        "..",
        "é.é.é",
        OTHERS,
        f"{HEADER}.{part({'sub': 'admin'})}.{SIGNATURE}",
        f"{part({'alg': 'none'})}.{CLAIMS}.",
        f"{part({'alg': 'HS256', 'kid': KEY.key_id})}.{CLAIMS}.{SIGNATURE}",
        f"{part(['RS256'])}.{CLAIMS}.{SIGNATURE}",
        f"{HEADER}.{CLAIMS}.",
        f"{HEADER}.{CLAIMS}.{SIGNATURE}.{SIGNATURE}",
        f"{HEADER}.{CLAIMS}.{SIGNATURE}" + "A" * 20_000,
    ],
)
def test_nothing_else_passes(token):
    with pytest.raises(BadToken):
        KEY.verify(token)


def test_claims_must_be_an_object():
    with pytest.raises(BadToken, match="must be an object"):
        KEY.verify(KEY.sign(["a"]))  # type: ignore[arg-type]


CURVE = ec.generate_private_key(ec.SECP256R1())
PUBLISHED = {
    KEY.key_id: KEY.jwk(),
    "curve": {**ECAlgorithm.to_jwk(CURVE.public_key(), as_dict=True), "kid": "curve"},
    "shared": {"kty": "oct", "k": part("secret"), "kid": "shared"},
    "broken": {"kty": "RSA", "n": "!", "e": "!", "kid": "broken"},
}


def signed(algorithm: str, key: object, kid: object) -> str:
    return PyJWS().encode(b'{"sub":"me"}', key, algorithm, {"kid": kid})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "token",
    [signed("RS256", PRIVATE, KEY.key_id), signed("ES256", CURVE, "curve")],
    ids=["RS256", "ES256"],
)
def test_a_key_that_an_issuer_publishes_opens_its_tokens(token):
    assert verify_with(PUBLISHED, token) == {"sub": "me"}


@pytest.mark.parametrize(
    "token",
    [
        signed("RS256", PRIVATE, "curve"),
        signed("RS256", PRIVATE, "unknown"),
        signed("ES256", CURVE, KEY.key_id),
        signed("RS512", PRIVATE, KEY.key_id),
        signed("HS256", "secret" * 8, "shared"),
        signed("HS256", KEY.jwk()["n"], KEY.key_id),
        signed("RS256", new_key(), KEY.key_id),
        signed("RS256", PRIVATE, "broken"),
        f"{part({'alg': 'RS256', 'kid': ['a']})}.{CLAIMS}.{SIGNATURE}",
    ],
    ids=["kind", "unknown", "kind too", "hash", "shared", "public as secret", "other", "broken",
         "no name"],
)  # fmt: skip
def test_the_type_of_the_key_decides_and_not_the_token(token):
    with pytest.raises(BadToken):
        verify_with(PUBLISHED, token)


@given(st.text(max_size=60))
def test_no_text_breaks_the_check(text):
    with pytest.raises(BadToken):
        KEY.verify(text)
    with pytest.raises(BadToken):
        KEY.verify(f"{HEADER}.{text}.{SIGNATURE}")
