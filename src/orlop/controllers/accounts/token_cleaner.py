"""Removes bootstrap tokens whose time is over.

Called by the controller manager with the key of a Secret when it changes and when the token in it
expires; other Secrets are skipped. As pkg/controller/bootstrap/tokencleaner.go.
"""

from __future__ import annotations

import base64
import binascii

from ... import errors
from ...api import times
from ...api.kinds import SECRET
from ...api.objects import Key, Obj, uid_of
from ..framework.controller import Controller, Result

TYPE = "bootstrap.kubernetes.io/token"


class TokenCleaner(Controller):
    name = "token-cleaner"
    kind = SECRET
    workers = 1

    async def reconcile(self, key: Key) -> Result:
        secret = self.objects.get(key)
        is_token = secret is not None and secret.get("type") == TYPE
        if secret is None or not is_token or key.namespace != "kube-system":
            return Result.done()
        expires = _expires(secret)
        if expires is None:
            return Result.done()
        left = expires - self.clock.now()
        if left > 0:
            return Result.again(left)
        try:
            await self.api.delete(SECRET, key, uid=uid_of(secret))
        except (errors.NotFound, errors.Conflict):
            return Result.done()
        self.log.info("deleted expired bootstrap token", secret=key)
        return Result.done()


def _expires(secret: Obj) -> float | None:
    """Return when the token expires, None where it does not; an unreadable time means it has."""
    written = (secret.get("data") or {}).get("expiration")
    if not written:
        return None
    try:
        return times.parse(base64.b64decode(written).decode())
    except (ValueError, binascii.Error):
        return 0.0
