"""Answers for the names of the cluster, as the Kubernetes DNS specification has them.

`parse` says what a name is about, the others what DNS answers, from the services and slices that
they are given. Pure; used by the kubelet for names of the cluster that agents want to know.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from ipaddress import ip_address

from ..api.objects import Obj, meta
from .services import cluster_ips, endpoint_name, is_headless, is_ready

TTL = 5  # seconds, as CoreDNS has it for names of the cluster
VERSION = "1.1.0"  # of the specification
_DASHED = re.compile(r"\d{1,3}(-\d{1,3}){3}")
_REVERSE = ".in-addr.arpa"


@dataclass(frozen=True, slots=True)
class Question:
    """What a name is about; what is empty is not part of it."""

    kind: str  # service, pod, reverse, namespace, root, version
    namespace: str = ""
    service: str = ""
    endpoint: str = ""
    port: str = ""
    protocol: str = ""
    address: str = ""


def parse(name: str, domain: str) -> Question | None:
    """Say what a name in lower case and without its last dot is about; None for none of ours."""
    if name.endswith(_REVERSE):
        address = ".".join(reversed(name.removesuffix(_REVERSE).split(".")))
        return Question("reverse", address=address) if _is_address(address) else None
    if name == domain:
        return Question("root")
    if not name.endswith("." + domain):
        return None
    *labels, branch = name.removesuffix("." + domain).split(".")
    if branch == "svc":
        return _service(labels)
    if branch == "pod":
        return _pod(labels)
    return Question("version") if [*labels, branch] == ["dns-version"] else None


def _service(labels: list[str]) -> Question | None:
    match labels:
        case []:
            return Question("root")
        case [namespace]:
            return Question("namespace", namespace)
        case [service, namespace]:
            return Question("service", namespace, service)
        case [endpoint, service, namespace]:
            return Question("service", namespace, service, endpoint=endpoint)
        case [port, protocol, service, namespace] if port[:1] == protocol[:1] == "_":
            return Question("service", namespace, service, port=port[1:], protocol=protocol[1:])
    return None


def _pod(labels: list[str]) -> Question | None:
    match labels:
        case []:
            return Question("root")
        case [namespace]:
            return Question("namespace", namespace)
        case [address, namespace] if _DASHED.fullmatch(address):
            return Question("pod", namespace, address=address.replace("-", "."))
    return None


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def service_records(
    question: Question, service: Obj, slices: Iterable[Obj], domain: str
) -> Obj | None:
    """Return what DNS has for a name of a service; None: there is no such name."""
    spec = service["spec"]
    if spec.get("type") == "ExternalName":
        plain = not (question.endpoint or question.port)
        return {"CNAME": spec["externalName"].rstrip("."), "ttl": TTL} if plain else None
    name = f"{meta(service)['name']}.{meta(service)['namespace']}.svc.{domain}"
    if question.endpoint or is_headless(service):
        found = list(_endpoints(slices))
        if question.endpoint:
            found = [one for one in found if one.label == question.endpoint]
            if not found:
                return None
        return _of_endpoints(question, found, name)
    return _of_address(question, service, name)


def _of_address(question: Question, service: Obj, name: str) -> Obj | None:
    """Return the records of a service with an address: that, and its ports."""
    ports = _asked_ports(question, service["spec"].get("ports") or [])
    if question.port and not ports:
        return None
    ips = cluster_ips(service)
    records = _records([] if question.port else ips)
    if ports:
        records["SRV"] = [[0, 100 // len(ports), port["port"], name] for port in ports]
        records["glue"] = {name: ips}
    return records


@dataclass(frozen=True, slots=True)
class _Endpoint:
    label: str
    address: str
    ports: tuple[tuple[str, str, int], ...]  # name, protocol, number


def _endpoints(slices: Iterable[Obj]) -> Iterator[_Endpoint]:
    for one in slices:
        if one.get("addressType") == "FQDN":
            continue
        ports = tuple(
            (port.get("name") or "", (port.get("protocol") or "TCP").lower(), int(port["port"]))
            for port in one.get("ports") or []
            if port.get("port")
        )
        for endpoint in one.get("endpoints") or []:
            if is_ready(endpoint):
                for address in endpoint["addresses"]:
                    yield _Endpoint(endpoint_name(endpoint, address), address, ports)


def _of_endpoints(question: Question, found: list[_Endpoint], name: str) -> Obj | None:
    """Return the records of a headless service, or of one endpoint.

    An address each, and each port of each.
    """
    wanted = question.port, question.protocol
    served = [
        (one, number)
        for one in found
        for port, protocol, number in one.ports
        if not question.port or (port, protocol) == wanted
    ]
    if question.port and not served:
        return None
    addresses = [] if question.port else sorted({one.address for one in found})
    records = _records(addresses)
    if served:
        weight = max(1, 100 // len(served))
        pairs = sorted({(f"{one.label}.{name}", one.address, number) for one, number in served})
        targets = [
            (target if not question.endpoint else f"{question.endpoint}.{name}", ip, number)
            for target, ip, number in pairs
        ]
        records["SRV"] = [[0, weight, number, target] for target, _, number in targets]
        records["glue"] = {target: [ip] for target, ip, _ in targets}
    return records


def _asked_ports(question: Question, ports: list[Obj]) -> list[Obj]:
    if not question.port:
        return ports
    return [
        port
        for port in ports
        if port.get("name") == question.port
        and (port.get("protocol") or "TCP").lower() == question.protocol
    ]


def _records(addresses: list[str]) -> Obj:
    records: Obj = {"ttl": TTL}
    four = [ip for ip in addresses if ":" not in ip]
    six = [ip for ip in addresses if ":" in ip]
    return records | ({"A": four} if four else {}) | ({"AAAA": six} if six else {})


def address_records(address: str) -> Obj:
    """Return the records for the name of a pod by its address."""
    return _records([address])


def reverse_records(
    address: str, service: Obj | None, headless: Iterable[tuple[Obj, Obj]], domain: str
) -> Obj | None:
    """Return the names of an address: of the service that has it, else of the endpoints that do.

    `headless`: headless services with a slice of theirs that has the address.
    """
    names = []
    if service is not None:
        names = [_name(service, domain)]
    else:
        for owner, one in headless:
            for endpoint in one.get("endpoints") or []:
                if is_ready(endpoint) and address in endpoint["addresses"]:
                    names.append(f"{endpoint_name(endpoint, address)}.{_name(owner, domain)}")
    return {"PTR": sorted(set(names)), "ttl": TTL} if names else None


def _name(service: Obj, domain: str) -> str:
    return f"{meta(service)['name']}.{meta(service)['namespace']}.svc.{domain}"


EMPTY: Obj = {"ttl": TTL}  # a name that is there and has no records: what lies above others
VERSION_RECORDS: Obj = {"TXT": [VERSION], "ttl": TTL}
