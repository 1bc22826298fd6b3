"""The rules for Services, Endpoints and EndpointSlices.

Called by the dispatch. As pkg/apis/core/validation and pkg/apis/discovery/validation; that an
address is free is the allocator's business, not ours.
"""

from __future__ import annotations

import ipaddress

from ...destinations import special
from .. import names
from ..objects import Obj
from .containers import PROTOCOLS, port_number, port_or_name
from .errors import (
    Errors,
    bad_value,
    bad_values,
    duplicate,
    forbidden,
    immutable,
    not_supported,
    one_of,
    required,
    too_many,
)
from .metadata import check_labels
from .pods import is_address

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_AFFINITIES = ("ClientIP", "None")
_FAMILIES = ("IPv4", "IPv6")
_ADDRESS_TYPES = ("FQDN", "IPv4", "IPv6")
_NO_ADDRESS = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"


def service(obj: Obj) -> Errors:
    spec = obj.get("spec") or {}
    kind = spec.get("type")
    is_headless = spec.get("clusterIP") == "None"
    errors: Errors = []
    ports = spec.get("ports") or []
    if not ports and not is_headless and kind != "ExternalName":
        errors.append(required("spec.ports"))
    errors += _ports("spec.ports", ports, is_headless=is_headless)
    errors += check_labels("spec.selector", spec.get("selector"))
    errors += one_of("spec.sessionAffinity", spec.get("sessionAffinity"), _AFFINITIES)
    errors += one_of("spec.type", kind, _TYPES)
    if kind == "ExternalName":
        errors += _external_name(spec)
    else:
        errors += _cluster_addresses(spec)
    if kind == "LoadBalancer" and is_headless:
        detail = "may not be set to 'None' for LoadBalancer services"
        errors.append(bad_value("spec.clusterIPs[0]", "None", detail))
    if kind == "NodePort" and is_headless:
        detail = "may not be set to 'None' for NodePort services"
        errors.append(bad_value("spec.clusterIPs[0]", "None", detail))
    return errors + _affinity(spec) + _external_addresses(spec)


def _ports(field: str, ports: list[Obj], *, is_headless: bool) -> Errors:
    errors: Errors = []
    seen_names: set[str] = set()
    seen: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        at = f"{field}[{index}]"
        name, number = port.get("name", ""), port.get("port", 0)
        if not name and len(ports) > 1:
            errors.append(required(f"{at}.name"))
        elif name:
            errors += bad_values(f"{at}.name", name, names.dns1123_label(name))
            if name in seen_names:
                errors.append(duplicate(f"{at}.name", name))
            seen_names.add(name)
        errors += bad_values(f"{at}.port", number, names.in_range(number, 1, 65535))
        errors += one_of(f"{at}.protocol", port.get("protocol"), PROTOCOLS)
        errors += port_or_name(f"{at}.targetPort", port.get("targetPort"))
        key = (port.get("protocol", ""), number)
        if key in seen:
            errors.append(duplicate(at, {"protocol": key[0], "port": key[1]}))
        seen.add(key)
    return errors


def _external_name(spec: Obj) -> Errors:
    errors: Errors = []
    for key in ("clusterIP", "clusterIPs"):
        if spec.get(key):
            detail = "may not be set for ExternalName services"
            errors.append(forbidden(f"spec.{key}", detail))
    name = spec.get("externalName", "").removesuffix(".")
    if not name:
        return [*errors, required("spec.externalName")]
    return errors + bad_values("spec.externalName", name, names.dns1123_subdomain(name))


def _cluster_addresses(spec: Obj) -> Errors:
    addresses = spec.get("clusterIPs") or ([spec["clusterIP"]] if spec.get("clusterIP") else [])
    errors: Errors = []
    if len(addresses) > 2:
        detail = "may only hold up to 2 values"
        errors.append(bad_value("spec.clusterIPs", addresses, detail))
    for index, address in enumerate(addresses):
        if address not in ("", "None") and not is_address(address):
            errors.append(bad_value(f"spec.clusterIPs[{index}]", address, _NO_ADDRESS))
    for index, family in enumerate(spec.get("ipFamilies") or ()):
        errors += one_of(f"spec.ipFamilies[{index}]", family, _FAMILIES)
    if spec.get("clusterIPs") and spec.get("clusterIP") not in (None, spec["clusterIPs"][0]):
        detail = "first value must match `clusterIP`"
        errors.append(bad_value("spec.clusterIPs", spec["clusterIPs"], detail))
    return errors


def _affinity(spec: Obj) -> Errors:
    config = (spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}
    seconds = config.get("timeoutSeconds")
    if seconds is None or 0 < seconds <= 86400:
        return []
    detail = "must be greater than 0 and less than 86400"
    return [bad_value("spec.sessionAffinityConfig.clientIP.timeoutSeconds", seconds, detail)]


def _external_addresses(spec: Obj) -> Errors:
    errors: Errors = []
    for index, address in enumerate(spec.get("externalIPs") or ()):
        errors += _reachable(f"spec.externalIPs[{index}]", address)
    return errors


def _reachable(field: str, text: str) -> Errors:
    """Check that an address means the same to all.

    As ValidateNonSpecialIP, and what hides one.
    """
    if not is_address(text):
        return [bad_value(field, text, _NO_ADDRESS)]
    why = special(ipaddress.ip_address(text))
    return [bad_value(field, text, f"may not be {why}")] if why else []


def service_update(new: Obj, old: Obj) -> Errors:
    spec, former = new.get("spec") or {}, old.get("spec") or {}
    if "ExternalName" in (spec.get("type"), former.get("type")):
        return []
    before = former.get("clusterIP")
    if not before or spec.get("clusterIP") == before:
        return []
    values = spec.get("clusterIPs") or [spec.get("clusterIP", "")]
    return [bad_value("spec.clusterIPs[0]", values, "may not change once set")]


def endpoints(obj: Obj) -> Errors:
    errors: Errors = []
    for index, subset in enumerate(obj.get("subsets") or ()):
        at = f"subsets[{index}]"
        for group in ("addresses", "notReadyAddresses"):
            for place, address in enumerate(subset.get(group) or ()):
                errors += _reachable(f"{at}.{group}[{place}].ip", address.get("ip", ""))
        ports = subset.get("ports") or []
        for place, port in enumerate(ports):
            field = f"{at}.ports[{place}]"
            if not port.get("name") and len(ports) > 1:
                errors.append(required(f"{field}.name"))
            errors += port_number(f"{field}.port", port.get("port", 0))
            errors += one_of(f"{field}.protocol", port.get("protocol"), PROTOCOLS)
    return errors


def endpoint_slice(obj: Obj) -> Errors:
    kind = obj.get("addressType", "")
    errors: Errors = []
    if not kind:
        errors.append(required("addressType"))
    elif kind not in _ADDRESS_TYPES:
        errors.append(not_supported("addressType", kind, _ADDRESS_TYPES))
    items = obj.get("endpoints") or []
    if len(items) > 1000:
        errors.append(too_many("endpoints", len(items), 1000))
    for index, endpoint in enumerate(items):
        addresses = endpoint.get("addresses") or []
        if not addresses:
            detail = "must contain at least 1 address"
            errors.append(required(f"endpoints[{index}].addresses", detail))
        for place, address in enumerate(addresses):
            errors += _slice_address(f"endpoints[{index}].addresses[{place}]", address, kind)
    errors += _slice_ports(obj.get("ports") or [])
    return errors


def _slice_address(field: str, address: str, kind: str) -> Errors:
    if kind == "FQDN":
        return bad_values(field, address, names.dns1123_subdomain(address))
    if not is_address(address):
        return [bad_value(field, address, _NO_ADDRESS)]
    version = ipaddress.ip_address(address).version
    if kind in _FAMILIES and kind != f"IPv{version}":
        return [bad_value(field, address, f"must be an {kind} address")]
    return _reachable(field, address)


def _slice_ports(ports: list[Obj]) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for index, port in enumerate(ports):
        name = port.get("name", "")
        if name in seen:
            errors.append(duplicate("ports", name))
        seen.add(name)
        errors += one_of(f"ports[{index}].protocol", port.get("protocol"), PROTOCOLS)
    return errors


def endpoint_slice_update(new: Obj, old: Obj) -> Errors:
    return immutable("addressType", new.get("addressType"), old.get("addressType"))
