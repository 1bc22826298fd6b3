"""Keeps real ports with the pod: a socket for each, bound and never used, that lets nobody in.

Used by `bind`. SO_REUSEADDR knows no users: whoever sets it may have a port together with all who
have set it, too, and listen there while they do not. So ours has it only while netd binds or
listens for a program of the pod's, which is then beside it.
"""

from __future__ import annotations

from . import socket_calls
from .sockaddr import AF_INET, AF_INET6, Address
from .socket_calls import SO_REUSEADDR, SO_REUSEPORT, SOL_SOCKET

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
else:
    import _socket as socket  # without the enums of `socket`, which are slow to import

_KINDS = {"tcp": socket.SOCK_STREAM, "udp": socket.SOCK_DGRAM}
# Of a UDP port, so that nothing arrives at it: nobody sends from there.
_NOWHERE = Address(AF_INET, b"\x7f\0\0\1", 1)


def hold(protocol: str, fd: int, real: Address) -> int:
    """Keep the port that a program's socket was just bound to; return -1 where that cannot be."""
    family = AF_INET if len(real.ip) == 4 else AF_INET6
    if protocol == "udp" and (real.is_any or family == AF_INET6):
        return -1  # what it is not to receive cannot be said for all addresses
    holder = socket.socket(family, _KINDS[protocol] | socket.SOCK_CLOEXEC)
    try:
        with LetIn([holder.fileno(), *([fd] if protocol == "udp" else [])]):
            socket_calls.bind(holder.fileno(), Address(family, real.ip, real.port).pack())
        if protocol == "udp" and socket_calls.connect(holder.fileno(), _NOWHERE.pack()):
            raise OSError("no way to nowhere")
    except OSError:
        holder.close()
        return -1
    return holder.detach()


class LetIn:
    """Lets others that reuse addresses in beside some sockets, for the length of a `with`."""

    def __init__(self, holders: list[int]) -> None:
        self._holders = holders

    def __enter__(self) -> None:
        for holder in self._holders:
            socket_calls.switch_on(holder, SOL_SOCKET, SO_REUSEADDR)

    def __exit__(self, *error: object) -> None:
        for holder in self._holders:
            socket_calls.switch_off(holder, SOL_SOCKET, SO_REUSEADDR)


def share_with_ours_alone(fd: int) -> bool:
    """Let a UDP socket share its port with its user's sockets only; return whether it shares."""
    if socket_calls.option(fd, SOL_SOCKET, SO_REUSEADDR):
        socket_calls.switch_off(fd, SOL_SOCKET, SO_REUSEADDR)
        socket_calls.switch_on(fd, SOL_SOCKET, SO_REUSEPORT)
    return bool(socket_calls.option(fd, SOL_SOCKET, SO_REUSEPORT))
