"""Frames of the connection to the kubelet: a header with length and stream, then the payload.

Used by `upgraded_connection` and by netd's relay, each over a non-blocking socket of its own kind,
and by tests that play the kubelet.
"""

from __future__ import annotations

import struct

from ... import wellknown

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket

    from .tls import Tls

_HEADER = struct.Struct(wellknown.FRAME_HEADER)
_CHUNK = 65536


class Broken(Exception):
    """Raised when the connection is of no use any more; dial again."""


def frame(stream: int, payload: bytes) -> bytes:
    return _HEADER.pack(len(payload), stream) + payload


class Frames:
    """Cuts what arrives into frames."""

    def __init__(self, received: bytes = b"") -> None:
        self._bytes = bytearray(received)

    def feed(self, data: bytes) -> None:
        self._bytes += data

    def take(self) -> list[tuple[int, bytes]]:
        """Return all whole frames: stream and payload."""
        frames = []
        start = 0
        while len(self._bytes) - start >= _HEADER.size:
            length, stream = _HEADER.unpack_from(self._bytes, start)
            if length > wellknown.MAX_FRAME:
                raise Broken(f"a frame of {length} bytes, expected at most {wellknown.MAX_FRAME}")
            end = start + _HEADER.size + length
            if len(self._bytes) < end:
                break
            frames.append((stream, bytes(self._bytes[start + _HEADER.size : end])))
            start = end
        del self._bytes[:start]
        return frames


class FramedSocket:
    """Sends and receives frames as far as the socket allows now; the caller polls."""

    def __init__(
        self,
        sock: Tls | socket.socket,
        not_now: tuple[type[OSError], ...],
        ended: str,
        received: bytes = b"",
    ) -> None:
        """Take what the socket raises where it would wait, and the words for when it has ended."""
        self._sock, self._not_now, self._ended = sock, not_now, ended
        self._frames = Frames(received)
        self._out = bytearray()
        sock.setblocking(False)

    def fileno(self) -> int:
        return self._sock.fileno()

    @property
    def backlog(self) -> int:
        """Bytes that wait to be sent."""
        return len(self._out)

    def flush(self) -> None:
        """Send as much as the socket takes now; raise Broken."""
        while self._out:
            try:
                sent = self._sock.send(bytes(self._out[:_CHUNK]))
            except self._not_now:
                return
            except OSError as error:
                raise Broken(str(error)) from error
            del self._out[:sent]

    def _received(self) -> list[tuple[int, bytes]]:
        """Return all whole frames that are here now; raise Broken."""
        while True:
            try:
                data = self._sock.recv(_CHUNK)
            except self._not_now:
                break
            except OSError as error:
                raise Broken(str(error)) from error
            if not data:
                raise Broken(self._ended)
            self._frames.feed(data)
        return self._frames.take()

    def close(self) -> None:
        self._sock.close()
