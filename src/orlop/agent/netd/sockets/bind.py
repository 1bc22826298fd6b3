"""Answers bind and listen: decides which real port of the node stands for which port of the pod.

A port of the pod is any that a program asks for, below 1024 too; the kernel picks the real one, on
the node's address for what others may reach and on the pod's private loopback for the rest. A real
port stays the pod's as long as the pod lives, kept by a socket of ours that is bound and does not
listen: so no other can be found where the pod was, and a program that comes back gets the same. It
tells the agent of each, who tells the others.
"""

from __future__ import annotations

import os
import threading
from errno import EADDRINUSE, EADDRNOTAVAIL, EINVAL

from ..pod_addressing import PodAddressing
from ..seccomp.caller_process import Target
from ..seccomp.notify import Call
from . import port_holders, socket_calls
from .sockaddr import AF_INET6, ANY4, ANY6, LOOPBACK4, LOOPBACK6, Address, text
from .socket_calls import IPPROTO_IPV6, IPV6_V6ONLY, SO_REUSEADDR, SO_REUSEPORT, SOL_SOCKET

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Optional

    Key = tuple[str, bytes, int]  # protocol, address as far as it matters, port
    Tell = Callable[[dict[str, Any], list[int]], None]

_SHARING = (SO_REUSEADDR, SO_REUSEPORT)
HIGH = 64512  # where ports below 1024 of a loopback address are, if free
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
        self, world: PodAddressing, tell: Tell, host_ports: Optional[dict[int, int]] = None
    ) -> None:
        """Take `host_ports`: the number of a TCP port -> the socket that holds it for the pod."""
        self._world, self._tell = world, tell
        self._of_host = host_ports or {}
        self._lock = threading.Lock()
        self._held = {"tcp": 0, "udp": 0}
        self._by_port: dict[Key, Binding] = {}
        self._by_real: dict[tuple[str, bytes, int], Binding] = {}
        # With a real port: copies of ours may be all that is left there.
        self.before_conflict: Callable[[int], None] = lambda port: None
        # A hostPort that was the pod's when it started, and is somebody else's now.
        self.on_lost: Callable[[str, int], None] = lambda *words: None
        # A real address and what it stands for, or None when it is forgotten.
        self.on_bound: Callable[[str, Address, Optional[Address]], None] = lambda *words: None

    # Questions

    def find(self, protocol: str, ip: bytes, port: int) -> Optional[Address]:
        """Return where a port of this pod really is, for one who connects to `ip`; else None."""
        places = [ip]
        if ip in (ANY4, ANY6, LOOPBACK6):
            places += [LOOPBACK6, LOOPBACK4] if ip != ANY4 else [LOOPBACK4]
        if len(ip) == 16:
            places.append(ANY6)
        places.append(self._world.pod)
        for place in places:
            found = self._by_port.get((protocol, place, port))
            if found is not None:
                real = found.real
                is_any = real.ip == ANY4  # a hostPort
                return Address(real.family, self._world.node, real.port) if is_any else real
        return None

    def given(self, protocol: str, real: Address) -> Optional[Address]:
        """Return what a program asked for whose socket is at a real address."""
        found = self._found(protocol, real)
        return found.given if found is not None else None

    def holder(self, protocol: str, real: Address) -> int:
        """Return what keeps a real address ours; -1 where nothing does."""
        found = self._by_real.get((protocol, real.ip, real.port))
        return found.holder if found is not None else -1

    def _found(self, protocol: str, real: Address) -> Optional[Binding]:
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

    # bind

    def bind(self, call: Call, target: Target, wanted: Address) -> Optional[int]:
        """Bind the caller's socket; None: the kernel may."""
        world = self._world
        if not world.is_own(wanted):
            if world.is_virtual(wanted.ip):
                raise OSError(EADDRNOTAVAIL, "another's address")
            return None
        fd = target.grab(call, call.args[0])
        try:
            protocol = socket_calls.protocol(fd)
            if not protocol:
                return None
            if self._is_bound_so(fd, protocol, wanted):
                return 0  # a signal kept our answer from the caller, who asks again
            self.bind_socket(fd, protocol, wanted, call.pid)
            if protocol == "udp":
                socket_calls.stamp(fd)  # from now on: a datagram's time tells whose it can be
            if protocol == "udp" and wanted.port:
                real = socket_calls.own_address(fd)
                assert real is not None, "just bound"
                self._publish(protocol, real)
            return 0
        finally:
            os.close(fd)

    def _is_bound_so(self, fd: int, protocol: str, wanted: Address) -> bool:
        real = socket_calls.own_address(fd)
        if real is None or not real.port:
            return False
        given = self.given(protocol, real)
        if given is None or given.ip != wanted.ip or wanted.port not in (0, given.port):
            raise OSError(EINVAL, "bound already")
        return True

    def bind_socket(self, fd: int, protocol: str, wanted: Address, pid: int = 0) -> None:
        only6 = wanted.family == AF_INET6 and bool(
            socket_calls.option(fd, IPPROTO_IPV6, IPV6_V6ONLY)
        )
        if wanted.family == AF_INET6 and len(wanted.ip) == 4 and only6:
            raise OSError(EINVAL, "a mapped address on a socket of IPv6 only")
        key, real = self._place(protocol, wanted, only6)
        with self._lock:
            known = self._by_port.get(key) if wanted.port else None
            if known is not None:
                if protocol == "tcp":
                    self._keep((protocol, key[1], wanted.port), known)
                self._join(fd, protocol, wanted, known)
                known.user = (pid, os.fstat(fd).st_ino)
                return
            is_kept = bool(wanted.port) and self._held[protocol] < MAX_HELD
            has_place, holder = self._bind_new(fd, protocol, real, is_kept)
            if not has_place and (protocol, wanted.port) in self._world.host_ports:
                self.on_lost(protocol, real.port)
            bound = socket_calls.own_address(fd)
            assert bound is not None, "an internet socket has such a name"
            port = wanted.port or bound.port
            # At all addresses, a socket of IPv6 is at those of IPv4, too, which is what counts.
            ip = ANY4 if bound.is_any else bound.ip
            place = Address(wanted.family, ip, bound.port)
            binding = Binding(Address(wanted.family, wanted.ip, port), place, holder)
            binding.user = (pid, os.fstat(fd).st_ino)
            self._held[protocol] += holder >= 0
            self._add((protocol, key[1], port), binding)
            self._tell_agent((protocol, key[1], port), binding)

    def _place(self, protocol: str, wanted: Address, only6: bool) -> tuple[Key, Address]:
        """Return the key of a bind in our table, and the real address for it."""
        world, port = self._world, wanted.port
        high = port if port >= 1024 else HIGH + port if port else 0
        if only6:
            place = LOOPBACK6 if wanted.is_loopback else ANY6
            return (protocol, place, port), Address(AF_INET6, LOOPBACK6, 0)
        if wanted.is_loopback:
            return (protocol, wanted.ip, port), Address(wanted.family, world.loopback, high)
        host = world.host_ports.get((protocol, port))
        if host is not None:
            return (protocol, world.pod, port), Address(wanted.family, host.ip, host.port)
        return (protocol, world.pod, port), Address(wanted.family, world.node, 0)

    def _bind_new(self, fd: int, protocol: str, real: Address, is_kept: bool) -> tuple[bool, int]:
        """Bind to a place, or to another port beside it; return whether it is that place, and what
        keeps it.
        """
        if protocol == "udp":
            port_holders.share_with_ours_alone(fd)
            has_place = self._bind_or_beside(fd, real)
            bound = socket_calls.own_address(fd)
            assert bound is not None, "an internet socket has such a name"
            return has_place, port_holders.hold_udp(fd, bound) if is_kept else -1
        if real.port in self._of_host and self._bind_at_host_port(fd, real):
            return True, -1
        # While this is off, nobody else can be at the port when it is bound.
        socket_calls.switch_off(fd, SOL_SOCKET, SO_REUSEADDR)
        holder = -1
        try:
            if not is_kept:
                return self._bind_or_beside(fd, real), -1
            holder, place = self._hold_or_beside(real)
            with port_holders.Beside(fd, [holder]):
                socket_calls.bind(fd, place.pack())
            return place.port == real.port or not real.port, holder
        except OSError:
            if holder >= 0:
                os.close(holder)
            raise
        finally:  # a program that comes back finds connections of the last one
            socket_calls.switch_on(fd, SOL_SOCKET, SO_REUSEADDR)

    def _bind_at_host_port(self, fd: int, real: Address) -> bool:
        socket_calls.switch_on(fd, SOL_SOCKET, SO_REUSEADDR)
        try:
            with port_holders.Beside(fd, [self._of_host[real.port]]):
                socket_calls.bind(fd, real.pack())
        except OSError as error:
            if error.errno != EADDRINUSE:
                raise
            return False
        return True

    def _bind_or_beside(self, fd: int, real: Address) -> bool:
        try:
            socket_calls.bind(fd, real.pack())
            return True
        except OSError as error:
            if error.errno != EADDRINUSE or not real.port:
                raise
            socket_calls.bind(fd, self._beside(real).pack())
            return False

    def _hold_or_beside(self, real: Address) -> tuple[int, Address]:
        try:
            return port_holders.hold_tcp(real)
        except OSError as error:
            if error.errno != EADDRINUSE or not real.port:
                raise
            return port_holders.hold_tcp(self._beside(real))

    def _beside(self, real: Address) -> Address:
        """Return the address without its port, so that the kernel chooses a free one."""
        return Address(real.family, self._world.node if real.ip == ANY4 else real.ip, 0)

    def _holders(self, protocol: str, real: Address) -> list[int]:
        """Return what keeps a port for the pod."""
        found = self._found(protocol, real) if real.port else None
        held = [found.holder] if found is not None and found.holder >= 0 else []
        if protocol == "tcp" and real.port in self._of_host:
            held.append(self._of_host[real.port])
        return held

    def _join(self, fd: int, protocol: str, wanted: Address, known: Binding) -> None:
        """Bind to a port that was used before, or is: the kernel knows, by the real one."""
        if protocol == "tcp":
            shares = any(socket_calls.option(fd, SOL_SOCKET, name) for name in _SHARING)
            if not shares and known.is_in_use:
                # One that is bound and does not listen yet is no hindrance to the kernel, as we
                # let addresses be reused: programs that look for a free port rely on it.
                raise OSError(EADDRINUSE, "bound by another socket")
            socket_calls.switch_on(fd, SOL_SOCKET, SO_REUSEADDR)
        elif port_holders.share_with_ours_alone(fd):
            self.before_conflict(known.real.port)  # a copy of ours would have a part of what comes
        packed = Address(wanted.family, known.real.ip, known.real.port).pack()
        with port_holders.Beside(fd, self._holders(protocol, known.real)):
            try:
                socket_calls.bind(fd, packed)
            except OSError as error:
                if error.errno != EADDRINUSE:
                    raise
                self.before_conflict(known.real.port)
                socket_calls.bind(fd, packed)
        known.given = Address(wanted.family, wanted.ip, wanted.port)
        self.on_bound(protocol, known.real, known.given)

    def _keep(self, key: Key, known: Binding) -> None:
        """Keep a TCP port that the kernel had chosen, now that a program asks for it by number."""
        if self._held["tcp"] >= MAX_HELD or self._holders("tcp", known.real):
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
        self.on_bound(key[0], binding.real, binding.given)

    def _forget_fleeting(self) -> None:
        """Forget the older half of what nothing holds: their programs are most likely gone."""
        loose = [key for key, found in self._by_port.items() if found.holder < 0]
        for key in loose[: len(loose) // 2]:
            found = self._by_port.pop(key)
            self._by_real.pop((key[0], found.real.ip, found.real.port), None)
            self.on_bound(key[0], found.real, None)

    # listen

    def listen(self, call: Call, target: Target) -> Optional[int]:
        """Listen, at a name if the socket has none yet, and then let others know of it.

        None: the kernel may. Whoever hears of a port and comes at once finds it open.
        """
        fd = target.grab(call, call.args[0])
        try:
            real = socket_calls.own_address(fd)
            if real is None or socket_calls.protocol(fd) != "tcp":
                return None
            if not real.port:
                self.bind_socket(fd, "tcp", Address(real.family, ANY4, 0))
                real = socket_calls.own_address(fd)
            assert real is not None, "an internet socket has such a name"
            with self._lock, port_holders.Beside(fd, self._holders("tcp", real)):
                socket_calls.listen(fd, call.args[1])
            self._publish("tcp", real)
            return 0
        finally:
            os.close(fd)

    def _publish(self, protocol: str, real: Address) -> None:
        binding = self._found(protocol, real)
        is_reached = real.is_any or real.ip == self._world.node
        if binding is None or binding.is_published or not is_reached:
            return
        binding.is_published = True
        self._tell_agent((protocol, self._world.pod, binding.given.port), binding)

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
            "address": text(self._world.node),
            "published": binding.is_published,
        }
        self._tell(message, [binding.holder] if binding.holder >= 0 else [])


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""  # closed meanwhile
