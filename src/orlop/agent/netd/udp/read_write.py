"""Answers read, readv, write and writev on descriptors of datagram sockets."""

from __future__ import annotations

from ..seccomp.caller_process import Target
from ..seccomp.notify import Call
from ..sockets.msghdr import read_pieces, write_pieces
from .recvfrom import is_plain, receive
from .sendto import send_silent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Optional

    from ..pod_network import PodNetwork
    from .recvfrom import Received


def read(network: PodNetwork, call: Call, target: Target) -> Optional[int]:
    at, length = call.args[1], call.args[2]
    return _read(network, call, target, lambda: [(at, length)])


def readv(network: PodNetwork, call: Call, target: Target) -> Optional[int]:
    at, count = call.args[1], call.args[2]
    return _read(network, call, target, lambda: read_pieces(call, target, at, count))


def write(network: PodNetwork, call: Call, target: Target) -> Optional[int]:
    return send_silent(network, call, target, lambda: [(call.args[1], call.args[2])], 0)


def writev(network: PodNetwork, call: Call, target: Target) -> Optional[int]:
    at, count = call.args[1], call.args[2]
    return send_silent(network, call, target, lambda: read_pieces(call, target, at, count), 0)


def _read(
    network: PodNetwork, call: Call, target: Target, pieces: Callable[[], list[tuple[int, int]]]
) -> Optional[int]:
    if is_plain(call, target):
        return None
    room = pieces()

    def deliver(target: Target, received: Received) -> int:
        return write_pieces(call, target, room, received[0])

    return receive(network, call, target, 0, deliver)
