"""Finds the names and addresses by which other hosts of the cluster reach this one.

Read by `serve` for its certificates and its kubeconfig. Nothing is sent: interfaces are asked of
the kernel and names of the resolver.
"""

from __future__ import annotations

import fcntl
import ipaddress
import socket
import struct
from pathlib import Path

_SIOCGIFADDR = 0x8915


def host_names() -> list[str]:
    """Return this host's name, short and in full."""
    name = socket.gethostname()
    full = socket.getfqdn()
    return list(dict.fromkeys(n for n in (name, full) if n and n != "localhost"))


def addresses() -> list[str]:
    """Return IPv4 addresses of this host, the default route's first, loopback left out."""
    preferred = _default_interface()
    interfaces = [name for _, name in socket.if_nameindex()]
    found = [_address(name) for name in sorted(interfaces, key=lambda name: name != preferred)]
    return list(dict.fromkeys(a for a in found if a and not ipaddress.ip_address(a).is_loopback))


def is_ipv4(text: str) -> bool:
    """Return whether it is an IPv4 address, and not a name."""
    try:
        return ipaddress.ip_address(text).version == 4
    except ValueError:
        return False


def _address(interface: str) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            request = struct.pack("256s", interface.encode()[:15])
            answer = fcntl.ioctl(sock, _SIOCGIFADDR, request)
        except OSError:
            return ""  # an interface without an address
    return socket.inet_ntoa(answer[20:24])


def _default_interface() -> str:
    """Return the interface of the default route, or of the first where there is no default."""
    try:
        lines = Path("/proc/net/route").read_text().splitlines()[1:]
    except OSError:
        return ""
    routes = [line.split() for line in lines if line.strip()]
    default = [route[0] for route in routes if route[1] == "00000000"]
    return next(iter(default or [route[0] for route in routes]), "")
