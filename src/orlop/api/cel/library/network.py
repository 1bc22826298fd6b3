"""Kubernetes' ip() and cidr(): addresses and networks.

Part of the library. As apiserver/pkg/cel/library/ip.go and cidr.go: no zones, no IPv4 addresses
written as IPv6 ones, no leading zeros.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_interface
from typing import Any

from ..errors import CelError


@dataclass(frozen=True, slots=True)
class IP:
    address: IPv4Address | IPv6Address
    cel_type = "net.IP"

    def __str__(self) -> str:
        return str(self.address)


@dataclass(frozen=True, slots=True)
class CIDR:
    address: IPv4Address | IPv6Address
    length: int
    cel_type = "net.CIDR"

    def __str__(self) -> str:
        return f"{self.address}/{self.length}"

    @property
    def network(self) -> Any:
        return ip_interface(str(self)).network


def _ip(value: Any) -> IP:
    if isinstance(value, CIDR):
        return IP(value.address)
    if type(value) is not str:
        raise CelError("no such overload")
    try:
        address = ip_address(value)
    except ValueError as error:
        raise CelError(f'IP Address "{value}" parse error during conversion from string') from error
    if "%" in value:
        raise CelError(f'IP address "{value}" with zone value is not allowed')
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        raise CelError(f'IPv4-mapped IPv6 address "{value}" is not allowed')
    return IP(address)


def _cidr(value: Any) -> CIDR:
    if type(value) is not str or "/" not in value:
        raise CelError("network address parse error during conversion from string")
    text, _, length = value.partition("/")
    address = _ip(text).address
    if not length.isdecimal() or int(length) > address.max_prefixlen or str(int(length)) != length:
        raise CelError("network address parse error during conversion from string")
    return CIDR(address, int(length))


def _succeeds(make: Callable[[Any], Any]) -> Callable[[Any], bool]:
    def check(value: Any) -> bool:
        if type(value) is not str:
            raise CelError("no such overload")
        try:
            make(value)
        except CelError:
            return False
        return True

    return check


def _address(value: Any) -> IPv4Address | IPv6Address:
    if not isinstance(value, IP):
        raise CelError("no such overload")
    return value.address


def _network(value: Any) -> CIDR:
    if not isinstance(value, CIDR):
        raise CelError("no such overload")
    return value


def _contains_ip(network: Any, address: Any) -> bool:
    wanted = _address(_ip(address) if type(address) is str else address)
    return wanted.version == _network(network).address.version and wanted in network.network


def _contains_cidr(network: Any, other: Any) -> bool:
    inner = _network(_cidr(other) if type(other) is str else other)
    outer = _network(network)
    if inner.address.version != outer.address.version:
        return False
    return bool(inner.network.subnet_of(outer.network))


def _is_global(value: Any) -> bool:
    """Return whether Go calls it global unicast: private addresses are, too."""
    address = _address(value)
    is_broadcast = str(address) == "255.255.255.255"
    return not (
        is_broadcast
        or address.is_unspecified
        or address.is_loopback
        or address.is_multicast
        or address.is_link_local
    )


def _is_link_local_multicast(value: Any) -> bool:
    text = _address(value)
    if isinstance(text, IPv4Address):
        return str(text).startswith("224.0.0.")
    return text.packed[0] == 0xFF and text.packed[1] & 0x0F == 0x02


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "ip": _ip,
    "isIP": _succeeds(_ip),
    "cidr": _cidr,
    "isCIDR": _succeeds(_cidr),
}
METHODS: dict[str, Callable[..., Any]] = {
    "family": lambda value: _address(value).version,
    "isUnspecified": lambda value: _address(value).is_unspecified,
    "isLoopback": lambda value: _address(value).is_loopback,
    "isLinkLocalMulticast": _is_link_local_multicast,
    "isLinkLocalUnicast": lambda value: _address(value).is_link_local,
    "isGlobalUnicast": _is_global,
    "containsIP": _contains_ip,
    "containsCIDR": _contains_cidr,
    "ip": lambda value: IP(_network(value).address),
    "masked": lambda value: CIDR(_network(value).network.network_address, value.length),
    "prefixLength": lambda value: _network(value).length,
}
NAMESPACES: dict[str, Callable[..., Any]] = {
    "ip.isCanonical": lambda text: str(_ip(text)) == text,
}
