"""Answers recvmsg and recvmmsg, as `recvfrom` does, with their control messages."""

from __future__ import annotations

import os
import struct

from ..seccomp.caller_process import Target
from ..seccomp.notify import Call
from ..sockets import socket_calls
from ..sockets.msghdr import MAX_MANY, SIZE_OF_MANY, Message
from ..sockets.socket_calls import SO_DOMAIN, SOL_SOCKET
from .recvfrom import MSG_TRUNC, next_datagram, receive

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional

    from ..pod_network import PodNetwork
    from .recvfrom import Received


def recvmsg(network: PodNetwork, call: Call, target: Target) -> Optional[int]:
    def deliver(target: Target, received: Received) -> int:
        data, control, flags, source = received
        put = Message(call, target, call.args[1]).fill(data, control, flags, source)
        return len(data) if call.args[2] & MSG_TRUNC else put

    return receive(network, call, target, call.args[2], deliver)


def recvmmsg(network: PodNetwork, call: Call, target: Target) -> Optional[int]:
    """Wait for the first datagram; those that are there already come with it."""
    at, count = call.args[1], min(call.args[2] & 0xFFFFFFFF, MAX_MANY)

    def deliver(target: Target, received: Received) -> int:
        done = 0
        fd = target.grab(call, call.args[0])
        try:
            while True:
                place = at + SIZE_OF_MANY * done
                data, control, flags, source = received
                put = Message(call, target, place).fill(data, control, flags, source)
                target.write(call, place + SIZE_OF_MANY - 8, struct.pack("<I", put))
                done += 1
                if done == count:
                    return done
                try:
                    received = next_datagram(
                        network, fd, socket_calls.option(fd, SOL_SOCKET, SO_DOMAIN), 0
                    )
                except OSError:
                    return done
        finally:
            os.close(fd)

    return receive(network, call, target, call.args[3], deliver) if count else None
