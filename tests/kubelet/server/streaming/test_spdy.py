"""SPDY/3.1 frames: what comes in any pieces, what goes out, what is refused."""

from __future__ import annotations

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orlop.kubelet.server.streaming import spdy
from orlop.kubelet.server.streaming.spdy_dictionary import DICTIONARY

HEADERS = {"streamtype": "error", "port": "8080", "requestid": "0"}


def fed(data: bytes, codec: spdy.Codec | None = None) -> list[spdy.Event]:
    return (codec or spdy.Codec()).feed(data)


def test_the_dictionary_is_the_protocols() -> None:
    """Adler-32 of the dictionary is in every compressed stream: that of the draft's, as known."""
    assert (len(DICTIONARY), zlib.adler32(DICTIONARY)) == (1423, 0xE3C6A7C2)


@pytest.mark.parametrize(
    ("frame", "event"),
    [
        (spdy.data(1, b"abc"), spdy.Data(1, b"abc")),
        (spdy.data(7, b"", is_last=True), spdy.Data(7, b"", True)),
        (spdy.reset(5), spdy.Reset(5, spdy.CANCEL)),
        (spdy.reset(5, 3), spdy.Reset(5, spdy.REFUSED)),
        (spdy.ping(b"\0\0\0\1"), spdy.Pinged(b"\0\0\0\1")),
        (spdy.go_away(3), spdy.GoneAway()),
        (spdy.Codec().open(1, HEADERS), spdy.Opened(1, HEADERS)),
        (spdy.Codec().open(3, {}), spdy.Opened(3, {})),
    ],
)
def test_a_frame_is_one_event(frame: bytes, event: spdy.Event) -> None:
    assert fed(frame) == [event]


def test_bytes_on_the_wire_are_the_protocols() -> None:
    assert spdy.data(5, b"hi", is_last=True) == b"\0\0\0\5\1\0\0\2hi"
    assert spdy.ping(b"\0\0\0\2") == b"\x80\3\0\6\0\0\0\4\0\0\0\2"
    assert spdy.reset(1) == b"\x80\3\0\3\0\0\0\x08\0\0\0\1\0\0\0\5"


def test_names_are_in_small_letters_whatever_the_client_wrote() -> None:
    assert fed(spdy.Codec().open(1, {"streamType": "data"})) == [
        spdy.Opened(1, {"streamtype": "data"})
    ]


def test_headers_of_one_connection_share_a_compressor() -> None:
    theirs, ours = spdy.Codec(), spdy.Codec()
    frames = [theirs.open(number, HEADERS) for number in (1, 3, 5)]
    assert len(frames[2]) < len(frames[0])
    events = [event for frame in frames for event in ours.feed(frame)]
    assert events == [spdy.Opened(number, HEADERS) for number in (1, 3, 5)]
    assert theirs.feed(ours.reply(1) + spdy.data(1, b"x")) == [spdy.Data(1, b"x")]


@pytest.mark.parametrize("kind", [spdy.SETTINGS, spdy.WINDOW_UPDATE, 99])
def test_frames_that_say_nothing_to_us_are_passed_over(kind: int) -> None:
    payload = b"\0" * 8
    frame = struct.pack(">HHI", 0x8003, kind, len(payload)) + payload
    assert fed(frame + spdy.data(1, b"x")) == [spdy.Data(1, b"x")]


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (struct.pack(">HHI", 0x8002, spdy.PING, 4) + b"\0" * 4, "version 2, expected 3"),
        (struct.pack(">HHI", 0x8003, spdy.SYN_STREAM, 1 << 20), "control frame of 1048576"),
        (struct.pack(">HHI", 0x8003, spdy.SYN_STREAM, 14) + b"\0" * 14, "garbled"),
        (struct.pack(">HHI", 0x8003, spdy.RST_STREAM, 2) + b"\0" * 2, "garbled"),
    ],
)
def test_what_is_not_spdy_is_refused(frame: bytes, words: str) -> None:
    with pytest.raises(spdy.SpdyError, match=words):
        fed(frame)


@pytest.mark.parametrize("size", [0, 1, 3])
def test_a_ping_without_its_number_is_refused(size: int) -> None:
    with pytest.raises(spdy.SpdyError, match="garbled frame of type 6"):
        fed(spdy.ping(b"x" * size))


def test_headers_that_swell_are_refused() -> None:
    bomb = spdy.Codec().open(1, {"a": "b" * (1 << 20)})
    assert len(bomb) < 10_000
    with pytest.raises(spdy.SpdyError, match="headers of more than"):
        fed(bomb)


@given(st.lists(st.binary(max_size=300), max_size=8), st.integers(1, 50))
def test_pieces_of_any_size_give_the_same(payloads: list[bytes], size: int) -> None:
    whole = b"".join(spdy.data(1, payload) for payload in payloads) + spdy.go_away(1)
    codec = spdy.Codec()
    events = [e for at in range(0, len(whole), size) for e in codec.feed(whole[at : at + size])]
    assert events == [*(spdy.Data(1, payload) for payload in payloads), spdy.GoneAway()]


@given(st.binary(max_size=200))
def test_garbage_raises_nothing_else(data: bytes) -> None:
    try:
        fed(data)
    except spdy.SpdyError:
        pass


def _frame(kind: int, payload: bytes) -> bytes:
    return struct.pack(">HHI", 0x8003, kind, len(payload)) + payload


def test_headers_of_many_names_are_refused() -> None:
    """A few hundred bytes of nothing but empty names and values are thousands of them."""
    squeeze = zlib.compressobj(9, zlib.DEFLATED, 15, 9, 0, DICTIONARY)
    block = squeeze.compress(struct.pack(">I", 2_000) + b"\0" * 16_000)
    block += squeeze.flush(zlib.Z_SYNC_FLUSH)
    assert len(block) < 300
    for kind, rest in ((spdy.HEADERS, b"\0\0\0\1"), (spdy.SYN_STREAM, b"\0\0\0\1" + b"\0" * 6)):
        with pytest.raises(spdy.SpdyError, match="2000 headers, expected 64"):
            fed(_frame(kind, rest + block))


def test_a_ping_that_says_nothing_is_garbled() -> None:
    with pytest.raises(spdy.SpdyError, match="garbled"):
        fed(_frame(spdy.PING, b"\0"))


def test_a_large_frame_is_passed_on_as_it_comes() -> None:
    codec, payload = spdy.Codec(), bytes(range(256)) * 4_096
    whole = spdy.data(1, payload, is_last=True) + spdy.data(3, b"x")
    held, events = 0, []
    for at in range(0, len(whole), 1_000):
        events += codec.feed(whole[at : at + 1_000])
        held = max(held, len(codec._received))
    assert held < 1_100
    mine = [event for event in events if event.stream == 1]
    assert b"".join(event.data for event in mine) == payload
    assert [event.is_last for event in mine] == [False] * (len(mine) - 1) + [True]
    assert events[-1] == spdy.Data(3, b"x")
