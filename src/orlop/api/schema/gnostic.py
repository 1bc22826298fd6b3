"""An OpenAPI version 2 document in protobuf, as kubectl up to 1.26 demands it.

Called by the API server for `application/com.github.proto-openapi.spec.v2.v1.0+protobuf`; later
kubectls fall back to it for kinds that are in no version 3 document. The numbers are those of
gnostic's openapi.v2.Document; what our documents do not have is not written.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from ..objects import Obj

_METHODS = {"get": 2, "put": 3, "post": 4, "delete": 5, "patch": 8}


def encode(document: Obj) -> bytes:
    info = document["info"]
    paths = (_named(path, _path_item(item)) for path, item in document["paths"].items())
    definitions = (_named(name, _schema(one)) for name, one in document["definitions"].items())
    return (
        _text(1, document["swagger"])
        + _bytes(2, _text(1, info["title"]) + _text(2, info["version"]))
        + _bytes(8, _all(2, paths))
        + _bytes(9, _all(1, definitions))
    )


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def _bytes(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _text(field: int, text: str | None) -> bytes:
    return _bytes(field, text.encode()) if text else b""


def _all(field: int, parts: Iterable[bytes]) -> bytes:
    return b"".join(_bytes(field, part) for part in parts)


def _named(name: str, value: bytes) -> bytes:
    return _text(1, name) + _bytes(2, value)


def _any(value: Any) -> bytes:
    """Write a free value as YAML, of which JSON is a part."""
    return _text(2, msgspec.json.encode(value).decode())


def _extensions(field: int, obj: Obj) -> bytes:
    extensions = (_named(key, _any(value)) for key, value in obj.items() if key.startswith("x-"))
    return _all(field, extensions)


def _schema(obj: Obj) -> bytes:
    out = _text(1, obj.get("$ref")) + _text(2, obj.get("format")) + _text(4, obj.get("description"))
    out += b"".join(_text(19, name) for name in obj.get("required", ()))
    if "additionalProperties" in obj:
        out += _bytes(21, _bytes(1, _schema(obj["additionalProperties"])))
    if "type" in obj:
        out += _bytes(22, _text(1, obj["type"]))
    if "items" in obj:
        out += _bytes(23, _bytes(1, _schema(obj["items"])))
    if "properties" in obj:
        named = (_named(name, _schema(one)) for name, one in obj["properties"].items())
        out += _bytes(25, _all(1, named))
    return out + _extensions(31, obj)


def _path_item(item: Obj) -> bytes:
    """Write a path's operations, without its path parameters: this format's clients know those."""
    return b"".join(
        _bytes(_METHODS[method], _operation(operation))
        for method, operation in item.items()
        if method in _METHODS
    )


def _operation(obj: Obj) -> bytes:
    out = b"".join(_text(7, one) for one in obj.get("consumes", ()))
    out += _all(8, (_parameter(one) for one in obj["parameters"]))
    responses = (
        _named(code, _bytes(1, _response(response))) for code, response in obj["responses"].items()
    )
    return out + _bytes(9, _all(1, responses)) + _extensions(13, obj)


def _response(obj: Obj) -> bytes:
    return _text(1, obj["description"]) + _bytes(2, _bytes(1, _schema(obj["schema"])))


def _parameter(obj: Obj) -> bytes:
    if obj["in"] == "body":
        body = _text(2, obj["name"]) + _text(3, "body") + _bytes(5, _schema(obj["schema"]))
        return _bytes(1, _bytes(1, body))
    query = _text(2, "query") + _text(4, obj["name"]) + _text(6, obj["type"])
    return _bytes(1, _bytes(2, _bytes(3, query)))
