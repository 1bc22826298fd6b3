"""Signs the ConfigMap cluster-info with every bootstrap token that may sign.

Called by the controller manager whenever that ConfigMap or a bootstrap token changes. Who joins
with nothing but a token can thus tell the true address and authority of the cluster; where there is
no cluster-info, nothing is done. As pkg/controller/bootstrap/bootstrapsigner.go.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Iterable
from typing import ClassVar

from ...api import times
from ...api.kinds import CONFIG_MAP, SECRET
from ...api.objects import Key, Obj, is_deleting, key_of, meta
from ...client.api import Api, WatchEvent
from ...client.clock import Clock
from ...client.informer import Informers
from ..framework.controller import Loop, Result
from .token_cleaner import TYPE

CLUSTER_INFO = Key("kube-public", "cluster-info")
_KUBECONFIG, _SIGNATURE = "kubeconfig", "jws-kubeconfig-"


class BootstrapSigner(Loop[Key]):
    name: ClassVar[str] = "bootstrap-signer"
    workers: ClassVar[int] = 1

    def __init__(self, api: Api, informers: Informers, *, clock: Clock | None = None) -> None:
        super().__init__(api, informers, clock=clock)
        self._maps = informers.informer(CONFIG_MAP)
        self._secrets = informers.informer(SECRET)
        self.watch(self._maps, self._map_changed)
        self.watch(self._secrets, self._secret_changed)

    def _map_changed(self, event: WatchEvent, previous: Obj | None) -> Iterable[Key]:
        return (CLUSTER_INFO,) if key_of(event.object) == CLUSTER_INFO else ()

    def _secret_changed(self, event: WatchEvent, previous: Obj | None) -> Iterable[Key]:
        return (CLUSTER_INFO,) if _is_token(event.object) else ()

    async def reconcile(self, key: Key) -> Result:
        info = self._maps.get(key)
        data = (info or {}).get("data") or {}
        if info is None or _KUBECONFIG not in data:
            return Result.done()
        tokens = dict(filter(None, map(self._token, self._secrets.list("kube-system"))))
        wanted = {
            _SIGNATURE + name: signature(name, secret, data[_KUBECONFIG])
            for name, secret in tokens.items()
        }
        present = {name: text for name, text in data.items() if name.startswith(_SIGNATURE)}
        if wanted == present:
            return Result.done()
        change = {**dict.fromkeys(present, None), **wanted}
        lock = {"resourceVersion": meta(info)["resourceVersion"]}
        written = await self.api.patch(CONFIG_MAP, key, {"metadata": lock, "data": change})
        await self._maps.seen(written)
        return Result.done()

    def _token(self, secret: Obj) -> tuple[str, str] | None:
        """Return the id and the secret of a token that may sign now."""
        if not _is_token(secret) or is_deleting(secret):
            return None
        found = _decoded(secret)
        is_usable = found.get("usage-bootstrap-signing") == "true"
        name, own = found.get("token-id"), found.get("token-secret")
        if not is_usable or not name or not own or self._is_over(found.get("expiration")):
            return None
        return (name, own) if meta(secret)["name"] == f"bootstrap-token-{name}" else None

    def _is_over(self, expiration: str | None) -> bool:
        if not expiration:
            return False
        try:
            return times.parse(expiration) <= self.clock.now()
        except ValueError:
            return True


def signature(name: str, secret: str, content: str) -> str:
    """Return a detached JWS (RFC 7515, appendix F) with HMAC-SHA256 under the whole token."""
    header = _base64(json.dumps({"alg": "HS256", "kid": name}, separators=(",", ":")).encode())
    signed = f"{header}.{_base64(content.encode())}".encode()
    mac = hmac.new(f"{name}.{secret}".encode(), signed, hashlib.sha256).digest()
    return f"{header}..{_base64(mac)}"


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _is_token(secret: Obj) -> bool:
    return secret.get("type") == TYPE and meta(secret).get("namespace") == "kube-system"


def _decoded(secret: Obj) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, text in (secret.get("data") or {}).items():
        try:
            found[name] = base64.b64decode(text).decode()
        except (ValueError, binascii.Error):
            continue
    return found
