"""Frames of the connection to the kubelet: a header with length and stream, then the payload.

Used by `upgraded_connection`, and by tests that play the kubelet. Bytes in, frames out; no I/O.
"""

from __future__ import annotations

import struct

from ... import wellknown

_HEADER = struct.Struct(wellknown.FRAME_HEADER)


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
