"""Codes SPDY/3.1 frames as Kubernetes uses them, from a server's side: bytes in, events out.

Used by `spdy_session`. Flow control is not done: the Go clients do not send WINDOW_UPDATE and pay
no heed to it, so that obeying the protocol would hang after 64 KiB; TCP holds back. No I/O.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from .spdy_dictionary import DICTIONARY

VERSION = 3
SYN_STREAM, SYN_REPLY, RST_STREAM, SETTINGS, PING, GOAWAY, HEADERS, WINDOW_UPDATE = (
    1, 2, 3, 4, 6, 7, 8, 9,
)  # fmt: skip
FIN = 0x01
CONTROL = 0x80000000
REFUSED, CANCEL, INTERNAL_ERROR = 3, 5, 6  # codes of RST_STREAM
MAX_CONTROL = 64 << 10
# A block of names and values, when it is no longer compressed. Kubernetes' have three names; a few
# hundred bytes may stand for thousands of them, in every frame.
MAX_HEADERS = 16 << 10
MAX_NAMES = 64
MAX_HELD = 64 << 10  # of a frame with data that is not yet whole: a larger one comes in pieces
MAX_DATA = 1 << 20  # in one frame that we send


class SpdyError(ValueError):
    """Raised where what came is not SPDY/3.1."""


@dataclass(frozen=True, slots=True)
class Opened:
    stream: int
    headers: Mapping[str, str]
    is_last: bool = False


@dataclass(frozen=True, slots=True)
class Data:
    stream: int
    data: bytes
    is_last: bool = False


@dataclass(frozen=True, slots=True)
class Reset:
    stream: int
    code: int = CANCEL


@dataclass(frozen=True, slots=True)
class Pinged:
    payload: bytes


@dataclass(frozen=True, slots=True)
class GoneAway:
    """The client opens no more streams."""


Event = Opened | Data | Reset | Pinged | GoneAway


@dataclass(slots=True)
class Codec:
    """The state of one connection: what is not yet a whole frame, and both compressors."""

    _received: bytearray = field(default_factory=bytearray)
    _large: Data = field(default_factory=lambda: Data(0, b""))
    _left: int = 0  # bytes of it that have not come yet
    _inflate: zlib._Decompress = field(default_factory=lambda: zlib.decompressobj(zdict=DICTIONARY))
    _deflate: zlib._Compress = field(
        default_factory=lambda: zlib.compressobj(9, zlib.DEFLATED, 15, 9, 0, DICTIONARY)
    )

    # In

    def feed(self, data: bytes) -> list[Event]:
        """Return what the next bytes say; raise SpdyError."""
        self._received += data
        events: list[Event] = []
        start = self._piece(0, events)
        while len(self._received) - start >= 8:
            head, rest = struct.unpack_from(">II", self._received, start)
            flags, length = rest >> 24, rest & 0xFFFFFF
            if head & CONTROL and length > MAX_CONTROL:
                raise SpdyError(
                    f"a control frame of {length} bytes, expected {MAX_CONTROL} at most"
                )
            if not head & CONTROL and length > MAX_HELD:
                self._large, self._left = Data(head, b"", bool(flags & FIN)), length
                start = self._piece(start + 8, events)
                continue
            end = start + 8 + length
            if len(self._received) < end:
                break
            payload = bytes(self._received[start + 8 : end])
            start = end
            if head & CONTROL:
                events += self._on_control(head, flags, payload)
            else:
                events.append(Data(head, payload, bool(flags & FIN)))
        del self._received[:start]
        return events

    def _piece(self, start: int, events: list[Event]) -> int:
        """Take what has come of a large frame, if one is under way; return where the next one
        begins.
        """
        if not self._left:
            return start
        part = bytes(self._received[start : start + self._left])
        self._left -= len(part)
        if part:
            is_last = self._large.is_last and not self._left
            events.append(Data(self._large.stream, part, is_last))
        return start + len(part)

    def _on_control(self, head: int, flags: int, payload: bytes) -> list[Event]:
        version, kind = head >> 16 & 0x7FFF, head & 0xFFFF
        if version != VERSION:
            raise SpdyError(f"SPDY version {version}, expected {VERSION}")
        try:
            return self._control(kind, flags, payload)
        except (struct.error, zlib.error, IndexError) as error:
            raise SpdyError(f"a garbled frame of type {kind}: {error}") from error

    def _control(self, kind: int, flags: int, payload: bytes) -> list[Event]:
        if kind == SYN_STREAM:
            number = _number(payload)
            return [Opened(number, self._headers(payload[10:]), bool(flags & FIN))]
        if kind in (SYN_REPLY, HEADERS):
            self._headers(payload[4:])  # for the compressor's state alone
        elif kind == RST_STREAM:
            return [Reset(_number(payload), struct.unpack_from(">I", payload, 4)[0])]
        elif kind == PING:
            return [Pinged(struct.pack(">I", *struct.unpack_from(">I", payload)))]
        elif kind == GOAWAY:
            return [GoneAway()]
        return []  # SETTINGS, WINDOW_UPDATE and what may come one day

    def _headers(self, block: bytes) -> dict[str, str]:
        plain = self._inflate.decompress(block, MAX_HEADERS)
        if self._inflate.unconsumed_tail:
            raise SpdyError(f"headers of more than {MAX_HEADERS} bytes")
        (count,) = struct.unpack_from(">I", plain)
        if count > MAX_NAMES:
            raise SpdyError(f"{count} headers, expected {MAX_NAMES} at most")
        words, at = [], 4
        for _ in range(2 * count):
            (length,) = struct.unpack_from(">I", plain, at)
            words.append(plain[at + 4 : at + 4 + length].decode("latin-1"))
            at += 4 + length
        return {name.lower(): text for name, text in zip(words[::2], words[1::2], strict=True)}

    # Out

    def open(self, stream: int, headers: Mapping[str, str]) -> bytes:
        """Return SYN_STREAM, which clients send to us: for whoever plays one."""
        return _control(SYN_STREAM, struct.pack(">IIH", stream, 0, 0) + self._block(headers))

    def reply(self, stream: int) -> bytes:
        return _control(SYN_REPLY, struct.pack(">I", stream) + self._block({}))

    def _block(self, headers: Mapping[str, str]) -> bytes:
        plain = struct.pack(">I", len(headers))
        for pair in headers.items():
            for word in pair:
                raw = word.encode("latin-1")
                plain += struct.pack(">I", len(raw)) + raw
        return self._deflate.compress(plain) + self._deflate.flush(zlib.Z_SYNC_FLUSH)


def data(stream: int, payload: bytes, *, is_last: bool = False) -> bytes:
    return struct.pack(">II", stream, (FIN if is_last else 0) << 24 | len(payload)) + payload


def reset(stream: int, code: int = CANCEL) -> bytes:
    return _control(RST_STREAM, struct.pack(">II", stream, code))


def ping(payload: bytes) -> bytes:
    return _control(PING, payload)


def go_away(last: int) -> bytes:
    return _control(GOAWAY, struct.pack(">II", last, 0))


def _control(kind: int, payload: bytes) -> bytes:
    return struct.pack(">HHI", 0x8000 | VERSION, kind, len(payload)) + payload


def _number(payload: bytes) -> int:
    return int(struct.unpack_from(">I", payload)[0]) & 0x7FFFFFFF
