"""Asks grpc.health.v1.Health, by the one call that a probe makes, over plain HTTP/2.

Used by `network`. It sends one request and reads frames until the answer's message has come; what
the headers of the answer say it does not decode, since a server that answers without a message is
not healthy, whatever its reason. As RFC 9113 and RFC 7541, as far as that needs.
"""

from __future__ import annotations

import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY = 0, 1, 3, 4, 6, 7
END_STREAM, ACK, END_HEADERS, PADDED = 0x1, 0x1, 0x4, 0x8
MAX_FRAME = 1 << 14
STATUSES = ("UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN")
METHOD = "/grpc.health.v1.Health/Check"


class NotHealth(Exception):
    """Raised where what answers is not a health service."""


def check(connection: socket.socket, service: str, authority: str) -> str:
    """Return the status of a service, by its name; raise NotHealth, or OSError from the socket."""
    message = _request(service)
    connection.sendall(
        PREFACE
        + _frame(SETTINGS, 0, 0, b"")
        + _frame(HEADERS, END_HEADERS, 1, _headers(authority))
        + _frame(DATA, END_STREAM, 1, message)
    )
    answer = b""
    while True:
        kind, flags, stream, payload = _read_frame(connection)
        if kind == SETTINGS and not flags & ACK:
            connection.sendall(_frame(SETTINGS, ACK, 0, b""))
        elif kind == PING and not flags & ACK:
            connection.sendall(_frame(PING, ACK, 0, payload))
        elif kind == GOAWAY or (kind == RESET and stream == 1):
            raise NotHealth("the server closed the stream")
        elif stream == 1 and kind == DATA:
            answer += _unpadded(payload) if flags & PADDED else payload
            if (status := _status(answer)) is not None:
                return status
        if stream == 1 and kind in (DATA, HEADERS) and flags & END_STREAM:
            protocol = "the grpc health protocol (grpc.health.v1.Health)"
            raise NotHealth(f"this server does not implement {protocol}, or not for this service")


def _unpadded(payload: bytes) -> bytes:
    if not payload or payload[0] >= len(payload):
        raise NotHealth("the server does not speak HTTP/2")
    return payload[1 : len(payload) - payload[0]]


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    head = struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream)
    return head + payload


def _read_frame(connection: socket.socket) -> tuple[int, int, int, bytes]:
    head = _read(connection, 9)
    length = int.from_bytes(head[:3], "big")
    kind, flags, stream = struct.unpack(">BBI", head[3:])
    if length > MAX_FRAME:
        raise NotHealth("the server does not speak HTTP/2")
    return kind, flags, stream & 0x7FFFFFFF, _read(connection, length)


def _read(connection: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        part = connection.recv(length - len(data))
        if not part:
            raise NotHealth("the server closed the connection")
        data += part
    return data


def _headers(authority: str) -> bytes:
    """Encode literal fields that are not indexed: the shortest HPACK there is."""
    fields = (
        (":method", "POST"),
        (":scheme", "http"),
        (":path", METHOD),
        (":authority", authority),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
        ("user-agent", "kube-probe"),
    )
    return b"".join(b"\x10" + _text(name) + _text(value) for name, value in fields)


def _text(text: str) -> bytes:
    raw = text.encode()
    if len(raw) >= 127:
        raise ValueError(f"too long for a header of ours: {text!r}")
    return bytes([len(raw)]) + raw


def _request(service: str) -> bytes:
    """Encode a HealthCheckRequest in its gRPC envelope."""
    raw = service.encode()
    body = b"\x0a" + _varint(len(raw)) + raw if raw else b""
    return b"\0" + struct.pack(">I", len(body)) + body


def _varint(number: int) -> bytes:
    found = b""
    while number >= 0x80:
        found += bytes([number & 0x7F | 0x80])
        number >>= 7
    return found + bytes([number])


def _status(answer: bytes) -> str | None:
    """Return the status in a whole HealthCheckResponse; None until all of it is here."""
    if len(answer) < 5 or len(answer) < 5 + int.from_bytes(answer[1:5], "big"):
        return None
    body = answer[5:]
    if answer[0] or (body and body[0] != 0x08) or len(body) == 1:
        raise NotHealth("the answer is no HealthCheckResponse")
    number = body[1] if body else 0
    return STATUSES[number] if number < len(STATUSES) else str(number)
