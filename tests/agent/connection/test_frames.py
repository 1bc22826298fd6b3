"""Frames, however the bytes arrive."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orlop.agent.connection.frames import Broken, Frames, frame
from orlop.wellknown import MAX_FRAME

FRAMES = st.lists(st.tuples(st.integers(0, 2**32 - 1), st.binary(max_size=50)), max_size=8)


@given(frames=FRAMES, step=st.integers(1, 40))
def test_frames_survive_any_cutting(frames, step):
    data = b"".join(frame(stream, payload) for stream, payload in frames)
    cutter, found = Frames(), []
    for at in range(0, len(data), step):
        cutter.feed(data[at : at + step])
        found += cutter.take()
    assert found == frames


def test_what_came_with_the_upgrade_is_part_of_it():
    data = frame(3, b"abc")
    cutter = Frames(data[:5])
    assert cutter.take() == []
    cutter.feed(data[5:])
    assert cutter.take() == [(3, b"abc")]


def test_a_frame_that_is_too_large_breaks_the_line():
    cutter = Frames(frame(1, b"")[:4].replace(b"\0\0\0\0", (MAX_FRAME + 1).to_bytes(4, "big")))
    cutter.feed(b"\0\0\0\1")
    with pytest.raises(Broken, match="expected at most"):
        cutter.take()
