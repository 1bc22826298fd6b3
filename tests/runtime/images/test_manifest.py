"""Manifests and indexes, OCI's and docker's."""

from __future__ import annotations

import json

import pytest

from orlop.errors import ImageError
from orlop.runtime.images import manifest
from orlop.runtime.images.manifest import Blob, Manifest


def entry(digest: str, architecture: str, os: str = "linux", variant: str = ""):
    platform = {"architecture": architecture, "os": os, **({"variant": variant} if variant else {})}
    return {"digest": digest, "size": 1, "platform": platform}


def test_a_manifest_names_its_configuration_and_layers():
    document = {
        "config": {"digest": "sha256:c", "size": 10},
        "layers": [{"digest": "sha256:l", "size": 20, "mediaType": "x+gzip"}],
    }
    found = manifest.parse(json.dumps(document).encode(), "sha256:m", "app")
    expected = Manifest("sha256:m", Blob("sha256:c", 10), (Blob("sha256:l", 20, "x+gzip"),))
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
    assert manifest.choose(entries, "app", machine).digest == digest


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
