"""Answers sendmsg and sendmmsg, as `sendto` does, with their control messages."""

from __future__ import annotations

import os
import struct

from ..seccomp.bpf import STRICT
from ..seccomp.caller_process import Target
from ..seccomp.notify import Call
from ..sockets import socket_calls
from ..sockets.msghdr import MAX_MANY, SIZE_OF_MANY, Message, unpack_control
from ..sockets.socket_calls import MSG_DONTWAIT
from .destinations import Lost
from .sendto import parse, put

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional

    from ..pod_network import PodNetwork


def sendmsg(network: PodNetwork, call: Call, target: Target) -> Optional[int]:
    fd = target.grab(call, call.args[0])
    try:
        return _send_message(network, call, target, fd, call.args[1], call.args[2])
    finally:
        os.close(fd)


def sendmmsg(network: PodNetwork, call: Call, target: Target) -> Optional[int]:
    """Send several at once; what the kernel is to send itself, it sends from there on."""
    at, count = call.args[1], min(call.args[2] & 0xFFFFFFFF, MAX_MANY)
    flags = call.args[3] | MSG_DONTWAIT
    fd = target.grab(call, call.args[0])
    done = 0
    try:
        for number in range(count):
            place = at + SIZE_OF_MANY * number
            sent = _send_message(network, call, target, fd, place, flags)
            if sent is None:
                return done or None
            target.write(call, place + SIZE_OF_MANY - 8, struct.pack("<I", sent))
            done += 1
    except OSError:
        if not done:
            raise
    finally:
        os.close(fd)
    return done


def _send_message(
    network: PodNetwork, call: Call, target: Target, fd: int, at: int, flags: int
) -> Optional[int]:
    message = Message(call, target, at)
    if not message.name and not _is_silent(call, fd):
        return None
    to = None
    if message.name:
        raw = target.read_address(call, message.name, message.name_length)
        to = parse(raw, fd)
        if to is None:
            return network.unix_sockets.send_message(call, target, fd, raw, message, flags)
        try:
            to = network.destinations.find(fd, to, (call.pid, call.args[0] & 0x7FFFFFFF))
        except Lost:
            return len(message.data())
        if to is None:
            return None
    control = unpack_control(message.control(), network.addressing)
    return put(network, fd, message.data(), control, flags, to)


def _is_silent(call: Call, fd: int) -> bool:
    """Return whether it may be one that cannot send by itself."""
    return call.args[0] & 0xFFFFFFFF in STRICT and socket_calls.protocol(fd) == "udp"
