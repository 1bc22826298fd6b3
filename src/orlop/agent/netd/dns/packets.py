"""Reads and writes DNS messages, as far as a server of the cluster's names needs them.

Used by `dns/server.py`. Bytes to values and back, without I/O.
"""

from __future__ import annotations

import struct

from ...linux.fast_imports import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Iterable
else:
    import _socket as socket

A, NS, CNAME, SOA, PTR, TXT, AAAA, SRV, OPT, ANY = 1, 2, 5, 6, 12, 16, 28, 33, 41, 255
NOERROR, FORMERR, SERVFAIL, NXDOMAIN, NOTIMP, REFUSED = range(6)
IN = 1
SMALLEST, LARGEST = 512, 4096  # bytes of an answer over UDP
LONGEST = 65535  # over TCP: its length goes before it in two bytes
QR, AA, TC, RD, RA = 0x8000, 0x0400, 0x0200, 0x0100, 0x0080
_HEADER = struct.Struct(">HHHHHH")


class Malformed(Exception):
    """Not a DNS message."""


@value
class Question:
    id: int
    flags: int
    name: str  # in lower case, without its last dot
    type: int
    cls: int
    section: bytes  # the question itself, as it was asked
    size: int  # of an answer over UDP
    has_opt: bool


@value
class Record:
    name: str
    type: int
    ttl: int
    data: bytes


def parse(packet: bytes) -> Question:
    """Read the question of a query; raise Malformed."""
    try:
        ident, flags, questions, _, _, more = _HEADER.unpack_from(packet)
        if flags & QR or questions != 1:
            raise Malformed("not one question")
        name, end = name_at(packet, 12)
        kind, cls = struct.unpack_from(">HH", packet, end)
        end += 4
        size, has_opt = _options(packet, end) if more else (SMALLEST, False)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise Malformed(str(error)) from error
    return Question(ident, flags, name.lower(), kind, cls, packet[12:end], size, has_opt)


def _options(packet: bytes, at: int) -> tuple[int, bool]:
    """Read what the client says of itself in an OPT record right behind the question."""
    if packet[at] != 0:
        return SMALLEST, False
    kind, size = struct.unpack_from(">HH", packet, at + 1)
    if kind != OPT:
        return SMALLEST, False
    return max(SMALLEST, min(size, LARGEST)), True


def name_at(packet: bytes, at: int) -> tuple[str, int]:
    """Read a name and where it ends; raise Malformed, IndexError.

    A pointer leads to a place before itself and behind the header: so none goes in circles, and a
    question means the same in its answer, which has another header and nothing behind it.
    """
    labels: list[str] = []
    end, start = -1, at
    for _ in range(128):
        length = packet[at]
        if length == 0:
            return ".".join(labels), (at + 1 if end < 0 else end)
        if length & 0xC0 == 0xC0:
            end = at + 2 if end < 0 else end
            to = (length & 0x3F) << 8 | packet[at + 1]
            if not _HEADER.size <= to < start:
                raise Malformed("a pointer to no name before it")
            at = start = to
        elif length & 0xC0:
            raise Malformed("a label of an unknown kind")
        else:
            labels.append(packet[at + 1 : at + 1 + length].decode("latin-1"))
            at += 1 + length
    raise Malformed("a name without an end")


def answer(
    question: Question,
    code: int,
    records: Iterable[Record] = (),
    authority: Iterable[Record] = (),
    extra: Iterable[Record] = (),
    *,
    limit: int = 0,
) -> bytes:
    """Make the answer; one longer than `limit`, or than any may be, is cut and says so."""
    flags = QR | AA | RA | (question.flags & (0x7800 | RD)) | code
    names = {question.name: 12}  # where a name stands already: two bytes instead of all of it
    body = bytearray(question.section)
    counts = []
    for section in (records, authority, extra):
        section = list(section)
        for record in section:
            _write(body, record, names)
        counts.append(len(section))
    if question.has_opt:
        body += b"\0" + struct.pack(">HHIH", OPT, LARGEST, 0, 0)
        counts[2] += 1
    if 12 + len(body) > (limit or LONGEST):
        return _cut(question, flags)
    return _HEADER.pack(question.id, flags, 1, *counts) + bytes(body)


def _cut(question: Question, flags: int) -> bytes:
    opt = b"\0" + struct.pack(">HHIH", OPT, LARGEST, 0, 0) if question.has_opt else b""
    head = _HEADER.pack(question.id, flags | TC, 1, 0, 0, 1 if opt else 0)
    return head + question.section + opt


def _write(body: bytearray, record: Record, names: dict[str, int]) -> None:
    at = names.get(record.name)
    if at is None:
        if len(body) + 12 < 0x4000:
            names[record.name] = len(body) + 12
        body += encoded(record.name)
    else:
        body += struct.pack(">H", 0xC000 | at)
    body += struct.pack(">HHIH", record.type, IN, record.ttl, len(record.data)) + record.data


def refusal(packet: bytes, code: int) -> bytes:
    """Answer what could not be read, as far as its head goes."""
    if len(packet) < 12 or packet[2] & 0x80:
        return b""
    ident, flags = struct.unpack_from(">HH", packet)
    return _HEADER.pack(ident, QR | (flags & (0x7800 | RD)) | code, 0, 0, 0, 0)


def encoded(name: str) -> bytes:
    """Encode a name as it goes over the wire."""
    if not name:
        return b"\0"
    labels = [label.encode("latin-1")[:63] for label in name.split(".")]
    return b"".join(bytes((len(label),)) + label for label in labels) + b"\0"


def query(question: Question, name: str) -> bytes:
    """Make the same question about another name."""
    head = _HEADER.pack(question.id, question.flags, 1, 0, 0, 0)
    return head + encoded(name) + struct.pack(">HH", question.type, IN)


def addresses_in(packet: bytes) -> list[Record]:
    """Read the addresses and other names in an answer; raise Malformed."""
    try:
        return _answers(packet)
    except (struct.error, IndexError) as error:
        raise Malformed(str(error)) from error


def _answers(packet: bytes) -> list[Record]:
    _, _, questions, answers, _, _ = _HEADER.unpack_from(packet)
    at = 12
    for _ in range(questions):
        at = name_at(packet, at)[1] + 4
    found = []
    for _ in range(answers):
        name, at = name_at(packet, at)
        kind, _, ttl, length = struct.unpack_from(">HHIH", packet, at)
        at += 10
        if kind in (A, AAAA):
            found.append(Record(name, kind, ttl, packet[at : at + length]))
        elif kind == CNAME:
            found.append(Record(name, kind, ttl, encoded(name_at(packet, at)[0])))
        at += length
    return found


# The data of records


def address4(text: str) -> bytes:
    return socket.inet_aton(text)


def address6(text: str) -> bytes:
    return socket.inet_pton(socket.AF_INET6, text)


def service(priority: int, weight: int, port: int, target: str) -> bytes:
    return struct.pack(">HHH", priority, weight, port) + encoded(target)


def text(words: str) -> bytes:
    data = words.encode()[:255]
    return bytes((len(data),)) + data


def authority(domain: str, ttl: int) -> Record:
    """Make the SOA that goes with a negative answer, so that clients keep it for at most `ttl`."""
    names = encoded("ns.dns." + domain) + encoded("hostmaster." + domain)
    return Record(domain, SOA, ttl, names + struct.pack(">IIIII", 1, 7200, 1800, 86400, ttl))
