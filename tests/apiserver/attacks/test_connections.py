"""Connections that flood, dawdle, or say more than they should, of accounts that may do nothing."""

from __future__ import annotations

import os
import socket
import ssl
import struct
import time
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import pytest

from tests.apiserver.attacks.target import Target

MIB = 1 << 20
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def _head(target: Target, line: str, who: str = "pod", **headers: str) -> bytes:
    named = {"Host": "x", **target.bearer(who), **headers}
    lines = [line, *(f"{name.replace('_', '-')}: {text}" for name, text in named.items())]
    return ("\r\n".join(lines) + "\r\n").encode()


@contextmanager
def _dialled(target: Target) -> Iterator[ssl.SSLSocket]:
    with (
        socket.create_connection(("127.0.0.1", target.port), timeout=30) as plain,
        target.tls().wrap_socket(plain, server_hostname="127.0.0.1") as connection,
    ):
        yield connection


def _poured(connection: ssl.SSLSocket, chunk: bytes, total: int) -> int:
    """How much of it the server took before it hung up, or no more for a while."""
    sent = 0
    connection.settimeout(3)
    try:
        while sent < total:
            connection.sendall(chunk)
            sent += len(chunk)
    except OSError:
        pass
    return sent


def _flood(name: str, target: Target) -> tuple[bytes, bytes]:
    """What comes first, and what comes again and again after it."""
    get = _head(target, "GET /api/v1/namespaces/default HTTP/1.1")
    post = _head(
        target,
        f"POST {REVIEWS} HTTP/1.1",
        Content_Type="application/json",
        Transfer_Encoding="chunked",
    )
    lines = b"".join(b"X-%d: y\r\n" % number for number in range(1000))
    return {
        "headers": (get, lines),
        "one long header": (get + b"X: ", b"y" * 65536),
        "a long line": (b"GET /", b"a" * 65536),
        "tiny chunks": (post + b"\r\n", b"1\r\n \r\n" * 10_000),
        "words about a chunk": (post + b"\r\n1;", b"a" * 65536),
        "digits of a size": (post + b"\r\n", b"0" * 65536),
        "large chunks": (post + b"\r\n", b"10000\r\n" + b" " * 65536 + b"\r\n"),
        "trailers": (post + b"\r\n2\r\n{}\r\n0\r\n", lines),
        "requests, and no answer is read": (b"", (get + b"\r\n") * 50),
    }[name]


@pytest.mark.parametrize(
    "name",
    ["headers", "one long header", "a long line", "tiny chunks", "words about a chunk",
     "digits of a size", "large chunks", "trailers", "requests, and no answer is read"],
)  # fmt: skip
def test_a_flood_is_held_back_or_cut_off(target: Target, name: str) -> None:
    first, then = _flood(name, target)
    with target.unharmed(growth=64), _dialled(target) as connection:
        connection.sendall(first)
        _poured(connection, then, 24 * MIB)


def test_bodies_that_never_come_take_no_turn_of_anybodys_writes(target: Target) -> None:
    """There are 400 seats for writes, and two accounts may have all of them."""
    head = {who: _head(target, f"POST {REVIEWS} HTTP/1.1", who, Content_Type="application/json",
                       Content_Length="100") + b"\r\n{" for who in ("pod", "small")}  # fmt: skip
    with ExitStack() as stack, target.unharmed():
        for number in range(440):
            connection = stack.enter_context(_dialled(target))
            connection.sendall(head["pod" if number % 2 else "small"])
        for number in range(5):
            body = {"metadata": {"name": f"while-others-dawdle-{number}"}}
            path = "/api/v1/namespaces/default/configmaps?dryRun=All"
            begun = time.monotonic()
            reply = target.ask("POST", path, body, who="admin")
            assert (reply.code, time.monotonic() - begun < 15) == (201, True)


def _masked(payload: bytes, first: int, *, is_masked: bool = True) -> bytes:
    length = len(payload)
    mask = os.urandom(4)
    flag = 128 if is_masked else 0
    if length < 126:
        head = struct.pack(">BB", first, flag | length)
    elif length < 65536:
        head = struct.pack(">BBH", first, flag | 126, length)
    else:
        head = struct.pack(">BBQ", first, flag | 127, length)
    if not is_masked:
        return head + payload
    key = mask * (length // 4 + 1)
    return head + mask + bytes(a ^ b for a, b in zip(payload, key, strict=False))


def _bomb() -> bytes:
    """A message of 256 MiB, as permessage-deflate has it."""
    squeeze = zlib.compressobj(9, zlib.DEFLATED, -15)
    parts = [squeeze.compress(b"\0" * MIB) for _ in range(256)]
    return b"".join(parts) + squeeze.flush(zlib.Z_SYNC_FLUSH)[:-4]


FRAMES = {
    "compressed zeros": lambda: _masked(_bomb(), 0xC2),
    "a huge length": lambda: struct.pack(">BBQ", 0x82, 0xFF, 1 << 62) + b"\0" * 65536,
    "fragments without end": lambda: _masked(b"x" * 100, 0x02) + _masked(b"x" * 100, 0x00) * 20_000,
    "empty fragments": lambda: _masked(b"", 0x02) + _masked(b"", 0x00) * 200_000,
    "large messages": lambda: _masked(b"x" * (8 * MIB), 0x82),
    "pings": lambda: _masked(b"x" * 125, 0x89) * 50_000,
    "no mask": lambda: _masked(b"x" * 100, 0x82, is_masked=False) * 10_000,
    "unknown kinds": lambda: _masked(b"", 0x8B) * 10_000,
}


@pytest.mark.parametrize("name", FRAMES)
def test_a_websocket_that_watches_is_not_listened_to_for_long(target: Target, name: str) -> None:
    head = _head(
        target,
        "GET /api/v1/namespaces/small/configmaps?watch=1 HTTP/1.1",
        "small",
        Upgrade="websocket",
        Connection="Upgrade",
        Sec_WebSocket_Key="AAAAAAAAAAAAAAAAAAAAAA==",
        Sec_WebSocket_Version="13",
        Sec_WebSocket_Extensions="permessage-deflate",
    )
    frames = FRAMES[name]()
    with target.unharmed(growth=64), _dialled(target) as connection:
        connection.sendall(head + b"\r\n")
        answer = connection.recv(4096)
        assert b" 101 " in answer
        assert b"permessage-deflate" not in answer, "what a client says is never compressed"
        _poured(connection, frames, len(frames))


@pytest.mark.parametrize("query", ["?watch=1", ""], ids=["watches", "lists"])
def test_many_who_do_not_read_are_no_burden(target: Target, query: str) -> None:
    maps = "/api/v1/namespaces/small/configmaps"
    head = _head(target, f"GET {maps}{query} HTTP/1.1", "small")
    large = [{"metadata": {"name": f"large-{n}"}, "data": {"a": "x" * 900_000}} for n in range(5)]
    assert [target.ask("POST", maps, body).code for body in large] == [201] * 5
    with ExitStack() as stack, target.unharmed(growth=200):
        for _ in range(300):
            stack.enter_context(_dialled(target)).sendall(head + b"\r\n")
        for number in range(5):
            body = {"metadata": {"name": f"seen-by-many-{number}"}, "data": {"a": "x" * 100_000}}
            assert target.ask("POST", maps, body).code == 201
            assert target.ask("DELETE", f"{maps}/seen-by-many-{number}").code == 200
    codes = [target.ask("DELETE", f"{maps}/{body['metadata']['name']}").code for body in large]
    assert codes == [200] * 5


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("limit=99999999999999999999", 200),
        ("limit=" + "9" * 6_000, 400),
        ("limit=-1", 400),
        ("continue=" + "A" * 7_000, 400),
        ("continue=" + "W1tb" * 1_500, 400),
        ("labelSelector=" + "a," * 3_500, 400),
        ("labelSelector=" + ",".join(f"a{n}%20in%20(b)" for n in range(400)), 200),
        ("labelSelector=a%20in%20(" + "b," * 3_000 + "b)", 200),
        ("fieldSelector=" + ",".join(f"metadata.name!=a{n}" for n in range(350)), 200),
        ("fieldSelector=" + "%5C" * 2_000, 400),
        ("resourceVersion=" + "9" * 5_000, 400),
        ("watch=1&timeoutSeconds=" + "9" * 5_000, 400),
        ("timeout=" + "9" * 5_000 + "h", 200),
    ],
    ids=lambda value: str(value)[:24],
)
def test_a_question_of_any_length_has_an_answer(target: Target, query: str, code: int) -> None:
    with target.unharmed():
        reply = target.ask("GET", f"/api/v1/namespaces/small/configmaps?{query}")
    assert reply.code in (code, 400), reply.body[:300]


def test_a_long_list_in_yaml_is_written_between_others_questions(target: Target) -> None:
    """It takes a hundred times as long as JSON."""
    maps = "/api/v1/namespaces/small/configmaps"
    data = {f"k{n}": "x" for n in range(2_000)}

    def create(number: int) -> None:
        body = {"metadata": {"name": f"listed-{number}", "labels": {"of": "yaml"}}, "data": data}
        assert target.ask("POST", maps, body).code == 201

    with ThreadPoolExecutor(4) as crowd:
        list(crowd.map(create, range(40)))
    with target.unharmed(growth=200):
        path = f"{maps}?labelSelector=of%3Dyaml"
        reply = target.ask("GET", path, Accept="application/yaml")
        one = target.ask("GET", f"{maps}/listed-1", Accept="application/yaml")
    target.ask("DELETE", path)
    assert (reply.code, one.code) == (200, 200)
    assert reply.body.startswith(b"kind: ConfigMapList\napiVersion: v1\nmetadata:\n")
    assert reply.body.count(b"\n- apiVersion: v1\n") + reply.body.count(b"\n- kind: Conf") == 40
