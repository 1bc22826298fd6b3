"""Decides which addresses are connected to on behalf of others, and connects to one of them.

Used by all of the control plane that dials what a user has named: Ingresses and node ports, the
proxy, webhooks and extension servers by a service, S3 servers; and by the validation of endpoints.
This host's loopback, its link and the services of clouds there know us by where we come from, so
others may not reach them through us. A name is resolved once, and what was looked at is what is
dialled. As apimachinery's IsProxyableIP and ValidateNonSpecialIP, and beyond them by addresses that
have another one within.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any

SETTING = "network.allow_destinations"
_TIMEOUT = 5.0

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
Info = tuple[int, int, int, str, tuple[Any, ...]]  # as getaddrinfo has it

# Where clouds tell a machine who it is, beside 169.254.169.254, which is of the link.
_CLOUDS = frozenset(
    map(ip_address, ("fd00:ec2::254", "100.100.100.200", "168.63.129.16", "192.0.0.192"))
)
_THIS_NETWORK = IPv4Network("0.0.0.0/8")  # Linux takes 0.0.0.0 for this host
_LIMITED = IPv4Address("255.255.255.255")
# Ranges of IPv6 that have an IPv4 address within, and where it ends, in bits from the right.
_WITHIN = (
    (IPv6Network("::/96"), 0),  # IPv4-compatible
    (IPv6Network("::ffff:0:0/96"), 0),  # IPv4-mapped
    (IPv6Network("::ffff:0:0:0/96"), 0),  # IPv4-translated
    (IPv6Network("64:ff9b::/96"), 0),  # NAT64
    (IPv6Network("64:ff9b:1::/48"), 0),  # NAT64 of the site's own
    (IPv6Network("2002::/16"), 80),  # 6to4
)
_TEREDO = IPv6Network("2001::/32")  # with all bits of the client's address turned over
_ISATAP = (0x0000_5EFE, 0x0200_5EFE)  # the upper half of an interface's number


class Refused(PermissionError):
    """Raised for an address that is not connected to for others."""


def special(address: Address) -> str:
    """Return in words why an address may not be connected to for others; empty where it may."""
    for one in (address, *_within(address)):
        if one.is_unspecified or (isinstance(one, IPv4Address) and one in _THIS_NETWORK):
            return "unspecified (0.0.0.0 or ::)"
        if one.is_loopback:
            return "in the loopback range (127.0.0.0/8, ::1/128)"
        if one.is_link_local:
            return "in the link-local range (169.254.0.0/16, fe80::/10)"
        if one.is_multicast or one == _LIMITED:
            return "in the multicast range (224.0.0.0/4, ff00::/8), or for all"
    return ""


def _of_clouds(address: Address) -> str:
    is_one = any(one in _CLOUDS for one in (address, *_within(address)))
    return "where clouds tell their machines who they are" if is_one else ""


def _within(address: Address) -> list[Address]:
    """Return the IPv4 addresses that somebody on the way may make of one of IPv6."""
    if isinstance(address, IPv4Address):
        return []
    number = int(address)
    if number < 2:
        return []  # :: and ::1 are themselves
    found = [number >> shift for network, shift in _WITHIN if address in network]
    found += [~number] if address in _TEREDO else []
    found += [number] if (number >> 32) & 0xFFFF_FFFF in _ISATAP else []
    return [IPv4Address(one & 0xFFFF_FFFF) for one in found]


def parsed(text: str) -> Address:
    """Return an address as sockets show it, with or without a zone; raise ValueError."""
    return ip_address(text.partition("%")[0])


@dataclass(frozen=True, slots=True)
class Destinations:
    """Allows what may be reached for others: all but special addresses, save by the settings."""

    allowed: tuple[Network, ...] = ()
    is_open: bool = False  # nothing is looked at

    @classmethod
    def of(cls, ranges: Iterable[str]) -> Destinations:
        """Return destinations with the exceptions that the settings name; raise ValueError."""
        return cls(tuple(ip_network(one) for one in ranges))

    def problem(self, text: str) -> str:
        """Return why an address may not be reached, and what would let it; empty if it may be."""
        try:
            address = parsed(text)
        except ValueError:
            return f"{text!r} is no address"
        why = "" if self.is_open else special(address) or _of_clouds(address)
        if not why or any(address in network for network in self.allowed):
            return ""
        return f"{address} is {why}; if it is meant, list it under {SETTING} in the configuration"

    def choose(self, host: str, port: int, found: Sequence[Info]) -> Info:
        """Return the first that may be reached; raise Refused."""
        problems = [self.problem(str(info[4][0])) for info in found]
        for info, problem in zip(found, problems, strict=True):
            if not problem:
                return info
        why = next(iter(problems), "there is none")
        raise Refused(f"dial tcp {host}:{port}: address not allowed: {why}")

    async def resolve(self, host: str, port: int) -> Info:
        """Return where a name or an address leads; raise OSError."""
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except UnicodeError as error:  # a name that no DNS can have
            raise OSError(f"dial tcp: lookup {host}: no such host") from error
        return self.choose(host, port, [(*info[:4], info[4]) for info in found])

    async def dial(self, host: str, port: int) -> socket.socket:
        """Open a connection; raise OSError, or TimeoutError."""
        async with asyncio.timeout(_TIMEOUT):
            family, kind, protocol, _, address = await self.resolve(host, port)
            dialled = socket.socket(family, kind, protocol)
            dialled.setblocking(False)
            try:
                await asyncio.get_running_loop().sock_connect(dialled, address)
            except BaseException:
                dialled.close()
                raise
        return dialled

    def dial_now(
        self, place: tuple[str, int], timeout: float | None = None, *_: object
    ) -> socket.socket:
        """Open one for a caller that does not wait on a loop, as socket.create_connection."""
        host, port = place
        infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        info = self.choose(host, port, [(*info[:4], info[4]) for info in infos])
        return socket.create_connection((str(info[4][0]), port), timeout)


ANYWHERE = Destinations(is_open=True)
