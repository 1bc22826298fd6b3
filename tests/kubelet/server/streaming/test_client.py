"""What clients say of their terminal."""

from __future__ import annotations

import pytest

from orlop.kubelet.server.streaming.client import size_in


@pytest.mark.parametrize(
    ("data", "size"),
    [
        (b'{"Width":80,"Height":24}\n', (80, 24)),
        (b'{"Width":80,"Height":24}\n{"Width":132,"Height":43}\n', (132, 43)),
        (b'{"Width":80,"Height":24}\n{"Width":null}\n', (80, 24)),
        (b"[" * 100_000, None),
        (b'{"Width":1e999,"Height":1}', None),
        (b"\xff", None),
        (b"", None),
    ],
)
def test_the_last_size_that_can_be_read_counts(data: bytes, size: tuple[int, int] | None) -> None:
    assert size_in(data) == size
