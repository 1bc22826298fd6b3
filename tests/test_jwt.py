"""Tokens that only the key's owner can make, checked by an implementation that is not ours."""

from __future__ import annotations

import base64
import json
import subprocess

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from hypothesis import given
from hypothesis import strategies as st

from orlop.jwt import BadToken, SigningKey


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


@given(st.text(max_size=60))
def test_no_text_breaks_the_check(text):
    with pytest.raises(BadToken):
        KEY.verify(text)
    with pytest.raises(BadToken):
        KEY.verify(f"{HEADER}.{text}.{SIGNATURE}")
