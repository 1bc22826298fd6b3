"""Checks bearer tokens: of a service account, a machine that joins, or a person of an issuer.

Asked by the handler for requests without a certificate, and by TokenReviews. The token's form tells
whose it is: `abcdef.0123456789abcdef` is a bootstrap token, everything else a JSON Web Token, ours
or that of the configured OpenID Connect issuer. Which of them refused it is told to the log, not to
the client.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
import time
from collections.abc import Callable, Sequence

from aiohttp import web

from ...api import kinds, times
from ...api.objects import Key, Obj
from ...errors import Unauthorized
from ...store import Store
from .authentication import User, user
from .oidc import OidcAuthenticator
from .serviceaccount_tokens import Identity, Tokens

BOOTSTRAP_TYPE = "bootstrap.kubernetes.io/token"
_BOOTSTRAP = re.compile(r"([a-z0-9]{6})\.([a-z0-9]{16})")
_GROUP = re.compile(r"system:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]")
_SOCKET_PREFIX = "base64url.bearer.authorization.k8s.io."


class BearerTokens:
    def __init__(
        self,
        store: Store,
        tokens: Tokens | None,
        oidc: OidcAuthenticator | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._tokens = tokens
        self._oidc = oidc
        self._now = now

    async def authenticate(self, token: str, audiences: Sequence[str] = ()) -> Identity:
        """Return who the token speaks for.

        Unauthorized, with why, if it is not good or no longer good.
        """
        match = _BOOTSTRAP.fullmatch(token)
        if match is not None:
            return Identity(self._bootstrap(match[1], match[2]), tuple(audiences))
        if self._oidc is not None and self._oidc.is_of_issuer(token):
            return Identity(await self._oidc.authenticate(token), tuple(audiences))
        if self._tokens is None:
            raise Unauthorized("this server takes no tokens")
        return self._tokens.authenticate(token, audiences)

    def _bootstrap(self, token_id: str, secret: str) -> User:
        """Check a bootstrap token. As plugin/pkg/auth/authenticator/token/bootstrap."""
        key = Key("kube-system", f"bootstrap-token-{token_id}")
        record = self._store.get(kinds.SECRET.resource, key)
        found = record.decode() if record is not None else {}
        data = _decoded(found.get("data") or {})
        expected = data.get("token-secret", "")
        is_same = hmac.compare_digest(expected.encode(), secret.encode())
        if not is_same or found.get("type") != BOOTSTRAP_TYPE or data.get("token-id") != token_id:
            raise Unauthorized("no such bootstrap token")
        if "deletionTimestamp" in found["metadata"] or self._has_expired(data):
            raise Unauthorized("the bootstrap token has expired")
        if data.get("usage-bootstrap-authentication") != "true":
            raise Unauthorized("the bootstrap token is not for authentication")
        extra = [one for one in data.get("auth-extra-groups", "").split(",") if one]
        if not all(_GROUP.fullmatch(one) for one in extra):
            raise Unauthorized("the groups of the bootstrap token are not system:bootstrappers:…")
        return user(f"system:bootstrap:{token_id}", ["system:bootstrappers", *extra])

    def _has_expired(self, data: dict[str, str]) -> bool:
        expiration = data.get("expiration")
        if not expiration:
            return False
        try:
            return times.parse(expiration) <= self._now()
        except ValueError:
            return True


def _decoded(data: Obj) -> dict[str, str]:
    decoded = {}
    for name, text in data.items():
        try:
            decoded[name] = base64.b64decode(text).decode()
        except (binascii.Error, ValueError):
            continue
    return decoded


def token_of(request: web.BaseRequest) -> str:
    """Return the token of a request: from its header, or from a WebSocket's protocols.

    A browser's WebSocket has no other way to carry one. As
    authentication/request/websocket/protocol.go: one that names no other protocol is refused.
    """
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return token.strip()
    if request.headers.get("Upgrade", "").lower() != "websocket":
        return ""
    offered = [
        word.strip()
        for text in request.headers.getall("Sec-WebSocket-Protocol", [])
        for word in text.split(",")
    ]
    shown = [word for word in offered if word.startswith(_SOCKET_PREFIX)]
    if len(shown) != 1 or len(offered) < 2:
        return ""
    text = shown[0].removeprefix(_SOCKET_PREFIX)
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
    except (binascii.Error, ValueError):
        return ""


def without_token(protocols: str) -> str:
    """Return the WebSocket protocols of a request, but for the one that is a token."""
    words = [word.strip() for word in protocols.split(",")]
    return ", ".join(word for word in words if word and not word.startswith(_SOCKET_PREFIX))
