"""Publishes the pods behind each Service as Endpoints, for those who do not read EndpointSlices.

Called by the controller manager with the key of a Service whenever it, a pod it selects, or its
Endpoints change. As pkg/controller/endpoint; Endpoints of Services without a selector belong to
whoever made them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import msgspec

from ... import errors
from ...api.kinds import ENDPOINTS
from ...api.objects import Key, Obj, is_deleting, is_ready, is_terminal, key_of, labels_of, uid_of
from ...client.api import Api
from ...client.clock import Clock
from ...client.informer import Informers
from ..framework.controller import Result
from ..workloads.pod_control import is_namespace_terminating
from .service_pods import (
    HEADLESS,
    ServicePods,
    addresses_of,
    hostname_of,
    is_headless,
    is_managed,
    ports_of,
    publishes_not_ready,
    target_reference,
)

MANAGED_BY = "endpoints.kubernetes.io/managed-by"
MANAGER = "endpoint-controller"
OVER_CAPACITY = "endpoints.kubernetes.io/over-capacity"
LARGEST = 1000


class EndpointsController(ServicePods):
    name = "endpoint-controller"

    def __init__(self, api: Api, informers: Informers, *, clock: Clock | None = None) -> None:
        super().__init__(api, informers, clock=clock)
        self.endpoints = informers.informer(ENDPOINTS)
        self.watch(self.endpoints, lambda event, _: (key_of(event.object),))

    async def reconcile(self, key: Key) -> Result:
        service, found = self.objects.get(key), self.endpoints.get(key)
        if service is None or is_deleting(service):
            if found is not None and labels_of(found).get(MANAGED_BY) == MANAGER:
                await self._delete(found)
            return Result.done()
        if not is_managed(service):
            return Result.done()
        wanted = endpoints_of(service, self.selected(service))
        if found is None:
            await self._create(wanted)
        elif _differs(found, wanted):
            metadata = {**found["metadata"], **wanted["metadata"]}
            written = await self.api.update(ENDPOINTS, {**wanted, "metadata": metadata})
            await self.endpoints.seen(written)
        return Result.done()

    async def _create(self, wanted: Obj) -> None:
        namespace = wanted["metadata"]["namespace"]
        try:
            made = await self.api.create(ENDPOINTS, wanted, namespace=namespace)
        except errors.Forbidden as error:
            if is_namespace_terminating(error):
                return
            raise
        await self.endpoints.seen(made)

    async def _delete(self, found: Obj) -> None:
        try:
            await self.api.delete(ENDPOINTS, key_of(found), uid=uid_of(found))
        except errors.NotFound:
            return
        await self.endpoints.gone(found)


def _differs(found: Obj, wanted: Obj) -> bool:
    return bool(
        (found.get("subsets") or []) != wanted["subsets"]
        or labels_of(found) != wanted["metadata"]["labels"]
        or (found["metadata"].get("annotations") or {}) != wanted["metadata"]["annotations"]
    )


def endpoints_of(service: Obj, pods: Iterable[Obj]) -> Obj:
    """Return the Endpoints object that should be there."""
    namespace, name = key_of(service)
    labels = {**labels_of(service), MANAGED_BY: MANAGER}
    if is_headless(service):
        labels[HEADLESS] = ""
    chosen = sorted((pod for pod in pods if _belongs(service, pod)), key=lambda p: not is_ready(p))
    annotations = {OVER_CAPACITY: "truncated"} if len(chosen) > LARGEST else {}
    return {
        "apiVersion": ENDPOINTS.api_version,
        "kind": ENDPOINTS.kind,
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": labels,
            "annotations": annotations,
        },
        "subsets": _subsets(service, chosen[:LARGEST]),
    }


def _belongs(service: Obj, pod: Obj) -> bool:
    if is_terminal(pod) or not addresses_of(pod, _family(service)):
        return False
    return publishes_not_ready(service) or not is_deleting(pod)


def _family(service: Obj) -> str:
    return str((service["spec"].get("ipFamilies") or ["IPv4"])[0])


def _subsets(service: Obj, pods: Iterable[Obj]) -> list[Obj]:
    """Group pods with the same ports into one subset."""
    by_ports: dict[bytes, Obj] = defaultdict(dict)
    for pod in pods:
        ports = ports_of(service, pod)
        if not ports and not is_headless(service):
            continue
        subset = by_ports[msgspec.json.encode(ports)]
        is_up = publishes_not_ready(service) or is_ready(pod)
        field = "addresses" if is_up else "notReadyAddresses"
        subset.setdefault(field, []).append(_address(service, pod))
        if ports:
            subset["ports"] = ports
    for subset in by_ports.values():
        for field in ("addresses", "notReadyAddresses"):
            if field in subset:
                subset[field].sort(key=lambda address: (address["ip"], address["targetRef"]["uid"]))
    return [by_ports[ports] for ports in sorted(by_ports)]


def _address(service: Obj, pod: Obj) -> Obj:
    address: Obj = {
        "ip": addresses_of(pod, _family(service))[0],
        "targetRef": target_reference(pod),
    }
    if pod["spec"].get("nodeName"):
        address["nodeName"] = pod["spec"]["nodeName"]
    if hostname_of(pod, service):
        address["hostname"] = hostname_of(pod, service)
    return address
