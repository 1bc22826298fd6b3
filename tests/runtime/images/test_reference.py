"""Image names, with the cases of github.com/distribution/reference's own tests."""

from __future__ import annotations

import pytest

from orlop.errors import ImageError
from orlop.runtime.images.reference import parse

DIGEST = "sha256:" + "f" * 64


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("busybox", "docker.io/library/busybox:latest"),
        ("busybox:1.36", "docker.io/library/busybox:1.36"),
        ("library/busybox", "docker.io/library/busybox:latest"),
        ("docker.io/busybox", "docker.io/library/busybox:latest"),
        ("index.docker.io/library/busybox", "docker.io/library/busybox:latest"),
        ("user/app", "docker.io/user/app:latest"),
        ("quay.io/org/app:v1", "quay.io/org/app:v1"),
        ("quay.io/a/b/c/d", "quay.io/a/b/c/d:latest"),
        ("localhost/app", "localhost/app:latest"),
        ("localhost:5000/app:x", "localhost:5000/app:x"),
        ("10.77.0.254:5000/busybox", "10.77.0.254:5000/busybox:latest"),
        ("[::1]:5000/app", "[::1]:5000/app:latest"),
        ("Registry/app", "Registry/app:latest"),
        ("registry.example:5000/a:b", "registry.example:5000/a:b"),
        ("a__b/c-d.e", "docker.io/a__b/c-d.e:latest"),
        ("app:A_b.c-d", "docker.io/library/app:A_b.c-d"),
        (f"busybox@{DIGEST}", f"docker.io/library/busybox@{DIGEST}"),
        (f"quay.io/app:v1@{DIGEST}", f"quay.io/app:v1@{DIGEST}"),
    ],
)
def test_names_are_completed(text, expected):
    assert str(parse(text)) == expected


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("busybox", "latest"), ("busybox:1", "1"), (f"b:1@{DIGEST}", DIGEST), (f"b@{DIGEST}", DIGEST)],
)
def test_a_digest_is_what_counts(text, wanted):
    assert parse(text).wanted == wanted


def test_the_default_registry_is_a_setting():
    assert str(parse("busybox", "registry.site")) == "registry.site/busybox:latest"
    assert str(parse("a/b:1", "registry.site")) == "registry.site/a/b:1"
    assert str(parse("quay.io/x", "registry.site")) == "quay.io/x:latest"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no repository"),
        ("Busybox", "lower case"),
        ("quay.io/Org/app", "lower case"),
        ("busybox:", "is no tag"),
        ("busybox:a b", "is no tag"),
        ("busybox:" + "a" * 129, "is no tag"),
        ("busybox@sha256:123", "is no digest"),
        ("busybox@md5:" + "f" * 32, "is no digest"),
        ("-busybox", "no repository"),
        ("a//b", "no repository"),
        ("a/../b", "no repository"),
        ("quay.io/", "no repository"),
        ("docker://busybox", "no repository"),
        ("https://quay.io/app", "no repository"),
        ("a" * 300, "255"),
        ("büsybox", "no repository"),
        (" busybox", "no repository"),
    ],
)
def test_what_is_no_name_is_refused_with_the_reason(text, why):
    with pytest.raises(ImageError) as caught:
        parse(text)
    assert caught.value.reason == "InvalidImageName"
    assert why in caught.value.message
    assert "[registry/]name[:tag][@digest]" in caught.value.message
