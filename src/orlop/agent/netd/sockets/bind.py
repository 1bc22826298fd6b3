"""Answers bind and listen: decides which real port of the node stands for which port of the pod.

A port of the pod is any that a program asks for, below 1024 too; the kernel picks the real one, on
the node's address for what others may reach and on the pod's private loopback for the rest. What
was decided is in `bindings`.
"""

from __future__ import annotations

import os
from errno import EADDRINUSE, EADDRNOTAVAIL, EINVAL

from ..seccomp.caller_process import Target
from ..seccomp.notify import Call
from . import port_holders, socket_calls
from .bindings import Binding
from .sockaddr import AF_INET6, ANY4, ANY6, LOOPBACK6, Address, parse
from .socket_calls import IPPROTO_IPV6, IPV6_V6ONLY, SO_REUSEADDR, SO_REUSEPORT, SOL_SOCKET

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional

    from ..pod_addressing import PodAddressing
    from ..pod_network import PodNetwork
    from .bindings import Key

_SHARING = (SO_REUSEADDR, SO_REUSEPORT)
HIGH = 64512  # where ports below 1024 of a loopback address are, if free


def bind(network: PodNetwork, call: Call, target: Target) -> Optional[int]:
    """Bind the caller's socket; None: the kernel may."""
    raw = target.read_address(call, call.args[1], call.args[2] & 0xFFFFFFFF)
    wanted = parse(raw)
    if wanted is None:
        return network.unix_sockets.bind(call, target, raw)
    addressing = network.addressing
    if not addressing.is_own(wanted):
        if addressing.is_virtual(wanted.ip):
            raise OSError(EADDRNOTAVAIL, "another's address")
        return None
    fd = target.grab(call, call.args[0])
    try:
        protocol = socket_calls.protocol(fd)
        if not protocol:
            return None
        if _is_bound_so(network, fd, protocol, wanted):
            return 0  # a signal kept our answer from the caller, who asks again
        bind_socket(network, fd, protocol, wanted, call.pid)
        if protocol == "udp":
            socket_calls.stamp(fd)  # from now on: a datagram's time tells whose it can be
        if protocol == "udp" and wanted.port:
            real = socket_calls.own_address(fd)
            assert real is not None, "just bound"
            network.bindings.publish(protocol, real)
        return 0
    finally:
        os.close(fd)


def listen(network: PodNetwork, call: Call, target: Target) -> Optional[int]:
    """Listen, at a name if the socket has none yet, and then let others know of it.

    None: the kernel may. Whoever hears of a port and comes at once finds it open.
    """
    bindings = network.bindings
    fd = target.grab(call, call.args[0])
    try:
        real = socket_calls.own_address(fd)
        if real is None or socket_calls.protocol(fd) != "tcp":
            return None
        if not real.port:
            bind_socket(network, fd, "tcp", Address(real.family, ANY4, 0))
            real = socket_calls.own_address(fd)
        assert real is not None, "an internet socket has such a name"
        with bindings.lock, port_holders.Beside(fd, bindings.holders("tcp", real)):
            socket_calls.listen(fd, call.args[1])
        bindings.publish("tcp", real)
        return 0
    finally:
        os.close(fd)


def _is_bound_so(network: PodNetwork, fd: int, protocol: str, wanted: Address) -> bool:
    real = socket_calls.own_address(fd)
    if real is None or not real.port:
        return False
    given = network.bindings.given(protocol, real)
    if given is None or given.ip != wanted.ip or wanted.port not in (0, given.port):
        raise OSError(EINVAL, "bound already")
    return True


def bind_socket(network: PodNetwork, fd: int, protocol: str, wanted: Address, pid: int = 0) -> None:
    only6 = wanted.family == AF_INET6 and bool(socket_calls.option(fd, IPPROTO_IPV6, IPV6_V6ONLY))
    if wanted.family == AF_INET6 and len(wanted.ip) == 4 and only6:
        raise OSError(EINVAL, "a mapped address on a socket of IPv6 only")
    addressing, bindings = network.addressing, network.bindings
    key, real = _place(addressing, protocol, wanted, only6)
    with bindings.lock:
        known = bindings.at(key) if wanted.port else None
        if known is not None:
            if protocol == "tcp":
                bindings.keep((protocol, key[1], wanted.port), known)
            _join(network, fd, protocol, wanted, known)
            known.user = (pid, os.fstat(fd).st_ino)
            return
        is_kept = bool(wanted.port) and bindings.may_hold(protocol)
        has_place, holder = _bind_new(network, fd, protocol, real, is_kept)
        if not has_place and (protocol, wanted.port) in addressing.host_ports:
            network.agent.lost(protocol, real.port)
        bound = socket_calls.own_address(fd)
        assert bound is not None, "an internet socket has such a name"
        port = wanted.port or bound.port
        # At all addresses, a socket of IPv6 is at those of IPv4, too, which is what counts.
        ip = ANY4 if bound.is_any else bound.ip
        place = Address(wanted.family, ip, bound.port)
        binding = Binding(Address(wanted.family, wanted.ip, port), place, holder)
        binding.user = (pid, os.fstat(fd).st_ino)
        bindings.bound((protocol, key[1], port), binding)


def _place(
    addressing: PodAddressing, protocol: str, wanted: Address, only6: bool
) -> tuple[Key, Address]:
    """Return under what it is known, and where it shall really be."""
    port = wanted.port
    high = port if port >= 1024 else HIGH + port if port else 0
    if only6:
        place = LOOPBACK6 if wanted.is_loopback else ANY6
        return (protocol, place, port), Address(AF_INET6, LOOPBACK6, 0)
    if wanted.is_loopback:
        return (protocol, wanted.ip, port), Address(wanted.family, addressing.loopback, high)
    host = addressing.host_ports.get((protocol, port))
    if host is not None:
        return (protocol, addressing.pod, port), Address(wanted.family, host.ip, host.port)
    return (protocol, addressing.pod, port), Address(wanted.family, addressing.node, 0)


def _bind_new(
    network: PodNetwork, fd: int, protocol: str, real: Address, is_kept: bool
) -> tuple[bool, int]:
    """Bind to a place, or to another port beside it; return whether it is that place, and what
    keeps it.
    """
    if protocol == "udp":
        port_holders.share_with_ours_alone(fd)
        has_place = _bind_or_beside(network, fd, real)
        bound = socket_calls.own_address(fd)
        assert bound is not None, "an internet socket has such a name"
        return has_place, port_holders.hold_udp(fd, bound) if is_kept else -1
    if real.port in network.bindings.of_host and _bind_at_host_port(network, fd, real):
        return True, -1
    # While this is off, nobody else can be at the port when it is bound.
    socket_calls.switch_off(fd, SOL_SOCKET, SO_REUSEADDR)
    holder = -1
    try:
        if not is_kept:
            return _bind_or_beside(network, fd, real), -1
        holder, place = _hold_or_beside(network, real)
        with port_holders.Beside(fd, [holder]):
            socket_calls.bind(fd, place.pack())
        return place.port == real.port or not real.port, holder
    except OSError:
        if holder >= 0:
            os.close(holder)
        raise
    finally:  # a program that comes back finds connections of the last one
        socket_calls.switch_on(fd, SOL_SOCKET, SO_REUSEADDR)


def _bind_at_host_port(network: PodNetwork, fd: int, real: Address) -> bool:
    socket_calls.switch_on(fd, SOL_SOCKET, SO_REUSEADDR)
    try:
        with port_holders.Beside(fd, [network.bindings.of_host[real.port]]):
            socket_calls.bind(fd, real.pack())
    except OSError as error:
        if error.errno != EADDRINUSE:
            raise
        return False
    return True


def _bind_or_beside(network: PodNetwork, fd: int, real: Address) -> bool:
    try:
        socket_calls.bind(fd, real.pack())
        return True
    except OSError as error:
        if error.errno != EADDRINUSE or not real.port:
            raise
        socket_calls.bind(fd, _beside(network, real).pack())
        return False


def _hold_or_beside(network: PodNetwork, real: Address) -> tuple[int, Address]:
    try:
        return port_holders.hold_tcp(real)
    except OSError as error:
        if error.errno != EADDRINUSE or not real.port:
            raise
        return port_holders.hold_tcp(_beside(network, real))


def _beside(network: PodNetwork, real: Address) -> Address:
    """Return any port in place of one that somebody has."""
    return Address(real.family, network.addressing.node if real.ip == ANY4 else real.ip, 0)


def _join(network: PodNetwork, fd: int, protocol: str, wanted: Address, known: Binding) -> None:
    """Bind to a port that was used before, or is: the kernel knows, by the real one."""
    if protocol == "tcp":
        shares = any(socket_calls.option(fd, SOL_SOCKET, name) for name in _SHARING)
        if not shares and known.is_in_use:
            # One that is bound and does not listen yet is no hindrance to the kernel, as we
            # let addresses be reused: programs that look for a free port rely on it.
            raise OSError(EADDRINUSE, "bound by another socket")
        socket_calls.switch_on(fd, SOL_SOCKET, SO_REUSEADDR)
    elif port_holders.share_with_ours_alone(fd):
        network.let_go_of(known.real.port)  # a copy of ours would have a part of what comes
    packed = Address(wanted.family, known.real.ip, known.real.port).pack()
    with port_holders.Beside(fd, network.bindings.holders(protocol, known.real)):
        try:
            socket_calls.bind(fd, packed)
        except OSError as error:
            if error.errno != EADDRINUSE:
                raise
            network.let_go_of(known.real.port)
            socket_calls.bind(fd, packed)
    given = Address(wanted.family, wanted.ip, wanted.port)
    network.bindings.bound_again(protocol, known, given)
