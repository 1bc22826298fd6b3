"""Words of strangers in the audit log: each record stays one line, and no terminal obeys it."""

from __future__ import annotations

import json
import socket
import time
from typing import Any

import pytest

from tests.apiserver.attacks.target import Target

MAPS = "/api/v1/namespaces/audited/configmaps"
TRICKS = [
    "a%0a{%22kind%22:%22Event%22}",
    "%1b%5b2J%1b%5d0;x%07",
    "%c2%9b2J",
    "%e2%80%a8",
    "%7f",
    "%00",
]


def _records(target: Target, word: str) -> list[dict[str, Any]]:
    """Those in which the word is; every line of the log has been looked at."""
    path = target.folder / "audit.log"
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        lines = path.read_bytes().split(b"\n")
        assert lines.pop() == b"" or time.monotonic() < deadline, "no line is cut off"
        if any(word.encode() in line for line in lines):
            break
        time.sleep(0.05)
    for line in lines:
        assert line.decode().isprintable() or not any(c < " " or "\x7f" <= c < "\xa0"
                                                      for c in line.decode())  # fmt: skip
    records = [json.loads(line) for line in lines]
    assert all(one["kind"] == "Event" and "auditID" in one for one in records)
    return [one for one in records if word in json.dumps(one)]


@pytest.mark.parametrize("trick", TRICKS)
def test_a_path_is_one_line(target: Target, trick: str) -> None:
    word = f"path-{TRICKS.index(trick)}"
    reply = target.ask("GET", f"{MAPS}/{word}{trick}?fieldManager={trick}")
    assert 400 <= reply.code < 500  # a path that is no text is refused before anything is recorded
    reply = target.ask("GET", f"{MAPS}/{word}?fieldManager={trick}")
    assert 400 <= reply.code < 500
    assert _records(target, word)


@pytest.mark.parametrize(
    "agent",
    [b"agent-1\xff\xfe", b"agent-2\xc2\x9b2J", b'agent-3"}{"kind":"Event"}', "agent-4é".encode(),
     b"agent-5\xed\xa0\x80"],
)  # fmt: skip
def test_so_is_the_name_of_a_program(target: Target, agent: bytes) -> None:
    """Also where it is no text; it is the manager of the fields it writes, too."""
    body = b'{"metadata":{"name":"a"}}'
    head = f"POST {MAPS}?dryRun=All HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    head += f"Authorization: {target.bearer('small')['Authorization']}\r\n"
    with (
        socket.create_connection(("127.0.0.1", target.port), timeout=20) as plain,
        target.tls().wrap_socket(plain, server_hostname="127.0.0.1") as connection,
    ):
        connection.sendall(head.encode() + b"User-Agent: " + agent + b"\r\n\r\n" + body)
        answer = connection.recv(100)
    assert answer.startswith((b"HTTP/1.1 201", b"HTTP/1.1 400")), answer
    if b"201" in answer:
        assert _records(target, agent[:7].decode())


@pytest.mark.parametrize(
    "body",
    [b'{"items":[1,"a",null,{"metadata":[]}],"metadata":"body-1"}', b'["body-2"]',
     b'{"items":{"a":1},"metadata":{"name":["body-3"]}}', b'"body-4"',
     b'{"metadata":{"name":"body-5\\n{}","labels":{"\\u001b[2J":"\\u009b"}}}'],
)  # fmt: skip
def test_so_is_a_body_that_is_nothing_of_the_kind(target: Target, body: bytes) -> None:
    reply = target.ask("POST", MAPS, body)
    assert 400 <= reply.code < 500, reply.body[:300]
    word = body[body.index(b"body-") :][:6].decode()
    records = _records(target, word)
    assert any("requestObject" in one for one in records)


def test_a_body_that_is_refused_is_not_read_for_the_record_either(target: Target) -> None:
    path = f"{MAPS}?fieldManager=record-6"
    with target.unharmed():
        reply = target.ask("POST", path, b"[" * 100_000, "application/yaml")
    assert reply.code == 400
    assert _records(target, "record-6")


def test_nobody_is_impersonated_in_unprintable_words(target: Target) -> None:
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    for name in ("a\u009bb", "a\u00a0b", "\u202eroot"):
        reply = target.ask(
            "POST", path, {}, who="admin", Impersonate_User=name.encode().decode("latin-1")
        )
        assert reply.code == 400, reply.body[:300]
        assert "printable" in reply.message
