"""JSON Web Tokens of the one form that service accounts use: RS256, signed by this cluster.

Called by the API server, which issues and checks tokens, and by the controller that fills token
Secrets. It knows the signature and the wire form, never what the claims mean. Forty lines over
`cryptography`, which is here anyway, in place of a dependency of which one algorithm would be used.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from typing import Any

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import padding, rsa
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
