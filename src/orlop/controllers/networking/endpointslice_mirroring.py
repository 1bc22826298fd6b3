"""Mirrors Endpoints that people write by hand as EndpointSlices, which is what is read.

Called by the controller manager with the key of an Endpoints object whenever it, its Service or one
of the slices changes. As pkg/controller/endpointslicemirroring: for Services without a selector,
whose slices are made here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from ipaddress import ip_address

from ...api.kinds import ENDPOINT_SLICE, ENDPOINTS, SERVICE
from ...api.objects import (
    Key,
    Obj,
    annotations_of,
    is_deleting,
    key_of,
    labels_of,
    meta,
    owner_reference,
)
from ...client.api import Api
from ...client.clock import Clock
from ...client.informer import Informers
from ..framework.controller import Controller, Result
from .endpointslice_writes import make, remove
from .kubernetes_service import SERVICE_NAME, SKIP_MIRROR

MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
MANAGER = "endpointslicemirroring-controller.k8s.io"
LEADER = "control-plane.alpha.kubernetes.io/leader"
BY_ENDPOINTS = "mirrored"
LARGEST = 1000


class EndpointSliceMirroring(Controller):
    name = "endpointslice-mirroring-controller"
    kind = ENDPOINTS

    def __init__(self, api: Api, informers: Informers, *, clock: Clock | None = None) -> None:
        super().__init__(api, informers, clock=clock)
        self.services = informers.informer(SERVICE)
        self.slices = informers.informer(ENDPOINT_SLICE)
        self.slices.add_index(BY_ENDPOINTS, lambda one: (str(key) for key in _mirrored(one)))
        self.watch(self.services, lambda event, _: (key_of(event.object),))
        self.watch(self.slices, lambda event, _: _mirrored(event.object))

    async def reconcile(self, key: Key) -> Result:
        endpoints, service = self.objects.get(key), self.services.get(key)
        found = sorted(self.slices.by_index(BY_ENDPOINTS, str(key)), key=key_of)
        if endpoints is None or not should_mirror(endpoints, service):
            wanted: list[Obj] = []
        else:
            wanted = list(slices_of(endpoints))
        for number, one in enumerate(wanted):
            await self._write(one, found[number] if number < len(found) else None)
        for one in found[len(wanted) :]:
            await remove(self.api, self.slices, one)
        return Result.done()

    async def _write(self, one: Obj, former: Obj | None) -> None:
        if former is not None and former["addressType"] != one["addressType"]:
            await remove(self.api, self.slices, former)  # what cannot be changed is made anew
            former = None
        if former is None:
            await make(self.api, self.slices, one)
            return
        target = {**former, **one, "metadata": {**meta(former), "labels": labels_of(one)}}
        if target != former:
            await self.slices.seen(await self.api.update(ENDPOINT_SLICE, target))


def _mirrored(one: Obj) -> Iterable[Key]:
    labels = labels_of(one)
    if labels.get(MANAGED_BY) == MANAGER and SERVICE_NAME in labels:
        yield Key(meta(one)["namespace"], labels[SERVICE_NAME])


def should_mirror(endpoints: Obj, service: Obj | None) -> bool:
    if service is None or is_deleting(service) or service["spec"].get("selector"):
        return False
    is_lock = LEADER in annotations_of(endpoints)
    return not is_lock and labels_of(endpoints).get(SKIP_MIRROR) != "true"


def slices_of(endpoints: Obj) -> Iterator[Obj]:
    """Yield the slices that say the same: one for each subset and family."""
    for subset in endpoints.get("subsets") or []:
        every = [
            *((address, True) for address in subset.get("addresses") or []),
            *((address, False) for address in subset.get("notReadyAddresses") or []),
        ]
        for family in ("IPv4", "IPv6"):
            members = [_endpoint(*one) for one in every if _family(one[0]["ip"]) == family]
            if members:
                yield _slice(endpoints, family, members[:LARGEST], subset.get("ports") or [])


def _family(address: str) -> str:
    return f"IPv{ip_address(address).version}"


def _endpoint(address: Obj, is_ready: bool) -> Obj:
    endpoint: Obj = {"addresses": [address["ip"]], "conditions": {"ready": is_ready}}
    for field in ("hostname", "nodeName", "targetRef"):
        if address.get(field):
            endpoint[field] = address[field]
    return endpoint


def _slice(endpoints: Obj, family: str, members: list[Obj], ports: list[Obj]) -> Obj:
    key = key_of(endpoints)
    labels = {**labels_of(endpoints), SERVICE_NAME: key.name, MANAGED_BY: MANAGER}
    return {
        "apiVersion": ENDPOINT_SLICE.api_version,
        "kind": ENDPOINT_SLICE.kind,
        "metadata": {
            "generateName": f"{key.name}-",
            "namespace": key.namespace,
            "labels": labels,
            "ownerReferences": [
                owner_reference(
                    {**endpoints, "apiVersion": ENDPOINTS.api_version, "kind": ENDPOINTS.kind}
                )
            ],
        },
        "addressType": family,
        "endpoints": members,
        "ports": [{**port, "name": port.get("name", "")} for port in ports],
    }
