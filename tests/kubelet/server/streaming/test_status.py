"""How the end of a command is told."""

from __future__ import annotations

import json

import pytest

from orlop.kubelet.server.streaming import status
from orlop.kubelet.server.streaming.client import size_in


def test_kubectl_finds_its_exit_code() -> None:
    told = json.loads(status.encode(status.of_exit(42), is_json=True))
    assert (told["status"], told["reason"]) == ("Failure", "NonZeroExitCode")
    assert told["details"]["causes"] == [{"reason": "ExitCode", "message": "42"}]


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (status.of_exit(0), b""),
        (status.of_exit(3), b"command terminated with non-zero exit code: exit status 3"),
        (status.of_error("no such thing"), b"Internal error occurred: no such thing"),
    ],
)
def test_old_protocols_get_words_and_none_for_success(told, words) -> None:
    assert status.encode(told, is_json=False) == words


def test_success_is_said_in_json() -> None:
    assert json.loads(status.encode(status.of_exit(0), is_json=True))["status"] == "Success"


@pytest.mark.parametrize(
    ("data", "size"),
    [
        (b'{"Width":80,"Height":24}', (80, 24)),
        (b'{"Width":80,"Height":24}\n{"Width":81,"Height":25}\n', (81, 25)),
        (b'{"Width":80', None),
        (b'{"Width":"x","Height":1}', None),
        (b"[]", None),
        (b"\xff", None),
    ],
)
def test_the_last_size_that_is_one_counts(data, size) -> None:
    assert size_in(data) == size
