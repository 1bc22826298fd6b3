"""Keeps a ServiceAccount `default` in every namespace: pods that name none run as it.

Called by the controller manager with the key of a namespace whenever it, or a ServiceAccount in it,
changes. As pkg/controller/serviceaccount/serviceaccounts_controller.go; tokens are not its work.
"""

from __future__ import annotations

from collections.abc import Iterable

from ... import errors
from ...api.kinds import NAMESPACE, SERVICE_ACCOUNT
from ...api.objects import Key, Obj, is_deleting, meta
from ...client.api import Api, WatchEvent
from ...client.clock import Clock
from ...client.informer import Informers
from ..framework.controller import Controller, Result
from ..workloads.pod_control import is_namespace_terminating

DEFAULT = "default"


class ServiceAccounts(Controller):
    name = "serviceaccount-controller"
    kind = NAMESPACE

    def __init__(self, api: Api, informers: Informers, *, clock: Clock | None = None) -> None:
        super().__init__(api, informers, clock=clock)
        self._accounts = informers.informer(SERVICE_ACCOUNT)
        self.watch(self._accounts, _lost)

    async def reconcile(self, key: Key) -> Result:
        namespace = self.objects.get(key)
        if namespace is None or is_deleting(namespace):
            return Result.done()
        if self._accounts.get(Key(key.name, DEFAULT)) is not None:
            return Result.done()
        account = {
            "apiVersion": SERVICE_ACCOUNT.api_version,
            "kind": SERVICE_ACCOUNT.kind,
            "metadata": {"name": DEFAULT, "namespace": key.name},
        }
        try:
            await self.api.create(SERVICE_ACCOUNT, account, namespace=key.name)
        except errors.AlreadyExists:
            pass
        except errors.Forbidden as error:
            if not is_namespace_terminating(error):
                raise
        return Result.done()


def _lost(event: WatchEvent, previous: Obj | None) -> Iterable[Key]:
    metadata = meta(event.object)
    if event.type == "DELETED" and metadata["name"] == DEFAULT:
        yield Key("", metadata["namespace"])
