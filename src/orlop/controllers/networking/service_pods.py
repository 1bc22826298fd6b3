"""Finds the pods behind a Service: which it selects, at which addresses and ports.

The base of the two controllers that publish them, as EndpointSlices and as Endpoints: they differ
in what they write. Services without a selector are left to whoever made them.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator

from ...api import selectors
from ...api.kinds import POD, SERVICE
from ...api.objects import Key, Obj, is_deleting, is_ready, is_terminal, key_of, labels_of, meta
from ...client.api import Api, WatchEvent
from ...client.clock import Clock
from ...client.informer import Informers
from ...destinations import special
from ..framework.controller import Controller

BY_LABEL = "label"
HEADLESS = "service.kubernetes.io/headless"


def labels_index(pod: Obj) -> Iterator[str]:
    namespace = meta(pod).get("namespace") or ""
    return (_label(namespace, name, value) for name, value in labels_of(pod).items())


def _label(namespace: str, name: str, value: str) -> str:
    return f"{namespace}/{name}={value}"


class ServicePods(Controller):
    """Loop over Services; a changed pod queues those that select it, now or before its change."""

    kind = SERVICE

    def __init__(self, api: Api, informers: Informers, *, clock: Clock | None = None) -> None:
        super().__init__(api, informers, clock=clock)
        self.pods = informers.informer(POD)
        self.pods.add_index(BY_LABEL, labels_index)
        self.watch(self.pods, self._selecting)

    def selected(self, service: Obj) -> list[Obj]:
        """Return the pods that the selector matches, sorted by name; found by its rarest label."""
        wanted: dict[str, str] = service["spec"].get("selector") or {}
        namespace = meta(service)["namespace"]
        values = [_label(namespace, name, value) for name, value in wanted.items()]
        rarest = min(values, key=lambda value: self.pods.count_by_index(BY_LABEL, value))
        selector = selectors.from_labels(wanted)
        pods = self.pods.by_index(BY_LABEL, rarest)
        return sorted((pod for pod in pods if selector.matches(labels_of(pod))), key=key_of)

    def _selecting(self, event: WatchEvent, previous: Obj | None) -> Iterable[Key]:
        pod = event.object
        if previous is not None and event.type != "DELETED" and _face(pod) == _face(previous):
            return ()
        sets = [labels_of(pod)]
        if previous is not None and labels_of(previous) != sets[0]:
            sets.append(labels_of(previous))
        return [
            key_of(service)
            for service in self.objects.list(meta(pod).get("namespace") or "")
            if any(_selects(service, labels) for labels in sets)
        ]


def _selects(service: Obj, labels: dict[str, str]) -> bool:
    wanted: dict[str, str] = service["spec"].get("selector") or {}
    return bool(wanted) and wanted.items() <= labels.items()


def _face(pod: Obj) -> tuple[object, ...]:
    """Return all of a pod that its Services can see."""
    status, spec = pod.get("status") or {}, pod["spec"]
    return (
        labels_of(pod),
        status.get("podIP"),
        status.get("podIPs"),
        is_ready(pod),
        is_terminal(pod),
        is_deleting(pod),
        spec.get("nodeName"),
        spec.get("hostname"),
    )


def is_managed(service: Obj) -> bool:
    """Return whether its pods are found by a selector, and are reached through it at all."""
    spec = service["spec"]
    return bool(spec.get("selector")) and spec.get("type") != "ExternalName"


def is_headless(service: Obj) -> bool:
    return bool(service["spec"].get("clusterIP") == "None")


def publishes_not_ready(service: Obj) -> bool:
    return bool(service["spec"].get("publishNotReadyAddresses"))


def addresses_of(pod: Obj, family: str) -> list[str]:
    """Return the pod's addresses of one family, `IPv4` or `IPv6`, by which others reach it, too.

    A pod on the network of a node that has none but loopback has no such address.
    """
    status = pod.get("status") or {}
    ips = [one["ip"] for one in status.get("podIPs") or []]
    if not ips and status.get("podIP"):
        ips = [status["podIP"]]
    found = map(ipaddress.ip_address, ips)
    return [str(ip) for ip in found if f"IPv{ip.version}" == family and not special(ip)]


def hostname_of(pod: Obj, service: Obj) -> str:
    """Return the name that DNS gives a pod of a headless Service that is its subdomain."""
    spec = pod["spec"]
    is_named = spec.get("hostname") and spec.get("subdomain") == meta(service)["name"]
    return str(spec["hostname"]) if is_named else ""


def target_reference(pod: Obj) -> Obj:
    metadata = meta(pod)
    return {
        "kind": POD.kind,
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata["uid"],
    }


def ports_of(service: Obj, pod: Obj) -> list[Obj]:
    """Return the Service's ports as this pod has them; a named one that it lacks is left out."""
    ports: list[Obj] = []
    for port in service["spec"].get("ports") or []:
        number = _port_number(port, pod)
        if number is None:
            continue
        resolved: Obj = {"port": number, "protocol": port.get("protocol", "TCP")}
        if port.get("name"):
            resolved["name"] = port["name"]
        if port.get("appProtocol"):
            resolved["appProtocol"] = port["appProtocol"]
        ports.append(resolved)
    return ports


def _port_number(port: Obj, pod: Obj) -> int | None:
    target = port.get("targetPort") or port["port"]
    if isinstance(target, int):
        return target
    protocol = port.get("protocol", "TCP")
    spec = pod["spec"]
    for container in [*(spec.get("containers") or []), *(spec.get("initContainers") or [])]:
        for own in container.get("ports") or []:
            if own.get("name") == target and own.get("protocol", "TCP") == protocol:
                return int(own["containerPort"])
    return None
