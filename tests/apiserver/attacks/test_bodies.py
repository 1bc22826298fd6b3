"""Bodies made to end the server, to freeze it or to fill its memory, sent with any pod's token."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.apiserver.attacks.target import Reply, Target

# What every account may create: a question whether it may do something.
ANYONE = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
JSON, YAML = "application/json", "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
MIB = 1 << 20


def _laughs(size: int) -> bytes:
    """Nine levels of aliases, each of ten of the one before."""
    lines = [b"a0: &a0 [%b]" % b",".join([b"x" * size] * 10)]
    lines += [b"a%d: &a%d [%b]" % (n, n, b",".join([b"*a%d" % (n - 1)] * 10)) for n in range(1, 9)]
    return b"\n".join(lines)


def _merges() -> bytes:
    lines = [b"m0: &m0 {k: 1}"]
    lines += [b"m%d: &m%d {<<: [*m%d, *m%d], k%d: 1}" % (n, n, n - 1, n - 1, n)
              for n in range(1, 25)]  # fmt: skip
    return b"\n".join(lines)


def _schemas(depth: int) -> bytes:
    """A definition in protobuf, whose schema is a list of lists of lists."""
    schema = b""
    for _ in range(depth):
        inner = b"\x0a" + _varint(len(schema)) + schema  # JSONSchemaPropsOrArray.schema
        schema = b"\x8a\x01" + _varint(len(inner)) + inner  # JSONSchemaProps.items
    for tag in (b"\x0a", b"\x22", b"\x3a", b"\x12"):  # openAPIV3Schema, schema, versions, spec
        schema = tag + _varint(len(schema)) + schema
    types = b"\x0a\x17apiextensions.k8s.io/v1\x12\x18CustomResourceDefinition"
    return (b"k8s\x00\x0a" + _varint(len(types)) + types
            + b"\x12" + _varint(len(schema)) + schema)  # fmt: skip


def _varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


ATTACKS: list[tuple[str, str, bytes]] = [
    ("yaml: brackets", YAML, b"[" * 30_000),
    ("yaml: brackets, as many as fit", YAML, b"[" * (3 * MIB - 1)),
    ("yaml: braces", YAML, b"{a: " * 30_000),
    ("yaml: questions", YAML, b"? " * 30_000),
    ("yaml: dashes", YAML, b"- " * 30_000),
    ("yaml: brackets that are closed", YAML, b"[" * 400 + b"]" * 400),
    ("yaml: aliases of aliases", YAML, _laughs(1)),
    ("yaml: aliases of a long text", YAML, b"a: &a " + b"x" * MIB + b"\nb: [" + b"*a," * 300_000),
    ("yaml: merges of merges", YAML, _merges()),
    ("yaml: an anchor in itself", YAML, b"&a [*a, *a]"),
    ("yaml: to the base of 60", YAML, b"a: 1" + b":1" * 700_000),
    ("yaml: to the base of 60, with a fraction", YAML, b"a: 1" + b":1" * 1_000_000 + b".5"),
    ("yaml: binary digits", YAML, b"a: 0b" + b"1" * (3 * MIB - 10)),
    ("yaml: decimal digits", YAML, b"a: 1" + b"7" * (3 * MIB - 10)),
    ("yaml: digits of a fraction", YAML, b"a: 1." + b"7" * (3 * MIB - 10)),
    ("yaml: not a number", YAML, b"spec: {a: .nan}"),
    ("yaml: more than any number", YAML, b"spec: {a: -.inf}"),
    ("yaml: a set", YAML, b"spec: !!set {a, b}"),
    ("yaml: an object of Python", YAML, b"!!python/object/apply:os.system [id]"),
    ("yaml: directives", YAML, b"".join(b"%%TAG !a%d! a\n" % n for n in range(150_000)) + b"--- a"),
    ("yaml: directives after other breaks", YAML, b"%TAG !a! a\r" * 200_000),
    ("yaml: directives in UTF-16", YAML, ("%TAG !a! a\n" * 100_000).encode("utf-16")),
    ("yaml: a million numbers", YAML, b"[" + b"1," * 1_000_000 + b"1]"),
    ("yaml: a million empty objects", YAML, b"[" + b"{}," * 1_000_000 + b"{}]"),
    ("yaml: anchors", YAML, b"".join(b"- &a%d 1\n" % n for n in range(200_000))),
    ("yaml: as keys", YAML, b"{a: 1, " + b"{" * 20_000),
    ("json: brackets", JSON, b"[" * (3 * MIB - 1)),
    ("json: objects in objects", JSON, b'{"a":' * 400 + b"1" + b"}" * 400),
    ("json: a long number", JSON, b'{"spec":{"a":1' + b"0" * 4000 + b"}}"),
    ("json: a longer number", JSON, b'{"spec":{"a":' + b"1" * (3 * MIB - 20) + b"}}"),
    ("json: a huge exponent", JSON, b'{"spec":{"a":1e999999999}}'),
    ("json: a million empty objects", JSON, b'{"spec":{"a":[' + b"{}," * 1_000_000 + b"{}]}}"),
    ("json: a text that does not end", JSON, b'"' + b'\\"' * 1_500_000),
    ("protobuf: schemas in schemas", PROTOBUF, _schemas(5_000)),
    ("protobuf: fields that nobody knows", PROTOBUF, b"k8s\x00" + b"\x78\x00" * (1_500_000)),
    ("protobuf: a number without end", PROTOBUF, b"k8s\x00" + b"\xff" * MIB),
]  # fmt: skip


@pytest.mark.parametrize(
    ("media_type", "body"), [(m, b) for _, m, b in ATTACKS], ids=[name for name, _, _ in ATTACKS]
)
def test_a_body_is_refused_and_nobody_else_notices(
    target: Target, media_type: str, body: bytes
) -> None:
    with target.unharmed():
        reply = target.ask("POST", ANYONE, body, media_type, who="pod")
    assert 400 <= reply.code < 500, reply.body[:300]
    assert reply.message
    assert len(reply.body) < 20_000, "a refusal does not repeat what it refuses"


@pytest.mark.parametrize(
    ("name", "media_type", "body"),
    [
        ("apply", "application/apply-patch+yaml", b"[" * 30_000),
        ("apply", "application/apply-patch+yaml", _laughs(1)),
        ("merge", "application/merge-patch+json", b'{"a":' * 900 + b"1" + b"}" * 900),
        ("strategic", "application/strategic-merge-patch+json", b'{"spec":' + b"[" * MIB),
        ("json", "application/json-patch+json", b"[" * MIB),
    ],
    ids=["apply, deep", "apply, aliases", "merge", "strategic", "json"],
)
def test_so_is_a_patch(target: Target, name: str, media_type: str, body: bytes) -> None:
    path = f"/api/v1/namespaces/small/configmaps/{name}?fieldManager=x"
    with target.unharmed():
        reply = target.ask("PATCH", path, body, media_type)
    assert 400 <= reply.code < 500
    assert reply.code != 404, "it was read before anything was looked for"


@pytest.mark.parametrize(
    ("media_type", "body"),
    [
        (YAML, b"[" + b"1, " * 90_000 + b"1]"),
        (JSON, b'{"a":[' + b'{"k":1,"k":2},' * 40_000 + b"1]}"),
        (JSON, b'{"apiVersion":1,' + b",".join(b'"k%d":1,"k%d":1' % (n, n) for n in range(30_000))
         + b"}"),
    ],
    ids=["values", "repeated keys", "repeated keys of one object"],
)  # fmt: skip
def test_a_crowd_of_large_bodies_leaves_turns_to_others(
    target: Target, media_type: str, body: bytes
) -> None:
    """Each is a good part of a second's work."""

    def ask(_: int) -> Reply:
        return target.ask("POST", "/api/v1/namespaces/small/configmaps", body, media_type)

    with target.unharmed(), ThreadPoolExecutor(8) as crowd:
        replies = list(crowd.map(ask, range(8)))
    assert {reply.code for reply in replies} <= {400, 422, 429}


def test_a_compressed_body_is_refused_unopened(target: Target) -> None:
    import gzip

    body = gzip.compress(b" " * (200 * MIB))
    with target.unharmed(growth=64):
        reply = target.ask("POST", ANYONE, body, who="pod", Content_Encoding="gzip")
    assert (reply.code, reply.json["reason"]) == (415, "UnsupportedMediaType")


def test_what_is_large_but_honest_is_kept(target: Target) -> None:
    """A definition as the largest ones are, and a map of a megabyte."""
    deep: dict[str, object] = {"type": "string"}
    for level in range(60):
        deep = {"type": "object", "properties": {f"level{level}": deep}}
    wide = {f"field{n}": {"type": "string", "description": "x" * 40} for n in range(8_000)}
    schema = {"type": "object", "properties": {"spec": {"type": "object",
              "properties": {"deep": deep, **wide}}}}  # fmt: skip
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "larges.example.org"},
        "spec": {
            "group": "example.org",
            "scope": "Namespaced",
            "names": {"kind": "Large", "plural": "larges", "singular": "large"},
            "versions": [{"name": "v1", "served": True, "storage": True,
                          "schema": {"openAPIV3Schema": schema}}],
        },
    }  # fmt: skip
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    with target.unharmed():
        made = target.ask("POST", path, definition, who="admin")
        data = {"metadata": {"name": "big"}, "data": {"a": "x" * 1_000_000}}
        kept = target.ask("POST", "/api/v1/namespaces/small/configmaps", data)
        target.ask("DELETE", f"{path}/larges.example.org", who="admin")
    assert (made.code, kept.code) == (201, 201), (made.body[:500], kept.body[:500])
