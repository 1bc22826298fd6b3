"""Publishes the pods behind each Service as EndpointSlices of at most 100 endpoints.

Called by the controller manager with the key of a Service whenever it, a pod it selects, or one of
its slices changes. Endpoints stay in the slice they are in, so that one changed pod is one changed
slice. As pkg/controller/endpointslice; slices that others made stay as they are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from ...api.kinds import ENDPOINT_SLICE
from ...api.objects import (
    Key,
    Obj,
    is_controlled_by,
    is_deleting,
    is_ready,
    is_terminal,
    labels_of,
    meta,
    owner_reference,
)
from ...client.api import Api
from ...client.clock import Clock
from ...client.informer import Informers
from ..framework.controller import Result
from .endpointslice_writes import make, remove
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

SERVICE_NAME = "kubernetes.io/service-name"
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
MANAGER = "endpointslice-controller.k8s.io"
BY_SERVICE = "service"
LARGEST = 100


class Group(NamedTuple):
    """Endpoints of one family and one set of ports share slices."""

    family: str
    ports: str  # JSON, so that it is a key

    @classmethod
    def of(cls, family: str, ports: Sequence[Obj]) -> Group:
        return cls(family, msgspec.json.encode(list(ports), order="sorted").decode())

    def port_list(self) -> list[Obj]:
        ports: list[Obj] = msgspec.json.decode(self.ports)
        return ports


class EndpointSlices(ServicePods):
    name = "endpointslice-controller"

    def __init__(self, api: Api, informers: Informers, *, clock: Clock | None = None) -> None:
        super().__init__(api, informers, clock=clock)
        self.slices = informers.informer(ENDPOINT_SLICE)
        self.slices.add_index(BY_SERVICE, lambda one: (str(key) for key in _services(one)))
        self.watch(self.slices, lambda event, _: _services(event.object))

    async def reconcile(self, key: Key) -> Result:
        service = self.objects.get(key)
        slices = self.slices.by_index(BY_SERVICE, str(key))
        if service is None or is_deleting(service):
            return Result.done()  # the garbage collector takes the slices
        if not is_managed(service):
            await self._write(Changes([], [], _owned(service, slices)))
            return Result.done()
        wanted = endpoints_of(service, self.selected(service))
        await self._write(arrange(service, wanted, slices))
        return Result.done()

    async def _write(self, changes: Changes) -> None:
        for one in changes.create:
            if not await make(self.api, self.slices, one):
                return
        for one in changes.update:
            await self.slices.seen(await self.api.update(ENDPOINT_SLICE, one))
        for one in changes.delete:
            await remove(self.api, self.slices, one)


def _services(one: Obj) -> Iterable[Key]:
    """Return the Service of a slice that is ours to manage."""
    labels = labels_of(one)
    if labels.get(MANAGED_BY) == MANAGER and SERVICE_NAME in labels:
        yield Key(meta(one)["namespace"], labels[SERVICE_NAME])


def _owned(service: Obj, slices: Iterable[Obj]) -> list[Obj]:
    """Return slices made while the Service had a selector; it must have lost it since."""
    return [one for one in slices if is_controlled_by(one, service)]


def endpoints_of(service: Obj, pods: Iterable[Obj]) -> dict[Group, list[Obj]]:
    """Return the endpoints that should be published, by group."""
    groups: dict[Group, list[Obj]] = defaultdict(list)
    for pod in pods:
        if is_terminal(pod):
            continue
        for family in service["spec"].get("ipFamilies") or ["IPv4"]:
            addresses = addresses_of(pod, family)
            if addresses:
                group = Group.of(family, [_slice_port(port) for port in ports_of(service, pod)])
                groups[group].append(_endpoint(service, pod, addresses))
    return dict(groups)


def _slice_port(port: Obj) -> Obj:
    return {**port, "name": port.get("name", "")}


def _endpoint(service: Obj, pod: Obj, addresses: list[str]) -> Obj:
    serving, terminating = is_ready(pod), is_deleting(pod)
    endpoint: Obj = {
        "addresses": addresses,
        "conditions": {
            "ready": publishes_not_ready(service) or (serving and not terminating),
            "serving": serving,
            "terminating": terminating,
        },
        "targetRef": target_reference(pod),
    }
    if pod["spec"].get("nodeName"):
        endpoint["nodeName"] = pod["spec"]["nodeName"]
    if hostname_of(pod, service):
        endpoint["hostname"] = hostname_of(pod, service)
    return endpoint


class Changes(NamedTuple):
    create: list[Obj]
    update: list[Obj]
    delete: list[Obj]


Contents = list[tuple[Obj | None, list[Obj]]]  # a slice, or one to be made, and what it will hold


def arrange(service: Obj, wanted: Mapping[Group, list[Obj]], slices: Sequence[Obj]) -> Changes:
    """Return the slices to create, to update and to delete, moving as few endpoints as can be.

    1. Each slice keeps those of its endpoints that are still wanted, as they are now.
    2. New endpoints fill the slices that have room, fullest first; the rest get new slices.
    3. Empty slices go; a Service without any endpoint keeps one empty slice.
    4. Instead of deleting one slice and creating another, the one becomes the other.
    """
    by_group: dict[Group, list[Obj]] = defaultdict(list)
    for one in sorted(slices, key=lambda one: meta(one)["name"]):
        by_group[Group.of(one["addressType"], one.get("ports") or [])].append(one)
    if not wanted:
        families = service["spec"].get("ipFamilies") or ["IPv4"]
        wanted = {Group.of(family, []): [] for family in families}
    stale = [one for group, those in by_group.items() if group not in wanted for one in those]
    changes = Changes([], [], stale)
    for group, endpoints in wanted.items():
        contents, rest = _refill(by_group[group], endpoints)
        while rest or not contents:
            contents.append((None, rest[:LARGEST]))
            rest = rest[LARGEST:]
        _compare(service, group, contents, changes)
    return _recycled(changes)


def _recycled(changes: Changes) -> Changes:
    create, update, delete = [], list(changes.update), list(changes.delete)
    for new in changes.create:
        family = new["addressType"]
        old = next((one for one in delete if one["addressType"] == family), None)
        if old is None:
            create.append(new)
            continue
        delete.remove(old)
        metadata = {**meta(old), "labels": labels_of(new)}
        update.append({**old, **new, "metadata": metadata})
    return Changes(create, update, delete)


def _compare(service: Obj, group: Group, contents: Contents, changes: Changes) -> None:
    full = [number for number, (_, kept) in enumerate(contents) if kept]
    stay = set(full or [0])
    for number, (former, kept) in enumerate(contents):
        if number not in stay:
            changes.delete.extend([former] if former is not None else [])
            continue
        target = _slice(service, group, kept, former)
        if former is None:
            changes.create.append(target)
        elif target != former:
            changes.update.append(target)


def _refill(slices: Sequence[Obj], endpoints: Sequence[Obj]) -> tuple[Contents, list[Obj]]:
    """Return what each slice holds from now on, and the endpoints that found no room."""
    rest = {_identity(endpoint): endpoint for endpoint in endpoints}
    contents: Contents = []
    for one in slices:
        names = [_identity(endpoint) for endpoint in one.get("endpoints") or []]
        contents.append((one, [rest.pop(name) for name in names if name in rest]))
    new = list(rest.values())
    for _, kept in sorted(contents, key=lambda pair: -len(pair[1])):
        room = LARGEST - len(kept)
        kept += new[:room]
        new = new[room:]
    return contents, new


def _identity(endpoint: Obj) -> str:
    return f"{(endpoint.get('targetRef') or {}).get('uid', '')} {endpoint['addresses'][0]}"


def _slice(service: Obj, group: Group, endpoints: list[Obj], former: Obj | None) -> Obj:
    labels = {**labels_of(service), SERVICE_NAME: meta(service)["name"], MANAGED_BY: MANAGER}
    if is_headless(service):
        labels[HEADLESS] = ""
    body: Obj = {
        "apiVersion": ENDPOINT_SLICE.api_version,
        "kind": ENDPOINT_SLICE.kind,
        "addressType": group.family,
        "endpoints": endpoints,
        "ports": group.port_list(),
    }
    if former is not None:
        return {**former, **body, "metadata": {**meta(former), "labels": labels}}
    metadata = {
        "generateName": f"{meta(service)['name']}-",
        "namespace": meta(service)["namespace"],
        "labels": labels,
        "ownerReferences": [owner_reference(service)],
    }
    return {**body, "metadata": metadata}
