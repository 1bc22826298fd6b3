"""What the control plane says of a connection is what agents understand."""

from __future__ import annotations

import hmac
import struct

from orlop.network.notices import notice

KEY = b"k" * 32


def test_the_bytes_of_a_notice():
    made = notice(KEY, 12.5, ("10.77.0.9", 5), ("192.0.2.1", 6), ("10.244.0.7", 80))
    body, signature = made[:-16], made[-16:]
    assert struct.unpack("!6sBd4sH4sH4sH", body) == (
        b"orlop\1", 6, 12.5,
        bytes([10, 77, 0, 9]), 5, bytes([192, 0, 2, 1]), 6, bytes([10, 244, 0, 7]), 80,
    )  # fmt: skip
    assert hmac.compare_digest(signature, hmac.digest(KEY, body, "sha256")[:16])
