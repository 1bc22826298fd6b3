"""Signs the tokens of service accounts, and checks these and the tokens of other issuers.

Called by the API server, which issues and checks tokens, and by the controller that fills token
Secrets. PyJWT makes and checks the signatures; this module fixes which algorithm a key may be used
with, and leaves the meaning of the claims to its callers.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
)
from jwt import PyJWK, PyJWS
from jwt.algorithms import RSAAlgorithm
from jwt.exceptions import PyJWTError

ALGORITHM = "RS256"
# What a key of an issuer may be used with, by its type: not what the token says.
_ALGORITHMS = {("RSA", None): ALGORITHM, ("EC", "P-256"): "ES256"}
_MAX_TOKEN = 16 << 10  # what a header may weigh at most; ours have about one KiB
_JWS = PyJWS(algorithms=sorted(_ALGORITHMS.values()))
Claims = dict[str, Any]


class BadToken(ValueError):
    """Not a token of this key: malformed, of another algorithm, or not signed by it."""


class SigningKey:
    """The private key of the issuer; `verify` needs its public half."""

    def __init__(self, key: rsa.RSAPrivateKey) -> None:
        self._key = key
        self._public = key.public_key()
        # As upstream: pkg/serviceaccount/jwt.go, keyIDFromPublicKey.
        der = self._public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        digest = hashlib.sha256(der).digest()
        self.key_id = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()

    @classmethod
    def from_pem(cls, pem: bytes) -> SigningKey:
        key = load_pem_private_key(pem, password=None)
        if not isinstance(key, rsa.RSAPrivateKey):
            raise ValueError("the key of service account tokens must be an RSA key")
        return cls(key)

    def sign(self, claims: Claims) -> str:
        """Make the compact form of a token with these claims."""
        header = {"kid": self.key_id, "typ": None}  # upstream's tokens have no type either
        return _JWS.encode(msgspec.json.encode(claims), self._key, ALGORITHM, header)

    def verify(self, token: str) -> Claims:
        """Read the claims of a token that this key has signed; its times are not looked at."""
        return _verified(token, self._public, ALGORITHM)

    def jwk(self) -> dict[str, str]:
        """Show the public key as a JSON Web Key (RFC 7517)."""
        numbers = RSAAlgorithm.to_jwk(self._public, as_dict=True)
        named = {"use": "sig", "kty": "RSA", "kid": self.key_id, "alg": ALGORITHM}
        return {**named, "n": numbers["n"], "e": numbers["e"]}


def claims_of(token: str) -> Claims:
    """Read what a token claims, whoever signed it: to find out whom to ask, no more."""
    return _object(_unverified(token)["payload"])


def verify_with(keys: Mapping[str, Mapping[str, Any]], token: str) -> Claims:
    """Read the claims of a token that one of these JSON Web Keys, by their ids, has signed."""
    kid = _unverified(token)["header"].get("kid", "")
    key = keys.get(kid) if isinstance(kid, str) else None
    if key is None:
        raise BadToken("it is signed by a key that the issuer has not published")
    algorithm = _ALGORITHMS.get((key.get("kty", ""), key.get("crv")))
    if algorithm is None:
        raise BadToken(f"a key of type {key.get('kty')} is not taken")
    try:
        public = PyJWK(dict(key), algorithm).key
    except (PyJWTError, ValueError, TypeError) as error:
        raise BadToken(f"the issuer's key cannot be read: {error}") from error
    return _verified(token, public, algorithm)


def _unverified(token: str) -> dict[str, Any]:
    _check_size(token)
    try:
        return _JWS.decode_complete(token, options={"verify_signature": False})
    except (PyJWTError, ValueError, RecursionError) as error:
        raise BadToken(f"not a JSON Web Token: {error}") from error


def _verified(token: str, key: Any, algorithm: str) -> Claims:
    _check_size(token)
    try:
        return _object(_JWS.decode(token, key, algorithms=[algorithm]))
    except BadToken:
        raise
    except (PyJWTError, ValueError, RecursionError) as error:
        raise BadToken(f"the signature does not fit: {error}") from error


def _check_size(token: str) -> None:
    if len(token) > _MAX_TOKEN:
        raise BadToken("not a JSON Web Token: too long")


def _object(payload: bytes) -> Claims:
    try:
        claims = msgspec.json.decode(payload)
    except (ValueError, RecursionError) as error:
        raise BadToken("its claims are no JSON") from error
    if not isinstance(claims, dict):
        raise BadToken("claims must be an object")
    return claims
