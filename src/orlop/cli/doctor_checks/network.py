"""Asks whether the cluster's ranges are the site's own already.

Called by `doctor`. A pod that means a machine of the site would reach a pod instead, so the ranges
must be unused here; the kernel's routes and the DNS servers are what is looked at.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from ...agent.pod.resolv_conf import nameservers
from ...network.ranges import Ranges
from ...settings import Settings
from .findings import Finding, note, ok

ROUTES, RESOLV_CONF = Path("/proc/net/route"), Path("/etc/resolv.conf")


def ranges(
    settings: Settings, routes: Path = ROUTES, resolv_conf: Path = RESOLV_CONF
) -> Iterator[Finding]:
    """Check whether the ranges of pods and services are free here."""
    found = Ranges.of(settings.network)
    used = [*networks_in(_text(routes)), *_servers(_text(resolv_conf))]
    for word, mine in (("pod_range", found.pods), ("service_range", found.services)):
        taken = [str(one) for one in used if one.overlaps(mine)]
        if taken:
            words = f"{mine} overlaps with {', '.join(dict.fromkeys(taken))} of this site"
            yield note("addresses", words, f"set network.{word} in config.yaml to another range")
        else:
            yield ok("addresses", f"{mine} ({word.removesuffix('_range')}s) is not in use here")


def networks_in(table: str) -> Iterator[IPv4Network]:
    """Yield where the kernel's routes lead, but for the default."""
    for line in table.splitlines()[1:]:
        words = line.split()
        if len(words) > 7:
            target, mask = (bytes.fromhex(words[n])[::-1] for n in (1, 7))
            if any(mask):
                yield IPv4Network((socket.inet_ntoa(target), socket.inet_ntoa(mask)), strict=False)


def _servers(text: str) -> Iterator[IPv4Network]:
    for server in nameservers(text):
        if ":" not in server:
            yield IPv4Network(IPv4Address(server))


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
