"""Knows which real port of the node stands for which port of the pod, and keeps it there.

Filled by `bind` and asked by whoever must tell one from the other. A real port stays the pod's as
long as the pod lives, kept by a socket of ours that is bound and does not listen: so no other can
be found where the pod was, and a program that comes back gets the same. It tells the agent of each,
who tells the others.
"""

from __future__ import annotations

import os
import threading

from ..pod_addressing import PodAddressing
from . import port_holders
from .sockaddr import ANY4, ANY6, LOOPBACK4, LOOPBACK6, Address, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Optional

    Key = tuple[str, bytes, int]  # protocol, address as far as it matters, port
    Tell = Callable[[dict[str, Any], list[int]], None]
    # Hears of a real address and what it stands for, or None when it is forgotten.
    OnBound = Callable[[str, Address, Optional[Address]], None]

MAX_HELD = 256  # of each protocol; each costs two descriptors
MAX_FLEETING = 1024  # ports that programs left to us to choose, kept in mind


class Binding:
    """One port of the pod."""

    __slots__ = ("given", "holder", "is_published", "real", "user")

    def __init__(self, given: Address, real: Address, holder: int = -1) -> None:
        self.given, self.real, self.holder = given, real, holder
        self.is_published = False
        self.user = (0, 0)  # the process that last bound it, and its socket

    @property
    def is_in_use(self) -> bool:
        """Return whether the process that bound the port has its socket still.

        Whoever passed it on is not looked for.
        """
        pid, inode = self.user
        folder, link = f"/proc/{pid}/fd", f"socket:[{inode}]"
        try:
            return pid > 0 and any(_link(f"{folder}/{fd}") == link for fd in os.listdir(folder))
        except OSError:
            return False


class Bindings:
    def __init__(
        self,
        addressing: PodAddressing,
        tell: Tell,
        host_ports: Optional[dict[int, int]] = None,
        on_bound: OnBound = lambda *words: None,
    ) -> None:
        """Take `host_ports`: the number of a TCP port -> the socket that holds it for the pod."""
        self._addressing, self._tell, self._on_bound = addressing, tell, on_bound
        self.of_host = host_ports or {}
        self.lock = threading.Lock()  # held while a socket is bound or begins to listen
        self._held = {"tcp": 0, "udp": 0}
        self._by_port: dict[Key, Binding] = {}
        self._by_real: dict[tuple[str, bytes, int], Binding] = {}

    # What is known

    def find(self, protocol: str, ip: bytes, port: int) -> Optional[Address]:
        """Return where a port of this pod really is, for one who connects to `ip`; else None."""
        places = [ip]
        if ip in (ANY4, ANY6, LOOPBACK6):
            places += [LOOPBACK6, LOOPBACK4] if ip != ANY4 else [LOOPBACK4]
        if len(ip) == 16:
            places.append(ANY6)
        places.append(self._addressing.pod)
        for place in places:
            found = self._by_port.get((protocol, place, port))
            if found is not None:
                real = found.real
                is_any = real.ip == ANY4  # a hostPort
                return Address(real.family, self._addressing.node, real.port) if is_any else real
        return None

    def given(self, protocol: str, real: Address) -> Optional[Address]:
        """Return what a program asked for whose socket is at a real address."""
        found = self.found(protocol, real)
        return found.given if found is not None else None

    def holder(self, protocol: str, real: Address) -> int:
        """Return what keeps a real address ours; -1 where nothing does."""
        found = self._by_real.get((protocol, real.ip, real.port))
        return found.holder if found is not None else -1

    def found(self, protocol: str, real: Address) -> Optional[Binding]:
        """Find a binding by its address, or as one at all addresses of the node."""
        found = self._by_real.get((protocol, real.ip, real.port))
        return found or self._by_real.get((protocol, ANY4, real.port))

    def remember(self, message: dict[str, Any], holder: int) -> None:
        """Take over a binding of an earlier netd's, as it was told to the agent."""
        given = Address(message["family"], bytes.fromhex(message["given"]), message["port"])
        real = Address(message["family"], bytes.fromhex(message["bound"]), message["real"])
        key = (message["protocol"], bytes.fromhex(message["key"]), message["port"])
        binding = Binding(given, real, holder)
        binding.is_published = bool(message.get("published"))
        self._add(key, binding)

    def at(self, key: Key) -> Optional[Binding]:
        """Return the binding of a port of the pod."""
        return self._by_port.get(key)

    def holders(self, protocol: str, real: Address) -> list[int]:
        """Return what keeps a port for the pod."""
        found = self.found(protocol, real) if real.port else None
        held = [found.holder] if found is not None and found.holder >= 0 else []
        if protocol == "tcp" and real.port in self.of_host:
            held.append(self.of_host[real.port])
        return held

    # What changes

    def may_hold(self, protocol: str) -> bool:
        """Return whether a port more may be kept for the pod."""
        return self._held[protocol] < MAX_HELD

    def bound(self, key: Key, binding: Binding) -> None:
        """Take in a port that a program has for the first time."""
        self._held[key[0]] += binding.holder >= 0
        self._add(key, binding)
        self._tell_agent(key, binding)

    def bound_again(self, protocol: str, known: Binding, given: Address) -> None:
        """Note as what a program asked for a port that was known."""
        known.given = given
        self._on_bound(protocol, known.real, given)

    def keep(self, key: Key, known: Binding) -> None:
        """Keep a TCP port that the kernel had chosen, now that a program asks for it by number."""
        if not self.may_hold("tcp") or self.holders("tcp", known.real):
            return
        try:
            known.holder, _ = port_holders.hold_tcp(known.real)
        except OSError:
            return  # an earlier socket has it still
        self._held["tcp"] += 1
        self._tell_agent(key, known)

    def _add(self, key: Key, binding: Binding) -> None:
        if len(self._by_real) > MAX_FLEETING:
            self._forget_fleeting()
        self._by_port[key] = binding
        self._by_real[(key[0], binding.real.ip, binding.real.port)] = binding
        self._on_bound(key[0], binding.real, binding.given)

    def _forget_fleeting(self) -> None:
        """Forget the older half of what nothing holds: their programs are most likely gone."""
        loose = [key for key, found in self._by_port.items() if found.holder < 0]
        for key in loose[: len(loose) // 2]:
            found = self._by_port.pop(key)
            self._by_real.pop((key[0], found.real.ip, found.real.port), None)
            self._on_bound(key[0], found.real, None)

    def publish(self, protocol: str, real: Address) -> None:
        binding = self.found(protocol, real)
        is_reached = real.is_any or real.ip == self._addressing.node
        if binding is None or binding.is_published or not is_reached:
            return
        binding.is_published = True
        self._tell_agent((protocol, self._addressing.pod, binding.given.port), binding)

    def _tell_agent(self, key: Key, binding: Binding) -> None:
        """Tell the agent, which keeps it for a successor of ours and passes on what is
        published.
        """
        message = {
            "type": "binding",
            "protocol": key[0],
            "key": key[1].hex(),
            "port": key[2],
            "given": binding.given.ip.hex(),
            "family": binding.given.family,
            "bound": binding.real.ip.hex(),
            "real": binding.real.port,
            "address": text(self._addressing.node),
            "published": binding.is_published,
        }
        self._tell(message, [binding.holder] if binding.holder >= 0 else [])


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""  # closed meanwhile
