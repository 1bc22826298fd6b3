"""Tells how others see this host: names, addresses, and what a node says of itself.

Asked once when the kubelet starts. No packet is sent: the kernel is asked which address it would
use, and the resolver which ones the host's name has.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable
from pathlib import Path

from ...settings import Settings
from .node_object import Host

_ELSEWHERE = "192.0.2.1"  # a documentation address: the way there is the default route
_ANY = ("", "0.0.0.0", "::")


def this_host(settings: Settings, addresses: Iterable[str], port: int) -> Host:
    """Return where the kubelet listens; `addresses` are those that the caller has found, if any."""
    if settings.listen not in _ANY:
        reachable = [*settings.advertise, settings.listen]
    else:
        reachable = [*settings.advertise, *(list(addresses) or own_addresses())]
    unique = list(dict.fromkeys(reachable)) or ["127.0.0.1"]
    return Host(socket.gethostname(), unique, port, _facts())


def endpoints(host: Host) -> list[str]:
    """Return where agents may find the kubelet, the likeliest first."""
    names = dict.fromkeys([*host.addresses, host.name, "127.0.0.1"])
    return [f"[{name}]:{host.port}" if ":" in name else f"{name}:{host.port}" for name in names]


def own_addresses() -> list[str]:
    """Return addresses without loopback: that of the default route, then those of the host's
    name.
    """
    found = [_towards(_ELSEWHERE)]
    try:
        infos = socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_STREAM)
        found += [str(info[4][0]) for info in infos]
    except OSError:
        pass
    return [a for a in dict.fromkeys(found) if a and not a.startswith("127.") and a != "::1"]


def _towards(target: str) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            sock.connect((target, 9))
            return str(sock.getsockname()[0])
        except OSError:
            return ""


def _facts() -> dict[str, str]:
    release = dict(
        line.split("=", 1) for line in _text("/etc/os-release").splitlines() if "=" in line
    )
    return {
        "kernelVersion": os.uname().release,
        "osImage": release.get("PRETTY_NAME", "Linux").strip('"'),
        "machineID": _text("/etc/machine-id").strip(),
        "bootID": _text("/proc/sys/kernel/random/boot_id").strip(),
    }


def _text(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
