"""Computes what a service is to those who connect to it: its ports, and the endpoints of each.

Used by the kubelet on the Service and its EndpointSlices, whoever made them. Pure. Which endpoints
count is kube-proxy's rule: the ready ones, and where there is none, those that still serve while
they end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..api.objects import Obj, meta

SERVICE_NAME = "kubernetes.io/service-name"
DEFAULT_AFFINITY = 10800  # seconds, as upstream


def cluster_ips(service: Obj) -> list[str]:
    """Return its addresses; none for a headless one or one that is a name."""
    spec = service.get("spec") or {}
    ips = spec.get("clusterIPs") or [spec.get("clusterIP")]
    return [ip for ip in ips if ip and ip != "None"]


def is_headless(service: Obj) -> bool:
    return bool(service["spec"].get("clusterIP") == "None")


def service_value(service: Obj, slices: Iterable[Obj]) -> Obj:
    """Return what agents are told of a service with an address."""
    spec, slices = service["spec"], list(slices)
    return {
        "ports": [_port(port, slices) for port in spec.get("ports") or []],
        "affinity": _affinity(spec),
        "internalPolicy": spec.get("internalTrafficPolicy") or "Cluster",
    }


def _port(port: Obj, slices: list[Obj]) -> Obj:
    protocol = port.get("protocol") or "TCP"
    name = port.get("name") or ""
    ready: dict[tuple[str, int], str] = {}
    ending: dict[tuple[str, int], str] = {}
    for one in slices:
        for number in _numbers(one, name, protocol):
            for endpoint in one.get("endpoints") or []:
                state = _state(endpoint)
                if state is not None:
                    chosen = ready if state else ending
                    node = endpoint.get("nodeName") or ""
                    chosen |= {(address, number): node for address in endpoint["addresses"]}
    found = ready or ending
    return {
        "protocol": protocol.lower(),
        "port": port["port"],
        "name": name,
        "endpoints": [[ip, number, found[ip, number]] for ip, number in sorted(found)],
    }


def _numbers(one: Obj, name: str, protocol: str) -> Iterator[int]:
    """Yield the ports of a slice that are meant by a port of its service."""
    if one.get("addressType") == "FQDN":
        return
    for port in one.get("ports") or []:
        is_meant = (port.get("name") or "") == name and (port.get("protocol") or "TCP") == protocol
        if is_meant and port.get("port"):
            yield int(port["port"])


def _state(endpoint: Obj) -> bool | None:
    """Return True: ready; False: serves until it has ended; None: not to be used."""
    conditions = endpoint.get("conditions") or {}
    if conditions.get("ready") is not False:  # absent means ready, as the API says
        return True
    is_ending = conditions.get("serving") and conditions.get("terminating")
    return False if is_ending else None


def is_ready(endpoint: Obj) -> bool:
    return _state(endpoint) is True


def _affinity(spec: Obj) -> int:
    if spec.get("sessionAffinity") != "ClientIP":
        return 0
    config = (spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}
    return int(config.get("timeoutSeconds") or DEFAULT_AFFINITY)


def service_of(one: Obj) -> str:
    """Return the name of the service that a slice belongs to; empty for none."""
    return str((meta(one).get("labels") or {}).get(SERVICE_NAME) or "")


def endpoint_name(endpoint: Obj, address: str) -> str:
    """Return an endpoint's label in DNS: its hostname, else its address with dashes."""
    return str(endpoint.get("hostname") or address.replace(".", "-").replace(":", "-"))
