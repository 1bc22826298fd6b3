"""Publishes the cluster's CA in every namespace, so that pods can trust the API server.

Called by the controller manager with the key of a namespace whenever it, or the ConfigMap
kube-root-ca.crt in it, changes. As pkg/controller/certificates/rootcacertpublisher. The key is not
published.
"""

from __future__ import annotations

from collections.abc import Iterable

from ... import errors
from ...api.kinds import CONFIG_MAP, NAMESPACE
from ...api.objects import Key, Obj, is_deleting, meta
from ...client.api import Api, WatchEvent
from ...client.clock import Clock
from ...client.informer import Informers
from ..framework.controller import Controller, Result
from ..workloads.pod_control import is_namespace_terminating

NAME = "kube-root-ca.crt"
_DESCRIPTION = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal "
    "endpoints such as the internal service IP or kubernetes.default.svc. No other usage is "
    "guaranteed across distributions of Kubernetes clusters."
)


class RootCa(Controller):
    name = "root-ca-certificate-publisher-controller"
    kind = NAMESPACE

    def __init__(
        self, api: Api, informers: Informers, certificate: str, *, clock: Clock | None = None
    ) -> None:
        super().__init__(api, informers, clock=clock)
        self._data = {"ca.crt": certificate}
        self.watch(informers.metadata(CONFIG_MAP), _touched)

    async def reconcile(self, key: Key) -> Result:
        namespace = self.objects.get(key)
        if namespace is None or is_deleting(namespace):
            return Result.done()
        place = Key(key.name, NAME)
        try:
            found = await self.api.get(CONFIG_MAP, place)
        except errors.NotFound:
            await self._create(place)
            return Result.done()
        if found.get("data") != self._data:
            gone = dict.fromkeys(found.get("data") or {})
            await self.api.patch(CONFIG_MAP, place, {"data": {**gone, **self._data}})
        return Result.done()

    async def _create(self, place: Key) -> None:
        config_map = {
            "apiVersion": CONFIG_MAP.api_version,
            "kind": CONFIG_MAP.kind,
            "metadata": {
                "name": place.name,
                "namespace": place.namespace,
                "annotations": {"kubernetes.io/description": _DESCRIPTION},
            },
            "data": self._data,
        }
        try:
            await self.api.create(CONFIG_MAP, config_map, namespace=place.namespace)
        except errors.Forbidden as error:
            if not is_namespace_terminating(error):
                raise


def _touched(event: WatchEvent, previous: Obj | None) -> Iterable[Key]:
    metadata = meta(event.object)
    if metadata["name"] == NAME:
        yield Key("", metadata["namespace"])
