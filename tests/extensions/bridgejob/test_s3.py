"""Objects in S3, by the examples of its documentation and on a server that checks signatures."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from orlop.destinations import Destinations
from orlop.errors import ConfigError, Unavailable
from orlop.extensions.bridgejob.s3 import Server
from tests.extensions.slurmjob.answers import Answer, answering

# As the documentation of Amazon S3 has them, "Examples: Signature Calculations".
EXAMPLE = Server(
    "examplebucket.s3.amazonaws.com",
    "AKIAIOSFODNN7EXAMPLE",
    "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
)
GIVEN = {"host": "examplebucket.s3.amazonaws.com", "x-amz-date": "20130524T000000Z"}
NOTHING = hashlib.sha256(b"").hexdigest()


@pytest.mark.parametrize(
    ("method", "path", "headers", "body", "signature"),
    [
        (
            "GET",
            "/test.txt",
            {"range": "bytes=0-9"},
            b"",
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
        ),
        (
            "PUT",
            "/test%24file.text",
            {
                "date": "Fri, 24 May 2013 00:00:00 GMT",
                "x-amz-storage-class": "REDUCED_REDUNDANCY",
            },
            b"Welcome to Amazon S3.",
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
        ),
    ],
    ids=["get", "put"],
)
def test_a_request_is_signed_as_the_documentation_signs_it(
    method: str, path: str, headers: dict[str, str], body: bytes, signature: str
) -> None:
    digest = hashlib.sha256(body).hexdigest()
    signed = EXAMPLE.authorization(
        method, path, {**GIVEN, **headers, "x-amz-content-sha256": digest}
    )
    assert signed.endswith(f"Signature={signature}")


def test_what_is_written_is_read_again(s3: Server, tmp_path: Path) -> None:
    s3.write("made", "a folder/ü+$~.txt", b"some text")
    assert s3.read("made", "a folder/ü+$~.txt", most=9) == b"some text"
    file = tmp_path / "file"
    file.write_bytes(b"x" * 200_000)
    s3.write("made", "file", file)
    assert s3.read("made", "file", most=1 << 20) == file.read_bytes()
    with pytest.raises(ConfigError, match="larger than 8 bytes"):
        s3.read("made", "file", most=8)


def test_what_is_not_there_is_said_in_the_servers_words(s3: Server) -> None:
    with pytest.raises(ConfigError, match="none:x cannot be read: The specified bucket"):
        s3.read("none", "x", most=1)


def test_a_file_that_cannot_be_read_is_told(s3: Server, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        s3.write("made", "x", tmp_path)


def test_who_has_another_key_is_refused(s3: Server) -> None:
    wrong = Server(s3.endpoint, s3.access_key, "wrong", is_secure=False)
    with pytest.raises(ConfigError, match="signature"):
        wrong.write("mine", "x", b"")


def test_silence_is_not_an_answer() -> None:
    with pytest.raises(Unavailable, match="does not answer"):
        Server("127.0.0.1:1", "a", "b", is_secure=False).read("a", "b", most=1)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0.0.0.0"])
def test_nobody_has_us_ask_what_only_we_can_reach(s3: Server, host: str) -> None:
    endpoint = f"{host}:{s3.endpoint.rpartition(':')[2]}"
    trick = replace(s3, endpoint=endpoint, destinations=Destinations())
    with pytest.raises(ConfigError, match=r"address not allowed: .*network\.allow_destinations"):
        trick.read("mine", "x", most=8)


@pytest.mark.parametrize(
    ("endpoint", "access", "secret"),
    [
        ("minio:90x", "a", "b"),
        ("minio:99999", "a", "b"),
        ("[::1", "a", "b"),
        ("http://", "a", "b"),
        ("127.0.0.1:1", "ak\n", "b"),
        ("127.0.0.1:1", "\u20ac", "b"),
        ("a..b", "a", "b"),
    ],
)
def test_what_cannot_be_asked_is_refused(endpoint: str, access: str, secret: str) -> None:
    with pytest.raises(ConfigError, match=r"expected (a )?host") as refused:
        Server(endpoint, access, secret, is_secure=False).read("a", "b", most=1)
    assert "Credential" not in str(refused.value)


def test_the_secret_key_is_not_shown() -> None:
    assert EXAMPLE.secret_key not in repr(EXAMPLE)


def test_no_more_is_read_than_is_wanted() -> None:
    """Of what has no end in sight; the server waits until nobody listens any more."""

    def endless(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Length", str(1 << 40))
        request.end_headers()
        request.connection.settimeout(60)
        with suppress(OSError):
            request.wfile.write(b"x" * (1 << 20))
            request.rfile.read(1)

    with (
        answering(endless) as endpoint,
        pytest.raises(ConfigError, match="larger than 8 bytes"),
    ):
        Server(endpoint, "a", "b", is_secure=False).read("a", "b", most=8)


def test_an_object_that_breaks_off_is_no_object() -> None:
    def short(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Length", "100")
        request.end_headers()
        request.wfile.write(b"#!/bin/sh")

    with answering(short) as endpoint, pytest.raises(Unavailable, match="does not answer"):
        Server(endpoint, "a", "b", is_secure=False).read("a", "b", most=1000)


@pytest.mark.parametrize("place", ["header", "words"])
def test_a_server_may_say_which_region_it_is_in(place: str) -> None:
    def particular(request: BaseHTTPRequestHandler) -> Answer | None:
        if "/eu-central-1/s3/" in request.headers["authorization"]:
            return 200, b"found"
        if place == "words":
            words = b"<Code>AuthorizationHeaderMalformed</Code><Region>eu-central-1</Region>"
            return 400, b"<Error>" + words + b"</Error>"
        request.send_response(301)
        request.send_header("x-amz-bucket-region", "eu-central-1")
        request.send_header("Content-Length", "0")
        request.end_headers()
        return None

    with answering(particular) as endpoint:
        server = Server(endpoint, "a", "b", is_secure=False)
        assert server.read("a", "b", most=100) == b"found"
