"""Registries that send too much, too slowly, or us to places where we have no business."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
from pathlib import Path

import pytest

from orlop.errors import ImageError
from orlop.runtime.images import Images, answers, registry
from orlop.runtime.images.credentials import Credential
from orlop.runtime.images.reference import parse
from orlop.runtime.images.registry import Client
from orlop.settings import ImageSettings
from tests.cluster.oci import Image, LayerBuilder, digest

from .hostile import Hostile, endless, once
from .stand_in import StandIn

ANN = Credential("ann", "s3cret")
LATEST = "/manifests/latest"
LIKELY_BUFFERED = 6 << 20  # bytes in sockets and buffers when we stopped reading


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    """Tries again at once, and waits only shortly."""
    real = registry.asyncio.sleep
    monkeypatch.setattr(registry, "_pause", lambda seconds: real(0))
    monkeypatch.setattr(answers, "ANSWER_TIME", 0.5)
    monkeypatch.setattr(answers, "WINDOW", 0.2)


async def refusal(hostile: Hostile, *logins: Credential, others: tuple[str, ...] = ()) -> str:
    settings = ImageSettings(insecure_registries=[hostile.address, *others])
    client = Client(parse(f"{hostile.address}/app"), settings, logins)
    try:
        with pytest.raises(ImageError) as caught:
            await client.manifest("latest")
    finally:
        await client.close()
    assert caught.value.reason == "ErrImagePull"
    assert caught.value.message.isprintable()
    return caught.value.message


async def test_a_manifest_without_an_end_is_given_up_at_once():
    async with Hostile() as hostile:
        hostile.answer(LATEST, endless(b" " * 65536))
        assert "more than the 4096 KiB" in await refusal(hostile)
        assert hostile.sent < answers.DOCUMENT + LIKELY_BUFFERED
        assert len(hostile.requests) == 1


async def test_a_manifest_that_says_it_is_large_is_not_read():
    async with Hostile() as hostile:
        hostile.answer(LATEST, endless(b" " * 65536), Content_Length=str(1 << 40))
        assert "more than the 4096 KiB" in await refusal(hostile)
        assert hostile.sent < LIKELY_BUFFERED


async def test_a_manifest_that_unpacks_to_much_is_not_unpacked():
    bomb = gzip.compress(b" " * (64 << 20))
    async with Hostile() as hostile:
        hostile.answer(LATEST, once(bomb), Content_Encoding="gzip", Content_Length=str(len(bomb)))
        client = Client(
            parse(f"{hostile.address}/app"),
            ImageSettings(insecure_registries=[hostile.address]),
            [],
        )
        _, data = await client.manifest("latest")
        await client.close()
    assert data == bomb
    assert "identity" in hostile.requests[0]


@pytest.mark.parametrize("pause", [0.01, 0.6], ids=["drip", "silence"])
async def test_a_manifest_that_drips_is_given_up(pause):
    async with Hostile() as hostile:
        hostile.answer(LATEST, endless(b" ", pause))
        async with asyncio.timeout(10):
            assert "cannot be reached" in await refusal(hostile)


@pytest.mark.parametrize(
    ("part", "pause"), [(b"x", 0.01), (b"X-Word: words\r\n" * 1000, 0)], ids=["drips", "floods"]
)
async def test_a_head_without_an_end_is_given_up(part, pause):
    async with Hostile() as hostile, asyncio.timeout(20):
        hostile.answer(LATEST, endless(part, pause), status="")
        await refusal(hostile)
        assert hostile.sent < 3 * LIKELY_BUFFERED


async def test_an_error_without_an_end_is_told_by_its_number():
    async with Hostile() as hostile:
        hostile.answer(LATEST, endless(b"x" * 65536), status="403 No\x1b[2J")
        said = await refusal(hostile)
        assert "403 No" in said
        assert hostile.sent < LIKELY_BUFFERED


async def test_the_words_of_an_error_are_cut_and_give_no_orders():
    words = json.dumps({"errors": [{"message": "\x1b[2J\r\n" + "x" * 10_000}]}).encode()
    async with Hostile() as hostile:
        hostile.answer(LATEST, once(words), status="403 Forbidden")
        assert len(await refusal(hostile)) < 1000


async def test_a_token_without_an_end_is_given_up():
    async with Hostile() as hostile:
        realm = f'Bearer realm="http://{hostile.address}/token"'
        hostile.answer(LATEST, once(b"{}"), "401 No", WWW_Authenticate=realm)
        hostile.answer("/token", endless(b" " * 65536))
        assert "a token of more than" in await refusal(hostile, ANN)
        assert hostile.sent < answers.TOKEN + LIKELY_BUFFERED


@pytest.mark.parametrize("token", ["a\r\nHost: x", "\u00e4", {"a": 1}, ["x"]], ids=str)
async def test_a_token_is_no_head_of_its_own(token):
    async with Hostile() as hostile:
        realm = f'Bearer realm="http://{hostile.address}/token"'
        hostile.answer(LATEST, once(b"{}"), "401 No", WWW_Authenticate=realm)
        hostile.answer("/token", once(json.dumps({"token": token}).encode()))
        assert "refuses access" in await refusal(hostile, ANN)
        assert not any("\r\nHost: x" in request for request in hostile.requests)


async def test_a_layer_longer_than_it_was_said_to_be_is_given_up(tmp_path: Path):
    image = Image((LayerBuilder().file("a", "A").build(),), {})
    async with Hostile() as hostile:
        hostile.answer(LATEST, once(image.manifest()))
        hostile.answer(digest(image.blobs()[0]), endless(b"x" * 65536))
        for blob in image.blobs():
            hostile.answers.setdefault(digest(blob), ("200 OK", {}, endless(b"x" * 65536)))
        config = next(blob for blob in image.blobs() if blob.startswith(b"{"))
        hostile.answer(digest(config), once(config))
        settings = ImageSettings(insecure_registries=[hostile.address])
        with pytest.raises(ImageError, match="sends a layer of more than the"):
            await Images(tmp_path, settings, {}, tmp_path).ensure(f"{hostile.address}/app")
        assert hostile.sent < 3 * LIKELY_BUFFERED


async def test_a_layer_that_drips_is_given_up(tmp_path: Path):
    blob = registry.Blob("sha256:" + "0" * 64, 1 << 30)
    async with Hostile() as hostile:
        hostile.answer(blob.digest, endless(b"x", 0.01))
        settings = ImageSettings(insecure_registries=[hostile.address])
        client = Client(parse(f"{hostile.address}/app"), settings, [])
        async with asyncio.timeout(20):
            with pytest.raises(ImageError, match="bytes of a layer in"):
                await client.download(blob, tmp_path / "layer", lambda _: None)
        await client.close()


async def test_a_registry_that_sends_us_round_and_round_is_left():
    async with Hostile() as hostile:
        hostile.answer(LATEST, once(), "302 Found", Location=f"/v2/x{LATEST}")
        assert "redirects more than 10 times" in await refusal(hostile)
        assert len(hostile.requests) == 10


@pytest.mark.parametrize(
    ("location", "words"),
    [
        ("http://127.0.0.2:1/x", "plain http at 127.0.0.2:1, which images.insecure_registries"),
        ("file:///etc/passwd", "what is no address"),
        ("gopher://x/", "what is no address"),
        ("http://[::1", "what is no address"),
        ("", "what is no address"),
    ],
)
async def test_where_a_registry_may_not_send_us(location, words):
    async with Hostile() as hostile:
        hostile.answer(LATEST, once(), "307 Elsewhere", Location=location)
        assert words in await refusal(hostile)


async def test_a_login_is_not_told_to_a_realm_by_plain_http(tmp_path: Path):
    async with Hostile() as thief, Hostile() as hostile:
        realm = f'Bearer realm="http://{thief.address}/token"'
        hostile.answer(LATEST, once(b"{}"), "401 No", WWW_Authenticate=realm)
        thief.answer("/token", once(b'{"token": "x"}'))
        assert "plain http at" in await refusal(hostile, ANN)
        assert thief.requests == []


async def test_a_login_is_not_told_to_a_mirror_by_plain_http(tmp_path: Path):
    async with StandIn() as mirror:
        mirror.login = "basic"
        settings = ImageSettings(mirrors={"registry.invalid": [f"http://{mirror.address}"]})
        client = Client(parse("registry.invalid/app"), settings, [ANN])
        with pytest.raises(ImageError):
            await client.manifest("latest")
        await client.close()
        assert set(mirror.seen) == {"none"}


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_whoever_listens_on_loopback_is_no_registry_by_being_there(tmp_path, host):
    """It is shared with all users of the host: one of them may have been quicker."""
    async with StandIn() as stranger:
        address = f"{host}:{stranger.address.rpartition(':')[2]}"
        with pytest.raises(ImageError) as caught:
            await Images(tmp_path, ImageSettings(), {}, tmp_path).ensure(f"{address}/app")
        assert stranger.requests == []
        assert "in the loopback range" in caught.value.message
        assert "images.insecure_registries of config.yaml" in caught.value.message
        settings = ImageSettings(insecure_registries=[address])
        assert await Images(tmp_path, settings, {}, tmp_path).ensure(f"{address}/app")


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "0.0.0.0", "127.1", "2130706433", "[::1]"]
)
async def test_what_anybody_names_is_not_dialled_on_this_host(host: str) -> None:
    """Whoever names images would learn from the refusals which ports are open here."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.setblocking(False)
        port = listener.getsockname()[1]
        client = Client(parse(f"{host}:{port}/app"), ImageSettings(), [])
        with pytest.raises(ImageError, match=r"images\.mirrors"):
            await client.manifest("latest")
        await client.close()
        with pytest.raises(BlockingIOError):
            listener.accept()


async def test_a_redirect_leads_nobody_to_this_host() -> None:
    async with Hostile() as hostile, Hostile() as inner:
        target = f"https://{inner.address}/v2/app/manifests/latest"
        hostile.answer(LATEST, once(b""), status=307, Location=target)
        assert "images.mirrors or" in await refusal(hostile)
        assert inner.requests == []


async def test_a_mirror_may_be_on_this_host() -> None:
    async with StandIn() as mirror:
        settings = ImageSettings(mirrors={"example.org": [f"http://{mirror.address}"]})
        client = Client(parse("example.org/app"), settings, [])
        assert (await client.manifest("latest"))[1]
        await client.close()
