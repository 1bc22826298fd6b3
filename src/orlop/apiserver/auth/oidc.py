"""People of an OpenID Connect issuer: their ID tokens, checked by the issuer's published keys.

Used by bearer authentication where the settings name an issuer. Keys are fetched when a token is
signed by one that is not known, not more often than every few seconds; whether its claims make a
user is decided here, what the user may do is RBAC's. As plugin/pkg/authenticator/token/oidc.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp

from ...errors import Unauthorized
from ...jwt import BadToken, Claims, claims_of, verify_with
from ...settings import OidcSettings
from ..proxy.foreign_answers import decoded, whole
from .authentication import User, user

_TIMEOUT = 10.0
_NOT_AGAIN = 10.0  # seconds in which unknown keys are not asked for once more
_LEEWAY = 30.0
_MAX_ANSWER = 1 << 20  # bytes of keys and of what says where they are


class OidcAuthenticator:
    def __init__(self, settings: OidcSettings, now: Callable[[], float] = time.time) -> None:
        self._settings = settings
        self._now = now
        self._keys: dict[str, dict[str, Any]] = {}
        self._asked = float("-inf")
        self._lock = asyncio.Lock()

    def is_of_issuer(self, token: str) -> bool:
        try:
            return claims_of(token).get("iss") == self._settings.issuer_url
        except BadToken:
            return False

    async def authenticate(self, token: str) -> User:
        try:
            claims = await self._verified(token)
            self._check(claims)
            return self._user(claims)
        except (BadToken, KeyError, TypeError) as error:
            raise Unauthorized(f"invalid ID token: {error}") from error

    async def _verified(self, token: str) -> Claims:
        """Verify a token by a key that is known, or that the issuer has published since."""
        try:
            return verify_with(self._keys, token)
        except BadToken:
            await self._fetch()
            return verify_with(self._keys, token)

    async def _fetch(self) -> None:
        async with self._lock:
            if self._now() - self._asked < _NOT_AGAIN:
                return
            self._asked = self._now()
            try:
                self._keys = await self._published()
            except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
                raise Unauthorized(f"the issuer's keys cannot be fetched: {error}") from error

    async def _published(self) -> dict[str, dict[str, Any]]:
        base = self._settings.issuer_url.rstrip("/")
        timeout = aiohttp.ClientTimeout(total=_TIMEOUT)
        connector = aiohttp.TCPConnector(ssl=self._tls())
        async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
            found = await _json(session, f"{base}/.well-known/openid-configuration")
            if found.get("issuer") != self._settings.issuer_url:
                raise ValueError(f"it calls itself {found.get('issuer')!r}")
            keys = await _json(session, found["jwks_uri"])
        return {key.get("kid", ""): key for key in keys.get("keys") or ()}

    def _tls(self) -> ssl.SSLContext:
        ca = self._settings.ca_file
        return ssl.create_default_context(cafile=str(Path(ca).expanduser()) if ca else None)

    def _check(self, claims: Claims) -> None:
        settings, audiences = self._settings, claims["aud"]
        audiences = audiences if isinstance(audiences, list) else [audiences]
        if claims["iss"] != settings.issuer_url or settings.client_id not in audiences:
            raise BadToken(f"it is for {audiences}, not for {settings.client_id}")
        if claims["exp"] + _LEEWAY < self._now() or claims.get("nbf", 0) - _LEEWAY > self._now():
            raise BadToken("it has expired, or is not valid yet")
        for name, value in settings.required_claims.items():
            if claims.get(name) != value:
                raise BadToken(f"its claim {name} is not {value}")

    def _user(self, claims: Claims) -> User:
        settings = self._settings
        name = claims[settings.username_claim]
        if not isinstance(name, str) or not name:
            raise BadToken(f"its claim {settings.username_claim} is no name")
        if settings.username_claim == "email" and claims.get("email_verified", True) is not True:
            raise BadToken("its email is not verified")
        prefix = settings.username_prefix
        if not prefix and settings.username_claim != "email":
            prefix = f"{settings.issuer_url}#"
        groups = claims.get(settings.groups_claim, []) if settings.groups_claim else []
        groups = [groups] if isinstance(groups, str) else groups
        named = [f"{settings.groups_prefix}{one}" for one in groups if isinstance(one, str)]
        return user(name if prefix == "-" else f"{prefix}{name}", named)


async def _json(session: aiohttp.ClientSession, url: str) -> dict[str, Any]:
    async with session.get(url) as reply:
        if reply.status != 200:
            raise ValueError(f"{url} answered {reply.status}")
        answer = decoded(await whole(reply, _MAX_ANSWER))
    if not isinstance(answer, dict):
        raise ValueError(f"{url} answered with no object")
    return answer
