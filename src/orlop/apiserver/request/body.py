"""Request bodies: JSON, YAML and Kubernetes' protobuf, by Content-Type.

Called for requests that carry one. The result is plain data within the bounds of `api.reading`;
whether it is an object of the right kind is the verb's question.
"""

from __future__ import annotations

from typing import Any

from ...api import protobuf, reading
from ...api.schema.strict import duplicate_fields
from ...errors import BadRequest, UnsupportedMediaType
from .failures import unsupported_media_type

JSON = "application/json"
YAML = ("application/yaml", "application/x-yaml", "text/yaml")
PROTOBUF = "application/vnd.kubernetes.protobuf"
OBJECT_TYPES = (JSON, "application/yaml", PROTOBUF)


def media_type_of(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def decode_object(content_type: str, data: bytes) -> Any:
    """Decode a whole object, in any of the three formats; JSON where none is named."""
    media_type = media_type_of(content_type)
    if media_type in ("", JSON, "application/octet-stream"):
        return decode_json(data)
    if media_type in YAML:
        return decode_yaml(data)
    if media_type == PROTOBUF:
        return protobuf.decode(data)
    raise unsupported_media_type(OBJECT_TYPES)


def check_encoding(content_encoding: str) -> None:
    """Refuse compressed bodies: a few kilobytes of them may be gigabytes."""
    if content_encoding.strip().lower() not in ("", "identity"):
        raise UnsupportedMediaType(
            f"the body of the request has the Content-Encoding {content_encoding[:100]!r}: "
            "send it as it is"
        )


def decode_json(data: bytes) -> Any:
    try:
        return reading.decode_json(data)
    except ValueError as error:
        raise BadRequest(f"the body of the request is not valid JSON: {error}") from error


def decode_yaml(data: bytes) -> Any:
    """Decode YAML, or JSON in its place.

    The apply patch and `kubectl create --raw` may send either.
    """
    return _document(data).value


def apply_body(data: bytes) -> tuple[Any, list[str]]:
    """Decode an applied configuration; return it and the paths of fields that it names twice."""
    try:
        config = reading.decode_json(data)  # what kubectl and most clients really send
    except reading.OutOfBounds as error:
        raise BadRequest(f"the body of the request is not valid JSON: {error}") from error
    except ValueError:
        document = _document(data)
        return document.value, document.repeated
    return config, duplicate_fields(data)


def _document(data: bytes) -> reading.Document:
    try:
        return reading.decode_yaml(data)
    except ValueError as error:
        raise BadRequest(f"the body of the request is not valid YAML: {error}") from error


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
