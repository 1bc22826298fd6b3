"""Bodies in three formats, and what is none."""

from __future__ import annotations

import itertools

import pytest

from orlop.apiserver.request.body import (
    apply_body,
    check_size,
    decode_object,
    decode_yaml,
    media_type_of,
)
from orlop.errors import BadRequest, UnsupportedMediaType

# v1 ConfigMap {metadata: {name: "a"}, data: {"k": "v"}}, as client-go writes it: the magic number,
# then runtime.Unknown{typeMeta{v1, ConfigMap}, raw}.
_RAW = b"\x0a\x03\x0a\x01a\x12\x06\x0a\x01k\x12\x01v"
_TYPE = b"\x0a\x02v1\x12\x09ConfigMap"
PROTOBUF = b"k8s\x00" + b"\x0a" + bytes([len(_TYPE)]) + _TYPE + b"\x12" + bytes([len(_RAW)]) + _RAW


@pytest.mark.parametrize(
    ("content_type", "data", "expected"),
    [
        ("application/json", b'{"a":[1,null]}', {"a": [1, None]}),
        ("application/json; charset=utf-8", b'{"a":"\xc3\xbc"}', {"a": "ü"}),
        ("", b"{}", {}),
        ("application/yaml", b"a: 1\nb: [x, 'y']\n", {"a": 1, "b": ["x", "y"]}),
        ("application/yaml", b'{"a": 1}', {"a": 1}),
        ("application/yaml", b"when: 2020-01-01T00:00:00Z\n", {"when": "2020-01-01T00:00:00Z"}),
        ("application/yaml", b"day: 2020-01-01\n", {"day": "2020-01-01"}),
    ],
)
def test_a_body_is_read_by_its_type(content_type, data, expected) -> None:
    assert decode_object(content_type, data) == expected


def test_protobuf_is_the_object_it_would_be_in_json() -> None:
    obj = decode_object("application/vnd.kubernetes.protobuf", PROTOBUF)
    assert (obj["apiVersion"], obj["kind"]) == ("v1", "ConfigMap")
    assert obj["metadata"]["name"] == "a"
    assert obj["data"] == {"k": "v"}


@pytest.mark.parametrize(
    ("content_type", "data"),
    [
        ("application/json", b""),
        ("application/json", b'{"a":'),
        ("application/json", b"\xff"),
        ("application/json", b"[" * 100_000),
        ("application/yaml", b"a: [1"),
        ("application/yaml", b"a: !!python/object:os.system x"),
        ("application/yaml", b"\x00"),
        ("application/vnd.kubernetes.protobuf", b"{}"),
        ("application/vnd.kubernetes.protobuf", PROTOBUF[:-3]),
    ],
)
def test_what_cannot_be_read_is_a_bad_request(content_type, data) -> None:
    with pytest.raises(BadRequest):
        decode_object(content_type, data)


@pytest.mark.parametrize("content_type", ["application/cbor", "text/plain", "application/xml"])
def test_other_types_are_unsupported(content_type) -> None:
    with pytest.raises(UnsupportedMediaType, match="application/json"):
        decode_object(content_type, b"{}")


def test_aliases_are_followed_but_a_billion_laughs_are_not() -> None:
    assert decode_yaml(b"a: &x [1]\nb: *x\n") == {"a": [1], "b": [1]}
    names = "abcdefghijklmnopqrstuvwxyz"
    pairs = itertools.pairwise(names)
    laughs = "a: &a [x, x]\n" + "".join(f"{n}: &{n} [*{p}, *{p}]\n" for p, n in pairs)
    for text in (laughs, "a: &a [*a, *a]\n"):
        with pytest.raises(BadRequest, match="expand"):
            decode_yaml(text.encode())


def test_a_declared_length_is_enough_to_refuse() -> None:
    check_size(None, 10)
    check_size(10, 10)
    with pytest.raises(BadRequest) as refused:
        check_size(11, 10)
    assert refused.value.status_code == 413


@pytest.mark.parametrize(
    ("header", "expected"),
    [("Application/JSON ; charset=x", "application/json"), ("", ""), (";", "")],
)
def test_a_media_type_has_no_parameters(header, expected) -> None:
    assert media_type_of(header) == expected


async def test_protobuf_is_taken_over_http(http) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    reply = await http("POST", path, PROTOBUF, Content_Type="application/vnd.kubernetes.protobuf")
    assert (reply.code, reply.json["data"]) == (201, {"k": "v"})


def test_keys_of_yaml_become_texts() -> None:
    assert decode_yaml(b"{on: {1: [{2.5: x}]}, a: b}") == {"true": {"1": [{"2.5": "x"}]}, "a": "b"}
    with pytest.raises(BadRequest, match="a key must be a text"):
        decode_yaml(b"{null: 1}")


@pytest.mark.parametrize(
    ("text", "repeated"),
    [
        (b'{"a": {"b": 1, "b": 2}}', ["a.b"]),
        (b"a: {b: 1, b: 2}\nc: [{d: 1, d: 1}]\n", ["a.b", "c[0].d"]),
        (b"a: 1", []),
    ],
)
def test_an_applied_body_tells_what_it_says_twice(text: bytes, repeated: list[str]) -> None:
    assert apply_body(text)[1] == repeated
