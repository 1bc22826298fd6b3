"""Request bodies: JSON, YAML and Kubernetes' protobuf, by Content-Type.

Called for requests that carry one. The result is plain data; whether it is an object of the right
kind is the verb's question.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import yaml

from ..api import protobuf
from ..api.schema.strict import duplicate_fields
from ..errors import BadRequest
from .failures import unsupported_media_type

JSON = "application/json"
YAML = ("application/yaml", "application/x-yaml", "text/yaml")
PROTOBUF = "application/vnd.kubernetes.protobuf"
OBJECT_TYPES = (JSON, "application/yaml", PROTOBUF)

_MAX_NODES = 1_000_000  # more than 3 MB of honest YAML can hold in any useful object
_Loader: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def media_type_of(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def decode_object(content_type: str, data: bytes) -> Any:
    """A whole object, in any of the three formats; JSON where none is named."""
    media_type = media_type_of(content_type)
    if media_type in ("", JSON, "application/octet-stream"):
        return decode_json(data)
    if media_type in YAML:
        return decode_yaml(data)
    if media_type == PROTOBUF:
        return protobuf.decode(data)
    raise unsupported_media_type(OBJECT_TYPES)


def decode_json(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(f"the body of the request is not valid JSON: {error}") from error


def decode_yaml(data: bytes) -> Any:
    """YAML, or JSON in its place: what the apply patch and `kubectl create --raw` may send."""
    try:
        value = yaml.load(data, Loader=_JsonLike)
        return value if _check_expansion(value) else _with_text_keys(value)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise BadRequest(f"the body of the request is not valid YAML: {error}") from error


def apply_body(data: bytes) -> tuple[Any, list[str]]:
    """An applied configuration, and the paths of fields that it names twice."""
    try:
        config = msgspec.json.decode(data)  # what kubectl and most clients really send
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        config = decode_yaml(data)
        return config, list(_repeated(yaml.compose(data, Loader=_JsonLike), ""))
    return config, duplicate_fields(data)


def _repeated(node: yaml.Node | None, path: str) -> Iterator[str]:
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield from _repeated(item, f"{path}[{index}]")
    elif isinstance(node, yaml.MappingNode):
        seen = set()
        for key, value in node.value:
            below = f"{path}.{key.value}" if path else str(key.value)
            if below in seen:
                yield below
            seen.add(below)
            yield from _repeated(value, below)


def _check_expansion(value: Any) -> bool:
    """A few aliases of aliases are a few bytes of YAML and gigabytes of JSON.

    Tells whether all keys are texts, as JSON's are.
    """
    is_json = True
    left, seen = [value], 0
    while left:
        here = left.pop()
        seen += 1
        if seen > _MAX_NODES:
            raise ValueError(f"its aliases expand to more than {_MAX_NODES} values")
        if isinstance(here, dict):
            left += here.values()
            is_json = is_json and all(type(key) is str for key in here)
        elif isinstance(here, list):
            left += here
    return is_json


def _with_text_keys(value: Any) -> Any:
    """`{on: 1, 2: 3}` as Go's converter reads it: keys true and 2."""
    if isinstance(value, dict):
        return {_text(key): _with_text_keys(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_text_keys(item) for item in value]
    return value


def _text(key: Any) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, int | float):
        return str(key)
    raise ValueError(f"a key must be a text, a number or a truth value, not {key!r}")


class _JsonLike(_Loader):  # type: ignore[misc, valid-type]
    """Times and dates stay text, as they are in JSON."""


_JsonLike.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in _Loader.yaml_implicit_resolvers.items()
}


def check_size(length: int | None, limit: int) -> None:
    """Refuse a body by its declared length, before any of it is read."""
    if length is not None and length > limit:
        raise too_large(limit)


def too_large(limit: int) -> BadRequest:
    return BadRequest(
        f"Request entity too large: limit is {limit}",
        reason="RequestEntityTooLarge",
        code=413,
    )
