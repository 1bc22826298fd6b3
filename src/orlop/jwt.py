"""JSON Web Tokens: those of service accounts, signed by this cluster, and those of other issuers.

Called by the API server, which issues and checks tokens, and by the controller that fills token
Secrets. It knows the signature and the wire form, never what the claims mean. Forty lines over
`cryptography`, which is here anyway, in place of a dependency of which one algorithm would be used.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
)

ALGORITHM = "RS256"
_MAX_TOKEN = 16 << 10  # what a header may weigh at most; ours have about one KiB
Claims = dict[str, Any]


class BadToken(ValueError):
    """Not a token of this key: malformed, of another algorithm, or not signed by it."""


class SigningKey:
    """The private key of the issuer; `verify` needs only its public half."""

    def __init__(self, key: rsa.RSAPrivateKey) -> None:
        self._key = key
        self._public = key.public_key()
        # As upstream: pkg/serviceaccount/jwt.go, keyIDFromPublicKey.
        der = self._public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        self.key_id = _encoded(hashlib.sha256(der).digest())
        self._header = _encoded(msgspec.json.encode({"alg": ALGORITHM, "kid": self.key_id}))

    @classmethod
    def from_pem(cls, pem: bytes) -> SigningKey:
        key = load_pem_private_key(pem, password=None)
        if not isinstance(key, rsa.RSAPrivateKey):
            raise ValueError("the key of service account tokens must be an RSA key")
        return cls(key)

    def sign(self, claims: Claims) -> str:
        """The compact form of a token with these claims."""
        content = f"{self._header}.{_encoded(msgspec.json.encode(claims))}"
        signature = self._key.sign(content.encode(), padding.PKCS1v15(), SHA256())
        return f"{content}.{_encoded(signature)}"

    def verify(self, token: str) -> Claims:
        """The claims of a token that this key has signed; whether they hold is not looked at."""
        if len(token) > _MAX_TOKEN or token.count(".") != 2:
            raise BadToken("not a JSON Web Token")
        content, _, signature = token.rpartition(".")
        header, _, payload = content.partition(".")
        try:
            if msgspec.json.decode(_decoded(header)).get("alg") != ALGORITHM:
                raise BadToken(f"only {ALGORITHM} is taken")
            signed = _decoded(signature)
            self._public.verify(signed, content.encode(), padding.PKCS1v15(), SHA256())
            claims = msgspec.json.decode(_decoded(payload))
        except (InvalidSignature, ValueError, AttributeError) as error:
            raise BadToken("the signature does not fit") from error
        if not isinstance(claims, dict):
            raise BadToken("claims must be an object")
        return claims

    def jwk(self) -> dict[str, str]:
        """The public key as a JSON Web Key (RFC 7517)."""
        numbers = self._public.public_numbers()
        return {
            "use": "sig",
            "kty": "RSA",
            "kid": self.key_id,
            "alg": ALGORITHM,
            "n": _integer(numbers.n),
            "e": _integer(numbers.e),
        }


def claims_of(token: str) -> Claims:
    """What a token claims, whoever signed it: to find out whom to ask, and for nothing else."""
    parts = token.split(".")
    if len(token) > _MAX_TOKEN or len(parts) != 3:
        raise BadToken("not a JSON Web Token")
    try:
        claims = msgspec.json.decode(_decoded(parts[1]))
    except ValueError as error:
        raise BadToken("its claims are no JSON") from error
    if not isinstance(claims, dict):
        raise BadToken("claims must be an object")
    return claims


def verify_with(keys: Mapping[str, Mapping[str, Any]], token: str) -> Claims:
    """The claims of a token that one of these JSON Web Keys, by their ids, has signed."""
    claims = claims_of(token)
    content, _, signature = token.rpartition(".")
    try:
        header = msgspec.json.decode(_decoded(content.partition(".")[0]))
        key, algorithm = keys.get(header.get("kid", "")), header.get("alg")
        if key is None:
            raise BadToken("it is signed by a key that the issuer has not published")
        _check(key, algorithm, content.encode(), _decoded(signature))
    except (InvalidSignature, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadToken(f"the signature does not fit: {error}") from error
    return claims


def _check(key: Mapping[str, Any], algorithm: str, content: bytes, signature: bytes) -> None:
    """RS256 or ES256, as the key's own type has it: never what only the token says."""
    if key.get("kty") == "RSA" and algorithm == ALGORITHM:
        exponent, modulus = _number(key["e"]), _number(key["n"])
        public = rsa.RSAPublicNumbers(exponent, modulus).public_key()
        public.verify(signature, content, padding.PKCS1v15(), SHA256())
    elif key.get("kty") == "EC" and key.get("crv") == "P-256" and algorithm == "ES256":
        numbers = ec.EllipticCurvePublicNumbers(
            _number(key["x"]), _number(key["y"]), ec.SECP256R1()
        )
        half = len(signature) // 2
        pair = encode_dss_signature(
            int.from_bytes(signature[:half], "big"), int.from_bytes(signature[half:], "big")
        )
        numbers.public_key().verify(pair, content, ec.ECDSA(SHA256()))
    else:
        raise BadToken(f"{algorithm} with a key of type {key.get('kty')} is not taken")


def _number(text: str) -> int:
    return int.from_bytes(_decoded(text), "big")


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    try:
        padded = text.encode("ascii") + b"=" * (-len(text) % 4)
        return base64.b64decode(padded, altchars=b"-_", validate=True)
    except binascii.Error as error:
        raise BadToken("not base64url") from error


def _integer(number: int) -> str:
    return _encoded(number.to_bytes((number.bit_length() + 7) // 8, "big"))
