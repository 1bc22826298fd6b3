"""Keeps the endpoints of the service `kubernetes` true: where this API server really listens.

Called by the controller manager whenever that service, its Endpoints or its EndpointSlice changes,
and at the start, since a control plane may have moved. As pkg/controlplane/reconcilers, with one
server. An address that others cannot reach is not published.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address

from ... import errors
from ...api.kinds import ENDPOINT_SLICE, ENDPOINTS, SERVICE, Kind
from ...api.objects import Key, Obj, key_of, labels_of
from ...client.api import Api, WatchEvent
from ...client.clock import Clock
from ...client.informer import Informer, Informers
from ..framework.controller import Controller, Result

KEY = Key("default", "kubernetes")
SKIP_MIRROR = "endpointslice.kubernetes.io/skip-mirror"
SERVICE_NAME = "kubernetes.io/service-name"


class KubernetesService(Controller):
    name = "kubernetes-service-controller"
    kind = SERVICE
    workers = 1

    def __init__(
        self,
        api: Api,
        informers: Informers,
        address: str,
        port: int,
        *,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(api, informers, clock=clock)
        self._wanted = wanted(address, port)
        self._informers: dict[Kind, Informer] = {}
        for kind in (ENDPOINTS, ENDPOINT_SLICE):
            self._informers[kind] = informers.informer(kind)
            self.watch(self._informers[kind], _ours)

    async def reconcile(self, key: Key) -> Result:
        if key != KEY or self.objects.get(KEY) is None:
            return Result.done()
        for kind, obj in self._wanted:
            await self._write(kind, obj)
        return Result.done()

    async def _write(self, kind: Kind, obj: Obj) -> None:
        found = self._informers[kind].get(KEY)
        if found is None:
            made = await self.api.create(kind, obj, namespace=KEY.namespace)
            await self._informers[kind].seen(made)
        elif not _is_so(found, obj):
            if found.get("addressType") not in (None, obj.get("addressType")):
                await self.api.delete(kind, KEY)  # what cannot be changed is made anew
                raise errors.Conflict("the endpoint of kubernetes changes its family")
            metadata = {**found["metadata"], "labels": obj["metadata"]["labels"]}
            written = await self.api.update(kind, {**obj, "metadata": metadata})
            await self._informers[kind].seen(written)


def _ours(event: WatchEvent, _: Obj | None) -> Iterable[Key]:
    if key_of(event.object) == KEY:
        yield KEY


def _is_so(found: Obj, obj: Obj) -> bool:
    fields = [name for name in obj if name not in ("metadata", "apiVersion", "kind")]
    same = all(found.get(name) == obj[name] for name in fields)
    return same and labels_of(found) == labels_of(obj)


def wanted(address: str, port: int) -> list[tuple[Kind, Obj]]:
    """Return the two objects; none for a loopback address, which means another host to each."""
    try:
        ip = ip_address(address)
    except ValueError:
        return []
    if ip.is_loopback or ip.is_unspecified:
        return []
    ports = [{"name": "https", "port": port, "protocol": "TCP"}]
    names = {"name": KEY.name, "namespace": KEY.namespace}
    endpoints = {
        "apiVersion": ENDPOINTS.api_version,
        "kind": ENDPOINTS.kind,
        "metadata": {**names, "labels": {SKIP_MIRROR: "true"}},
        "subsets": [{"addresses": [{"ip": address}], "ports": ports}],
    }
    one = {
        "apiVersion": ENDPOINT_SLICE.api_version,
        "kind": ENDPOINT_SLICE.kind,
        "metadata": {**names, "labels": {SERVICE_NAME: KEY.name}},
        "addressType": f"IPv{ip.version}",
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
        "ports": ports,
    }
    return [(ENDPOINTS, endpoints), (ENDPOINT_SLICE, one)]
