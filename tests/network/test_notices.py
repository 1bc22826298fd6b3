"""What the control plane says of a connection is what agents understand."""

from __future__ import annotations

import hmac
import struct

import pytest

from orlop.network.notices import TCP, Said, notice, read_notice

KEY, NOW = b"k" * 32, 12.5
REAL, PEER, TO = ("10.77.0.9", 5), ("192.0.2.1", 6), ("10.244.0.7", 80)


def test_the_bytes_of_a_notice():
    made = notice(KEY, NOW, REAL, PEER, TO)
    body, signature = made[:-16], made[-16:]
    assert struct.unpack("!6sBd4sH4sH4sH", body) == (
        b"orlop\1", 6, 12.5,
        bytes([10, 77, 0, 9]), 5, bytes([192, 0, 2, 1]), 6, bytes([10, 244, 0, 7]), 80,
    )  # fmt: skip
    assert hmac.compare_digest(signature, hmac.digest(KEY, body, "sha256")[:16])


def test_a_notice_is_read_as_it_was_meant():
    said = notice(KEY, NOW, REAL, PEER, TO)
    assert read_notice(KEY, said, NOW + 1) == Said(TCP, REAL, PEER, TO)


@pytest.mark.parametrize(
    ("key", "change", "now"),
    [(b"other", lambda raw: raw, NOW), (KEY, lambda raw: raw[:-1] + bytes([raw[-1] ^ 1]), NOW),
     (KEY, lambda raw: raw + b"x", NOW), (KEY, lambda raw: raw[:20], NOW),
     (KEY, lambda raw: b"", NOW), (KEY, lambda raw: raw, NOW + 10_000)],
    ids=["another key", "changed", "longer", "shorter", "empty", "old"],
)  # fmt: skip
def test_what_nobody_of_the_cluster_has_just_said_is_not_read(key, change, now):
    assert read_notice(key, change(notice(KEY, NOW, REAL, PEER, TO)), now) is None
