"""Tokens of service accounts: what they claim, and whether those claims still hold.

Asked by the `token` subresource for new ones, and by authentication and TokenReviews for those that
callers show. A token lives no longer than the account, pod, Secret or node it is bound to: that is
looked up in the store each time. As pkg/serviceaccount/{claims,legacy}.go; nothing is written.
"""

from __future__ import annotations

import hmac
import time
import uuid
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ...api import kinds, times
from ...api.kinds import Kind
from ...api.objects import Key, Obj
from ...errors import Unauthorized
from ...jwt import BadToken, Claims, SigningKey
from ...store import Store
from ..objects.conversion import bucket_of
from .authentication import User, user

ISSUER = "https://kubernetes.default.svc.cluster.local"
LEGACY_ISSUER = "kubernetes/serviceaccount"
_PREFIX = "kubernetes.io/serviceaccount/"  # of a legacy token's claims
_EXTRA = "authentication.kubernetes.io/"
_LEEWAY = 60.0  # seconds: clocks differ, and what is being deleted may still finish its work
_BOUND = {"pod": kinds.POD, "secret": kinds.SECRET, "node": kinds.NODE}


class Identity(NamedTuple):
    """The user a token speaks for, and the audiences that it is meant for."""

    user: User
    audiences: tuple[str, ...]


class Lifetime(NamedTuple):
    """The times of a token, in Unix seconds.

    `warn_after` is set where a token lives on for clients that do not reread it.
    """

    expires: float
    warn_after: float | None = None


class Tokens:
    def __init__(
        self,
        store: Store,
        key: SigningKey,
        *,
        issuer: str = ISSUER,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._key = key
        self._now = now
        self.issuer = issuer
        self.audiences: tuple[str, ...] = (issuer,)  # the API server's own names

    def issue(
        self,
        account: Obj,
        audiences: Sequence[str],
        lifetime: Lifetime,
        bound: Mapping[str, Obj] | None = None,
    ) -> str:
        """Issue a token of a service account; it lives no longer than the objects in `bound`."""
        metadata, now = account["metadata"], int(self._now())
        namespace, name = metadata["namespace"], metadata["name"]
        private: Obj = {"namespace": namespace, "serviceaccount": _named(account)}
        private |= {kind: _named(obj) for kind, obj in (bound or {}).items()}
        if lifetime.warn_after is not None:
            private["warnafter"] = int(lifetime.warn_after)
        claims: Claims = {
            "aud": list(audiences),
            "exp": int(lifetime.expires),
            "iat": now,
            "iss": self.issuer,
            "jti": str(uuid.uuid4()),
            "kubernetes.io": private,
            "nbf": now,
            "sub": f"system:serviceaccount:{namespace}:{name}",
        }
        return self._key.sign(claims)

    def authenticate(self, token: str, audiences: Sequence[str] = ()) -> Identity:
        """Return who shows this token.

        Unauthorized, with why, if it is not good or no longer good.
        """
        try:
            claims = self._key.verify(token)
            if claims.get("iss") == LEGACY_ISSUER:
                return self._legacy(token, claims, audiences or self.audiences)
            return self._bound(claims, audiences or self.audiences)
        except (BadToken, KeyError, TypeError, ValueError, AttributeError) as error:
            raise Unauthorized(f"invalid bearer token: {error}") from error

    def _bound(self, claims: Claims, audiences: Sequence[str]) -> Identity:
        if claims["iss"] != self.issuer:
            raise BadToken("it is of another issuer")
        self._check_times(claims)
        meant = tuple(one for one in audiences if one in claims["aud"])
        if not meant:
            raise BadToken(f"it is for {claims['aud']}, not for any of {list(audiences)}")
        private = claims["kubernetes.io"]
        namespace, account = private["namespace"], private["serviceaccount"]
        self._must_live(kinds.SERVICE_ACCOUNT, namespace, account)
        extra = {f"{_EXTRA}credential-id": [f"JTI={claims['jti']}"]}
        for word, kind in _BOUND.items():
            reference = private.get(word)
            if reference is None:
                continue
            # A pod's node is told, not checked: nodes come and go while their pods run on.
            if word != "node" or "pod" not in private:
                self._must_live(kind, namespace if kind.namespaced else "", reference)
            if word != "secret":
                extra[f"{_EXTRA}{word}-name"] = [reference["name"]]
                extra[f"{_EXTRA}{word}-uid"] = [reference["uid"]]
        return Identity(account_user(namespace, account, extra), meant)

    def _legacy(self, token: str, claims: Claims, audiences: Sequence[str]) -> Identity:
        """Check the token of a Secret: good as long as that Secret holds it."""
        meant = tuple(one for one in audiences if one in self.audiences)
        if not meant:
            raise BadToken("tokens of Secrets are for the API server alone")
        namespace = claims[f"{_PREFIX}namespace"]
        account = {
            "name": claims[f"{_PREFIX}service-account.name"],
            "uid": claims[f"{_PREFIX}service-account.uid"],
        }
        self._must_live(kinds.SERVICE_ACCOUNT, namespace, account)
        secret = self._find(kinds.SECRET, namespace, claims[f"{_PREFIX}secret.name"])
        held = b64decode((secret or {}).get("data", {}).get("token", ""))
        if secret is None or not hmac.compare_digest(held, token.encode()):
            raise BadToken("its Secret is gone or holds another token")
        return Identity(account_user(namespace, account), meant)

    def _check_times(self, claims: Claims) -> None:
        now = self._now()
        if now > claims["exp"] + _LEEWAY:
            raise BadToken("it has expired")
        if now < claims["nbf"] - _LEEWAY:
            raise BadToken("it is not valid yet")

    def _must_live(self, kind: Kind, namespace: str, reference: Mapping[str, Any]) -> None:
        obj = self._find(kind, namespace, reference["name"])
        if obj is None or obj["metadata"]["uid"] != reference["uid"]:
            raise BadToken(f"{kind.singular} {reference['name']!r} is gone")
        deleted = obj["metadata"].get("deletionTimestamp")
        if deleted and times.parse(deleted) < self._now() - _LEEWAY:
            raise BadToken(f"{kind.singular} {reference['name']!r} has been deleted")

    def _find(self, kind: Kind, namespace: str, name: str) -> Obj | None:
        record = self._store.get(bucket_of(kind), Key(namespace, name))
        return None if record is None else record.decode()

    # For whoever checks our tokens elsewhere

    def configuration(self, address: str) -> Obj:
        """Make the OpenID discovery document; `address` is host:port as the asker wrote it."""
        return {
            "issuer": self.issuer,
            "jwks_uri": f"https://{address}/openid/v1/jwks",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
        }

    def key_set(self) -> Obj:
        return {"keys": [self._key.jwk()]}


def account_user(
    namespace: str, account: Mapping[str, str], extra: Mapping[str, list[str]] | None = None
) -> User:
    """Make the user that a service account is."""
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}"]
    known = user(f"system:serviceaccount:{namespace}:{account['name']}", groups)
    return User(known.name, known.groups, account["uid"], extra or {})


def _named(obj: Obj) -> Obj:
    return {"name": obj["metadata"]["name"], "uid": obj["metadata"]["uid"]}
