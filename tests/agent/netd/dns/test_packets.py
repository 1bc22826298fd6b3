"""DNS messages are read and written as RFC 1035 has them."""

from __future__ import annotations

import struct

import pytest

from orlop.agent.netd.dns import packets
from orlop.agent.netd.dns.packets import Malformed, Record


def a_query(name, kind=packets.A, opt=0, ident=7, flags=packets.RD):
    head = struct.pack(">HHHHHH", ident, flags, 1, 0, 0, 1 if opt else 0)
    tail = b"\0" + struct.pack(">HHIH", packets.OPT, opt, 0, 0) if opt else b""
    return head + packets.encoded(name) + struct.pack(">HH", kind, packets.IN) + tail


def test_a_question_is_read():
    found = packets.parse(a_query("Web.Default.svc.cluster.local", packets.SRV, opt=1232))
    assert (found.id, found.name) == (7, "web.default.svc.cluster.local")
    assert (found.type, found.size, found.has_opt) == (packets.SRV, 1232, True)
    assert found.section.startswith(b"\x03Web")


@pytest.mark.parametrize("size", [100, 512])
def test_without_a_size_or_with_a_small_one_an_answer_has_512_bytes(size):
    assert packets.parse(a_query("a.b")).size == 512
    assert packets.parse(a_query("a.b", opt=size)).size == 512


@pytest.mark.parametrize(
    "packet",
    [
        b"",
        b"\0" * 5,
        a_query("a.b")[:-2],
        a_query("a.b", flags=packets.QR),
        struct.pack(">HHHHHH", 1, 0, 2, 0, 0, 0),
        struct.pack(">HHHHHH", 1, 0, 1, 0, 0, 0) + b"\xc0\x0c\0\1\0\1",
        struct.pack(">HHHHHH", 1, 0, 1, 0, 0, 0) + b"\x80abc\0\1\0\1",
        # What is there only in the question's own message, and not in its answer.
        struct.pack(">HHHHHH", 1, 0, 1, 0, 0, 0) + b"\3web\xc0\x02\0\1\0\1",
        struct.pack(">HHHHHH", 1, 0, 1, 0, 0, 0) + b"\3web\xc0\x16\0\1\0\1\3foo\0",
    ],
    ids=[
        *("empty", "short", "cut", "an answer", "two questions", "a circle", "an unknown label"),
        *("into the header", "beyond the question"),
    ],
)
def test_what_is_no_question_is_refused(packet):
    with pytest.raises(Malformed):
        packets.parse(packet)


def test_an_answer_says_the_name_once():
    question = packets.parse(a_query("web.default.svc.cluster.local"))
    records = [
        Record(question.name, packets.A, 5, packets.address4(f"10.244.0.{n}")) for n in range(9)
    ]
    made = packets.answer(question, 0, records)
    assert made.count(b"\x03web") == 1
    assert [one.data for one in packets.addresses_in(made)] == [one.data for one in records]
    assert packets.addresses_in(made)[8].name == "web.default.svc.cluster.local"


def test_an_answer_that_is_too_long_is_cut_and_says_so():
    question = packets.parse(a_query("web.default.svc.cluster.local", opt=600))
    records = [Record(question.name, packets.A, 5, b"\0\0\0\0") for _ in range(100)]
    made = packets.answer(question, 0, records, limit=question.size)
    flags, _, answers, _, more = struct.unpack_from(">HHHHH", made, 2)
    assert flags & packets.TC
    assert (answers, more) == (0, 1)
    assert len(made) <= 600


def test_what_cannot_be_read_is_answered_as_far_as_it_goes():
    refused = packets.refusal(a_query("a.b")[:12], packets.FORMERR)
    assert struct.unpack_from(">HH", refused) == (7, packets.QR | packets.RD | packets.FORMERR)
    assert packets.refusal(b"abc", packets.FORMERR) == b""
    assert packets.refusal(a_query("a.b", flags=packets.QR), packets.FORMERR) == b""


def test_an_answer_that_no_message_can_hold_is_cut_over_tcp_too():
    """Names in an answer from outside may be short there and long here: a pointer is two bytes."""
    question = packets.parse(a_query("web.default.svc.cluster.local"))
    long = ".".join(["x" * 63] * 100)
    records = [Record(f"{n}.{long}", packets.A, 5, b"\0\0\0\0") for n in range(20)]
    made = packets.answer(question, 0, records)
    assert struct.unpack_from(">H", made, 2)[0] & packets.TC
    assert len(made) < 100
