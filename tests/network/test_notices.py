"""What the control plane says of a connection is what agents understand."""

from __future__ import annotations

import hmac
import struct

import pytest

from orlop.agent.netd.identity import notices as agents
from orlop.network.notices import LENGTH, UDP, Kind, Said, read, write

KEY, NOW = b"k" * 32, 12.5
SAID = Said(("10.77.0.9", 5), ("192.0.2.1", 6), ("10.244.0.7", 80), 4080, 77, when=NOW)


def test_the_bytes_of_a_notice():
    made = write(KEY, SAID, 4711)
    body, signature = made[:-16], made[-16:]
    assert struct.unpack("!6sBBd4sH4sH4sHHQQ", body) == (
        b"orlop\2", 1, 6, 12.5,
        bytes([10, 77, 0, 9]), 5, bytes([192, 0, 2, 1]), 6, bytes([10, 244, 0, 7]), 80,
        4080, 77, 0,
    )  # fmt: skip
    assert hmac.compare_digest(signature, hmac.digest(KEY, body + b"\x12\x67", "sha256")[:16])


def test_agents_have_the_same_bytes():
    assert (write(KEY, SAID, 4711)[:6], LENGTH) == (agents.MAGIC, agents.LENGTH)
    kinds = [agents.NOTICE, agents.ACK, agents.ASK, agents.CONFIRM, agents.DENY]
    assert kinds == list(Kind)


@pytest.mark.parametrize(
    "said", [SAID, SAID._replace(kind=Kind.ASK, protocol=UDP), SAID._replace(more=78)]
)
def test_a_notice_is_read_as_it_was_meant(said):
    assert read(KEY, write(KEY, said, 4711), NOW + 1, 4711) == said


@pytest.mark.parametrize(
    ("key", "change", "now"),
    [(b"other", lambda raw: raw, NOW), (KEY, lambda raw: raw[:-1] + bytes([raw[-1] ^ 1]), NOW),
     (KEY, lambda raw: raw + b"x", NOW), (KEY, lambda raw: raw[:20], NOW),
     (KEY, lambda raw: b"", NOW), (KEY, lambda raw: raw, NOW + 10_000)],
    ids=["another key", "changed", "longer", "shorter", "empty", "old"],
)  # fmt: skip
def test_what_nobody_of_the_cluster_has_just_said_is_not_read(key, change, now):
    assert read(key, change(write(KEY, SAID, 4711)), now, 4711) is None


@pytest.mark.parametrize("when", [float("nan"), float("inf"), -1e300])
def test_a_time_that_is_none_is_not_read(when):
    assert read(KEY, write(KEY, SAID._replace(when=when), 4711), NOW, 4711) is None


def test_what_was_said_to_another_port_is_not_read():
    """Who has the port of an agent that is gone cannot repeat elsewhere what comes there."""
    assert read(KEY, write(KEY, SAID, 4711), NOW, 4712) is None


def test_an_answer_is_about_one_notice():
    answer = SAID._replace(kind=Kind.ACK, more=1)
    assert answer.is_about(SAID)
    assert not answer.is_about(SAID._replace(cookie=78))
    assert not answer.is_about(SAID._replace(when=NOW + 1))
