"""The registry client: logins, mirrors, failures and their remedies."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from orlop.errors import ImageError
from orlop.runtime.images import Images, registry
from orlop.runtime.images.credentials import Credential
from orlop.runtime.images.reference import parse
from orlop.runtime.images.registry import Client, endpoints, is_loopback
from orlop.settings import ImageSettings
from tests.cluster.oci import Image, Index, LayerBuilder, machine_architecture
from tests.cluster.process import wait_until

from .stand_in import StandIn

ANN = Credential("ann", "s3cret")


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    """Tries again at once."""
    monkeypatch.setattr(registry, "_pause", lambda seconds: asyncio.sleep(0))


def plainly(*registries: StandIn, **settings) -> ImageSettings:
    """Settings that let these be spoken to by plain http: they know no other."""
    return ImageSettings(insecure_registries=[each.address for each in registries], **settings)


async def pulled(stand_in: StandIn, *logins: Credential, name: str = "app", **settings):
    client = Client(parse(f"{stand_in.address}/{name}"), plainly(stand_in, **settings), logins)
    try:
        return await client.manifest("latest")
    finally:
        await client.close()


def secret(address: str, **entry: str):
    data = json.dumps({"auths": {address: entry}}).encode()
    return {"data": {".dockerconfigjson": base64.b64encode(data).decode()}}


@pytest.mark.parametrize(
    ("host", "answer"),
    [
        ("localhost", True),
        ("localhost:5000", True),
        ("127.0.0.1:5000", True),
        ("127.3.2.1", True),
        ("[::1]:5000", True),
        ("quay.io", False),
        ("10.0.0.1:5000", False),
    ],
)
def test_which_registries_are_on_this_host(host, answer):
    assert is_loopback(host) is answer


@pytest.mark.parametrize(
    ("name", "settings", "urls"),
    [
        ("quay.io", {}, ["https://quay.io"]),
        ("docker.io", {}, ["https://registry-1.docker.io"]),
        ("localhost:5000", {}, ["https://localhost:5000"]),
        ("r:1", {"insecure_registries": ["r:1"]}, ["https://r:1", "http://r:1"]),
        (
            "docker.io",
            {"mirrors": {"docker.io": ["m1", "http://m2:5000/hub/"]}},
            ["https://m1", "http://m2:5000/hub", "https://registry-1.docker.io"],
        ),
        (
            "docker.io",
            {"mirrors": {"docker.io": ["m1"]}, "insecure_registries": ["m1"]},
            ["https://m1", "http://m1", "https://registry-1.docker.io"],
        ),
    ],
)
def test_where_a_registry_is_spoken_to(name, settings, urls):
    assert [endpoint.url for endpoint in endpoints(name, ImageSettings(**settings))] == urls


async def test_a_registry_that_asks_for_no_login_gets_none():
    async with StandIn() as stand_in:
        await pulled(stand_in, ANN)
        assert stand_in.seen == {"none": 1}


async def test_basic_logins():
    async with StandIn() as stand_in:
        stand_in.login = "basic"
        await pulled(stand_in, Credential("bob", "wrong"), ANN)
        with pytest.raises(ImageError, match="imagePullSecret") as caught:
            await pulled(stand_in)
        assert caught.value.reason == "ErrImagePull"


async def test_token_logins_ask_the_realm_for_this_repository_only():
    async with StandIn() as stand_in:
        stand_in.login = "bearer"
        await pulled(stand_in, ANN)
        (asked,) = [request for request in stand_in.requests if request.startswith("token")]
        assert "scope=repository:app:pull" in asked
        assert "service=stand-in" in asked


async def test_token_logins_with_an_identity_token():
    async with StandIn() as stand_in:
        stand_in.login = "bearer"
        await pulled(stand_in, Credential("<token>", "", "identity"))


async def test_public_images_need_a_token_too_but_no_login():
    async with StandIn() as stand_in:
        stand_in.login = "bearer-always"
        await pulled(stand_in)


async def test_a_token_is_used_again_for_every_layer(tmp_path):
    async with StandIn() as stand_in:
        stand_in.login = "bearer"
        images = Images(tmp_path, plainly(stand_in), {}, tmp_path)
        login = secret(stand_in.address, username="ann", password="s3cret")
        await images.ensure(f"{stand_in.address}/app", pull_secrets=[login])
        assert len([request for request in stand_in.requests if request.startswith("token")]) == 1


async def test_a_wrong_login_is_told_with_both_remedies():
    async with StandIn() as stand_in:
        stand_in.login = "bearer"
        with pytest.raises(ImageError) as caught:
            await pulled(stand_in, Credential("ann", "wrong"))
        for word in ("refuses access", "imagePullSecret", "docker login", "apptainer"):
            assert word in caught.value.message
        assert "wrong" not in caught.value.message


@pytest.mark.parametrize("status", [500, 502, 503, 429])
async def test_what_may_pass_is_tried_again(status):
    async with StandIn() as stand_in:
        stand_in.failures = [status, status]
        await pulled(stand_in)
        assert len(stand_in.requests) == 3


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (429, ["too many requests", "images.mirrors"]),
        (500, ["told by the registry", "try later"]),
        (403, ["refuses access", "told by the registry"]),
        (404, ["has no image", "check its name and tag"]),
    ],
)
async def test_a_failure_that_stays_is_told_in_the_registrys_words(status, words):
    async with StandIn() as stand_in:
        stand_in.failures = [status] * 10
        with pytest.raises(ImageError) as caught:
            await pulled(stand_in)
        for word in words:
            assert word in caught.value.message


async def test_a_manifest_that_was_changed_on_the_way_is_refused():
    async with StandIn() as stand_in:
        stand_in.spoiled = True
        client = Client(parse(f"{stand_in.address}/app"), plainly(stand_in), [])
        from tests.cluster.oci import digest

        with pytest.raises(ImageError, match="changed it"):
            await client.manifest(digest(stand_in.image.manifest()))
        await client.close()


async def test_a_layer_that_was_changed_on_the_way_is_fetched_again(tmp_path):
    layer = LayerBuilder().file("a", "A").build()
    async with StandIn(Image((layer,), {})) as stand_in:
        client = Client(parse(f"{stand_in.address}/app"), plainly(stand_in), [])
        from orlop.runtime.images.manifest import Blob
        from tests.cluster.oci import digest

        stand_in.spoiled_once = True
        counted: list[int] = []
        blob = Blob(digest(layer.blob), len(layer.blob))
        await client.download(blob, tmp_path / "layer", counted.append)
        await client.close()
    assert (tmp_path / "layer").read_bytes() == layer.blob
    assert sum(counted) == len(layer.blob)


async def test_a_login_is_not_sent_to_where_a_layer_is_redirected(tmp_path):
    async with StandIn() as store, StandIn(store.image) as stand_in:
        stand_in.login = "basic"
        stand_in.redirect = store.address.replace("127.0.0.1", "localhost")
        settings = ImageSettings(insecure_registries=[stand_in.address, stand_in.redirect])
        images = Images(tmp_path, settings, {}, tmp_path)
        login = secret(stand_in.address, username="ann", password="s3cret")
        await images.ensure(f"{stand_in.address}/app", pull_secrets=[login])
        assert store.seen.keys() == {"none"}


async def test_mirrors_are_asked_before_the_registry_itself(tmp_path):
    async with StandIn() as mirror:
        settings = ImageSettings(mirrors={"registry.invalid": [f"http://{mirror.address}"]})
        image = await Images(tmp_path, settings, {}, tmp_path).ensure("registry.invalid/app")
        assert image.cmd == ["a"]
        assert image.reference == "registry.invalid/app"


async def test_if_a_mirror_fails_the_registry_itself_is_asked(tmp_path):
    async with StandIn() as mirror, StandIn() as origin:
        mirror.failures = [404] * 99
        mirrors = {origin.address: ["127.0.0.1:1", f"http://{mirror.address}"]}
        settings = plainly(origin, mirrors=mirrors)
        await Images(tmp_path, settings, {}, tmp_path).ensure(f"{origin.address}/app")
        assert mirror.requests
        assert origin.requests


async def test_an_index_leads_to_this_machines_image(tmp_path):
    ours = Image((LayerBuilder().file("a", "ours").build(),), {"Cmd": ["ours"]})
    theirs = Image((LayerBuilder().file("a", "theirs").build(),), {"Cmd": ["theirs"]})
    async with StandIn(Index({"sparc": theirs, machine_architecture(): ours})) as stand_in:
        image = await Images(tmp_path, plainly(stand_in), {}, tmp_path).ensure(
            f"{stand_in.address}/app"
        )
        assert image.cmd == ["ours"]
        assert image.rootfs is not None
        assert (image.rootfs / "a").read_text() == "ours"


async def test_an_index_without_this_machine_is_told(tmp_path):
    theirs = Image((LayerBuilder().file("a", "theirs").build(),), {})
    async with StandIn(Index({"sparc": theirs})) as stand_in:
        with pytest.raises(ImageError, match="only for linux/sparc"):
            await Images(tmp_path, plainly(stand_in), {}, tmp_path).ensure(
                f"{stand_in.address}/app"
            )


@pytest.mark.parametrize("image", ["127.0.0.1:1/app", "registry.invalid/app"])
async def test_a_registry_that_is_not_there_is_told_with_the_remedies(tmp_path, image):
    with pytest.raises(ImageError) as caught:
        await Images(tmp_path, ImageSettings(), {}, tmp_path).ensure(image)
    assert caught.value.reason == "ErrImagePull"
    for word in ("cannot be reached", "images.mirrors", "HTTPS_PROXY"):
        assert word in caught.value.message


@pytest.fixture(scope="module")
def tls_registry(tmp_path_factory) -> Iterator[tuple[str, Path]]:
    """A real registry that speaks https, with a certificate of its own making."""
    folder = tmp_path_factory.mktemp("tls-registry")
    names = "subjectAltName=DNS:localhost,IP:127.0.0.1"
    argv = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    argv += ["-subj", "/CN=localhost", "-addext", names, "-keyout", "key", "-out", "crt"]
    subprocess.run(argv, cwd=folder, check=True, capture_output=True)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    (folder / "config.yml").write_text(
        "version: 0.1\n"
        f"storage: {{filesystem: {{rootdirectory: {folder}/storage}}}}\n"
        f"http: {{addr: 127.0.0.1:{port}, tls: {{certificate: {folder}/crt, key: {folder}/key}}}}\n"
    )
    with (folder / "log").open("wb") as log:
        argv = ["docker-registry", "serve", str(folder / "config.yml")]
        process = subprocess.Popen(argv, stdout=log, stderr=log)
    wait_until(lambda: b"listening on" in (folder / "log").read_bytes(), "the registry listens")
    yield f"localhost:{port}", folder / "crt"
    process.terminate()
    process.wait(10)


def _known(address: str) -> ImageSettings:
    """Settings that name a registry on this host, as its own mirror."""
    return ImageSettings(mirrors={address: [address]})


async def test_a_registry_with_an_authority_that_nobody_knows_is_told(tls_registry, tmp_path):
    address, _ = tls_registry
    with pytest.raises(ImageError) as caught:
        await Images(tmp_path, _known(address), {}, tmp_path).ensure(f"{address}/app")
    for word in ("not trusted", "SSL_CERT_FILE", "images.insecure_registries"):
        assert word in caught.value.message


async def test_a_registry_whose_authority_is_named_is_trusted(tls_registry, tmp_path, monkeypatch):
    address, certificate = tls_registry
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with pytest.raises(ImageError, match="has no image"):
        await Images(tmp_path, _known(address), {}, tmp_path).ensure(f"{address}/app")


async def test_a_registry_that_is_called_insecure_may_show_any_certificate(tls_registry, tmp_path):
    address, _ = tls_registry
    settings = ImageSettings(insecure_registries=[address])
    with pytest.raises(ImageError, match="has no image"):
        await Images(tmp_path, settings, {}, tmp_path).ensure(f"{address}/app")


def test_authorities_are_found_where_another_distribution_has_them(tmp_path, monkeypatch):
    """As by a Python that was built elsewhere, and looks in places that do not exist here."""
    bundle = Path("/etc/ssl/certs/ca-certificates.crt")
    if not bundle.exists():
        pytest.skip("this machine has no ca-certificates")
    nowhere = ssl.DefaultVerifyPaths(None, None, "A", "/nowhere", "B", "/nowhere")
    monkeypatch.setattr(ssl, "get_default_verify_paths", lambda: nowhere)
    monkeypatch.setattr(
        registry.ssl, "create_default_context", lambda: ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    )
    assert registry._trusting().cert_store_stats()["x509_ca"] > 10
