"""Manifests and indexes, OCI's and docker's."""

from __future__ import annotations

import json

import pytest

from orlop.errors import ImageError
from orlop.runtime.images import manifest
from orlop.runtime.images.manifest import Blob, Manifest


def named(word: str) -> str:
    """A digest that can be told from others."""
    return f"sha256:{word.encode().hex():0>64}"


def entry(digest: str, architecture: str, os: str = "linux", variant: str = ""):
    platform = {"architecture": architecture, "os": os, **({"variant": variant} if variant else {})}
    return {"digest": named(digest), "size": 1, "platform": platform}


def test_a_manifest_names_its_configuration_and_layers():
    document = {
        "config": {"digest": named("c"), "size": 10},
        "layers": [{"digest": named("l"), "size": 20, "mediaType": "x+gzip"}],
    }
    found = manifest.parse(json.dumps(document).encode(), "sha256:m", "app")
    expected = Manifest("sha256:m", Blob(named("c"), 10), (Blob(named("l"), 20, "x+gzip"),))
    assert found == expected
    assert isinstance(found, Manifest)
    assert found.size == 20


@pytest.mark.parametrize("media_type", [*manifest.INDEX_TYPES, ""])
def test_an_index_is_known_by_its_type_or_shape(media_type):
    document = {"mediaType": media_type, "manifests": [entry("sha256:a", "amd64")]}
    assert manifest.parse(json.dumps(document).encode(), "d", "app") == document["manifests"]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"<html>", "expected JSON"),
        (b"[]", "JSON object"),
        (b'{"schemaVersion": 1}', "found schema 1"),
        (b'{"mediaType": "application/vnd.cncf.helm"}', "helm"),
    ],
)
def test_what_is_no_image_is_told(data, words):
    with pytest.raises(ImageError, match=words) as caught:
        manifest.parse(data, "d", "app")
    assert caught.value.reason == "ErrImagePull"


@pytest.mark.parametrize(
    ("machine", "digest"),
    [("x86_64", "amd"), ("aarch64", "arm-v8"), ("ppc64le", "power")],
)
def test_the_image_for_this_machine_is_chosen(machine, digest):
    entries = [
        entry("windows", "amd64", "windows"),
        entry("attestation", "unknown", "unknown"),
        entry("arm-v9", "arm64", variant="v9"),
        entry("arm-v8", "arm64", variant="v8"),
        entry("amd", "amd64"),
        entry("power", "ppc64le"),
    ]
    assert manifest.choose(entries, "app", machine).digest == named(digest)


def test_an_index_without_this_machine_says_what_there_is():
    entries = [entry("a", "arm64"), entry("b", "s390x"), entry("c", "unknown", "unknown")]
    with pytest.raises(ImageError) as caught:
        manifest.choose(entries, "app", "x86_64")
    message = "app has no image for linux/amd64, only for linux/arm64, linux/s390x"
    assert caught.value.message == message


def test_bytes_that_are_not_those_of_the_digest_are_refused():
    digest = manifest.digest_of(b"x")
    manifest.check(b"x", digest, "app")
    with pytest.raises(ImageError, match="changed it"):
        manifest.check(b"y", digest, "app")
    sha512 = manifest.digest_of(b"x", "sha512")
    manifest.check(b"x", sha512, "app")


@pytest.mark.parametrize("data", [b"{}", b'{"config": null}', b'{"config": []}'])
def test_an_image_without_configuration_wants_nothing(data):
    assert manifest.config_of(data, "app") == {}


@pytest.mark.parametrize(
    "digest",
    [
        None,
        7,
        "",
        "sha256:short",
        "sha256:/../../../../etc/x",
        "md5:" + "0" * 32,
        "sha256:" + "A" * 64,
        "sha256:" + "a" * 64 + "\n",
        "/etc/passwd:",
    ],
)
@pytest.mark.parametrize("place", ["config", "layers", "manifests"])
def test_what_is_no_digest_is_neither_asked_for_nor_written(digest, place):
    good = {"digest": named("c"), "size": 1}
    bad = {**entry("x", "amd64"), "digest": digest}
    document: dict[str, object] = {"config": good, "layers": [good]}
    document[place] = bad if place == "config" else [bad]

    def read() -> None:
        found = manifest.parse(json.dumps(document).encode(), "d", "app")
        manifest.choose(found if isinstance(found, list) else [], "app", "x86_64")

    with pytest.raises(ImageError, match="is no digest"):
        read()


@pytest.mark.parametrize("size", [-1, "12", 1.5, [1], True])
def test_what_is_no_size_is_refused(size):
    document = {"config": {"digest": named("c"), "size": size}, "layers": []}
    with pytest.raises(ImageError, match="has no size"):
        manifest.parse(json.dumps(document).encode(), "d", "app")


def test_an_image_of_too_many_layers_is_refused():
    layers = [{"digest": named("l"), "size": 1}] * 1001
    document = {"config": {"digest": named("c"), "size": 1}, "layers": layers}
    with pytest.raises(ImageError, match="1000 are the most"):
        manifest.parse(json.dumps(document).encode(), "d", "app")


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 1_000_000,
        b'{"config":' * 200_000,
        b'{"config": {"digest": ' + b"9" * 100_000 + b"}}",
        b'{"layers": {"a": 1}, "config": {}}',
        b'{"manifests": "x"}',
        b"\xff\xfe",
    ],
    ids=["deep list", "deep object", "long number", "no list", "no entries", "no text"],
)
def test_hostile_json_is_an_image_error(data):
    with pytest.raises(ImageError):
        manifest.parse(data, "d", "app")


@pytest.mark.parametrize(
    "data", [b"[" * 1_000_000, b'{"config":' * 200_000], ids=["list", "object"]
)
def test_a_hostile_configuration_is_an_image_error(data):
    with pytest.raises(ImageError, match="nested too deeply"):
        manifest.config_of(b'{"config": ' + data, "app")


@pytest.mark.parametrize(
    "config",
    [
        {"Env": ["A=1", 2]},
        {"Env": {"A": "1"}},
        {"Cmd": "sh"},
        {"Entrypoint": [["sh"]]},
        {"User": 0.5},
        {"WorkingDir": ["/"]},
        {"StopSignal": "TERM\0"},
        {"Cmd": ["\ud800"]},
    ],
    ids=str,
)
def test_a_configuration_of_other_types_is_refused(config):
    with pytest.raises(ImageError, match="is not what an image may have there"):
        manifest.config_of(json.dumps({"config": config}).encode(), "app")


def test_platforms_of_a_hostile_index_are_no_orders_to_a_terminal():
    entries = [{"platform": {"os": "\x1b[2J", "architecture": 7}}, {"platform": []}]
    with pytest.raises(ImageError) as caught:
        manifest.choose(entries, "app", "x86_64")
    assert caught.value.message.isprintable()
