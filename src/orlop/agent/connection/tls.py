"""Speaks TLS as a client without the weight of `ssl`: the C module under it, one CA and one name.

Used by `upgraded_connection`. Importing `ssl` takes longer than a whole handshake, and a thousand
pods that start together each pay for it; where an interpreter's C module has another shape, `ssl`
itself is used. The server's certificate and name are always checked.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    import ssl as _ssl
    from typing import Any
else:
    import _socket as socket
    import _ssl

__all__ = ["Plain", "Tls", "WantMore", "socket"]

# Until the other end has read, or said, more; in either direction.
WantMore = (_ssl.SSLWantReadError, _ssl.SSLWantWriteError)
_ENDS = (_ssl.SSLZeroReturnError, _ssl.SSLEOFError)


class Plain(socket.socket):
    """A socket that TLS may be spoken over: instances of this class can be referred to weakly."""


class Tls:
    """A connected socket, from its handshake on; closes the socket with itself."""

    def __init__(self, raw: socket.socket, ca: str, server_name: str) -> None:
        self._raw, self._tls = _wrapped(raw, ca, server_name)
        try:
            self._tls.do_handshake()
        except OSError:
            self.close()  # `raw` may have been taken apart by now
            raise

    def fileno(self) -> int:
        return int(self._raw.fileno())

    def setblocking(self, is_blocking: bool) -> None:
        self._raw.setblocking(is_blocking)

    def send(self, data: bytes) -> int:
        return int(self._tls.write(data))

    def sendall(self, data: bytes) -> None:
        while data:
            data = data[self.send(data) :]

    def recv(self, size: int) -> bytes:
        """Receive; empty at the end of the connection, however that came."""
        try:
            return bytes(self._tls.read(size))
        except _ENDS:
            return b""

    def close(self) -> None:
        self._raw.close()


def _wrapped(raw: socket.socket, ca: str, server_name: str) -> tuple[Any, Any]:
    """Return the object that has the descriptor, and the one that speaks TLS over it."""
    try:
        context: Any = _ssl._SSLContext(_ssl.PROTOCOL_TLS_CLIENT)  # type: ignore[attr-defined]
        context.load_verify_locations(ca, None, None)
        context.verify_mode, context.check_hostname = 2, True  # they are so, by this protocol
        return raw, context._wrap_socket(raw, False, server_name)
    except (AttributeError, TypeError):
        return _by_the_book(raw, ca, server_name)


def _by_the_book(raw: socket.socket, ca: str, server_name: str) -> tuple[Any, Any]:
    import socket as full
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(ca)
    timeout = raw.gettimeout()
    whole = full.socket(fileno=raw.detach())
    whole.settimeout(timeout)
    found = context.wrap_socket(whole, server_hostname=server_name, do_handshake_on_connect=False)
    return found, found
