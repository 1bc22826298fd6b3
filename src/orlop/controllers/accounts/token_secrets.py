"""Fills Secrets of the type kubernetes.io/service-account-token; removes those of gone accounts.

Called by the controller manager with the key of a Secret whenever it, or the ServiceAccount that
its annotation names, changes. Such tokens have no time of expiry; they end with their Secret. As
pkg/controller/serviceaccount/tokens_controller.go.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable

from ... import errors
from ...api.kinds import SECRET, SERVICE_ACCOUNT
from ...api.objects import Key, Obj, annotations_of, is_deleting, key_of, meta, uid_of
from ...client.api import Api, WatchEvent
from ...client.clock import Clock
from ...client.informer import Informers
from ...jwt import SigningKey
from ..framework.controller import Loop, Result

TYPE = "kubernetes.io/service-account-token"
ACCOUNT_NAME = "kubernetes.io/service-account.name"
ACCOUNT_UID = "kubernetes.io/service-account.uid"
_CLAIM = "kubernetes.io/serviceaccount/"
_BY_ACCOUNT = "service account"


class TokenSecrets(Loop[Key]):
    name = "serviceaccount-token-controller"

    def __init__(
        self,
        api: Api,
        informers: Informers,
        signing_key: SigningKey,
        root_ca: str,
        *,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(api, informers, clock=clock)
        self._signing_key = signing_key
        self._root_ca = root_ca
        self._accounts = informers.informer(SERVICE_ACCOUNT)
        self._secrets = informers.metadata(SECRET)  # their contents are nobody's business here
        self._secrets.add_index(_BY_ACCOUNT, _account_of)
        self.watch(self._secrets, lambda event, _: _named(event.object))
        self.watch(self._accounts, self._of_account)

    def _of_account(self, event: WatchEvent, previous: Obj | None) -> Iterable[Key]:
        if event.type != "MODIFIED":
            account = str(key_of(event.object))
            yield from map(key_of, self._secrets.by_index(_BY_ACCOUNT, account))

    async def reconcile(self, key: Key) -> Result:
        if self._secrets.get(key) is None:
            return Result.done()
        secret = await self.api.get(SECRET, key)
        if secret.get("type") != TYPE or is_deleting(secret):
            return Result.done()
        annotations = annotations_of(secret)
        account = await self._account(Key(key.namespace, annotations.get(ACCOUNT_NAME, "")))
        wanted = annotations.get(ACCOUNT_UID)
        if account is None or (wanted and wanted != uid_of(account)):
            # Nobody's token: as upstream, it goes with its account, or never lives.
            version = meta(secret)["resourceVersion"]
            await self.api.delete(SECRET, key, uid=uid_of(secret), resource_version=version)
        else:
            await self._fill(secret, account)
        return Result.done()

    async def _account(self, key: Key) -> Obj | None:
        """Return the account; ask the API server where the cache knows none: it may be behind."""
        cached = self._accounts.get(key)
        if cached is not None:
            return cached
        try:
            return await self.api.get(SERVICE_ACCOUNT, key)
        except errors.NotFound:
            return None

    async def _fill(self, secret: Obj, account: Obj) -> None:
        data, namespace = secret.get("data") or {}, meta(secret)["namespace"]
        lacks = {"namespace": namespace, "ca.crt": self._root_ca}
        if not data.get("token"):
            lacks["token"] = self._token(secret, account)
        lacking = {name: _encoded(text) for name, text in lacks.items()}
        patch: Obj = {}
        if any(data.get(name) != text for name, text in lacking.items()):
            patch["data"] = lacking
        metadata: Obj = {"resourceVersion": meta(secret)["resourceVersion"]}
        if annotations_of(secret).get(ACCOUNT_UID) != uid_of(account):
            patch["metadata"] = metadata | {"annotations": {ACCOUNT_UID: uid_of(account)}}
        if patch:
            await self.api.patch(SECRET, key_of(secret), {"metadata": metadata, **patch})

    def _token(self, secret: Obj, account: Obj) -> str:
        namespace, name = meta(account)["namespace"], meta(account)["name"]
        return self._signing_key.sign(
            {
                "iss": "kubernetes/serviceaccount",
                "sub": f"system:serviceaccount:{namespace}:{name}",
                f"{_CLAIM}namespace": namespace,
                f"{_CLAIM}secret.name": meta(secret)["name"],
                f"{_CLAIM}service-account.name": name,
                f"{_CLAIM}service-account.uid": uid_of(account),
            }
        )


def _account_of(secret: Obj) -> Iterable[str]:
    name = annotations_of(secret).get(ACCOUNT_NAME)
    return (str(Key(meta(secret)["namespace"], name)),) if name else ()


def _named(secret: Obj) -> Iterable[Key]:
    return (key_of(secret),) if annotations_of(secret).get(ACCOUNT_NAME) else ()


def _encoded(text: str) -> str:
    return b64encode(text.encode()).decode()
