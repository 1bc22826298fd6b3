"""Takes ports of the node that containers ask for by hostPort, for as long as the pod lives.

Used by the netd supervisor, before anything of the pod runs. A TCP port is held by a socket that is
bound and does not listen, beside which netd lets a program of the pod listen (`port_holders`).
Which of two pods has a port is decided by the name of an abstract unix socket, which only one can
bind. What cannot be had is told, and the pod runs without it.
"""

from __future__ import annotations

import os
from errno import EACCES, EADDRINUSE, EADDRNOTAVAIL

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Any
else:
    import _socket as socket  # without the enums of `socket`, which are slow to import

KINDS = {"tcp": socket.SOCK_STREAM, "udp": socket.SOCK_DGRAM}
ANYWHERE = ("", "0.0.0.0", "::")


class HostPorts:
    """The ports: `wanted` as the plan has it; `node` is the address as others know it."""

    def __init__(self, wanted: list[dict[str, Any]], node: str) -> None:
        self.had: list[dict[str, Any]] = []
        self.problems: list[str] = []
        self._held: list[socket.socket] = []
        self.tcp: dict[int, int] = {}  # what holds a port, by its number
        for one in wanted:
            problem = self._take(one, node)
            if problem:
                self.problems.append(problem)
            else:
                self.had.append(one)

    def _take(self, one: dict[str, Any], node: str) -> str:
        """Hold one port; return what is in the way, or nothing."""
        protocol, number, ip = one["protocol"], one["hostPort"], one["hostIP"]
        words = f"hostPort {number} ({protocol.upper()})"
        for other in self.had:
            if (other["protocol"], other["port"]) == (protocol, one["port"]):
                return f"{words}: port {one['port']} of the pod is at {other['hostPort']} already"
        if ip not in ANYWHERE and ip != node:
            problem = _is_not_here(ip) or (
                f"a UDP port can be at {node} or at all addresses" if protocol == "udp" else ""
            )
            if problem:
                return f"{words}: {problem}"
        lock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        try:
            lock.bind(f"\0orlop/host-port/{protocol}/{number}")
        except OSError:
            lock.close()
            return f"{words}: another pod on this node has it"
        try:
            holder = _bound(protocol, number)
        except OSError as error:
            lock.close()
            return f"{words}: {_why(error)}"
        if protocol == "udp":  # what it held would come here, and not to the pod
            holder.close()
        else:
            self._held.append(holder)
            self.tcp[number] = holder.fileno()
        self._held.append(lock)
        return ""

    def words(self) -> str:
        """Say which port of the node leads where."""
        ports = (f"{one['hostPort']} to {one['port']} ({one['protocol'].upper()})"
                 for one in self.had)  # fmt: skip
        return "ports of the node lead to ports of the pod: " + ", ".join(ports)


def _bound(protocol: str, number: int) -> socket.socket:
    """Make a socket that has a port at all addresses, and shares it with nobody."""
    holder = socket.socket(socket.AF_INET, KINDS[protocol] | socket.SOCK_CLOEXEC)
    try:
        try:
            holder.bind(("0.0.0.0", number))
        except OSError as error:
            if error.errno != EADDRINUSE or protocol == "udp":
                raise
            # Connections of an earlier pod that wait for their last packets may be all there is.
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            holder.bind(("0.0.0.0", number))
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
    except OSError:
        holder.close()
        raise
    return holder


def _is_not_here(ip: str) -> str:
    if ":" in ip:
        return "hostIP must be an address of IPv4"
    probe = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        probe.bind((ip, 0))
        return ""
    except OSError as error:
        if error.errno == EADDRNOTAVAIL:
            return f"hostIP {ip} is no address of this node"
        return f"hostIP {ip}: {os.strerror(error.errno or 0)}"
    finally:
        probe.close()


def _why(error: OSError) -> str:
    if error.errno == EADDRINUSE:
        return "another program on this node has it"
    if error.errno == EACCES:
        return (
            "an ordinary user cannot have ports below net.ipv4.ip_unprivileged_port_start of the "
            "node, mostly 1024"
        )
    return os.strerror(error.errno or 0)
