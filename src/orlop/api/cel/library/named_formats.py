"""Named formats: `format.dns1123Label().validate(text)` and the like.

Read by the library's table. A format validates a string to an optional list of complaints, in the
words that the API uses for names. As apiserver/pkg/cel/library/format.go.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Any
from urllib.parse import urlsplit

from ... import names
from ..errors import CelError
from ..values import NONE, Optional, some
from .times import parse_timestamp

_UUID = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.I)
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")


@dataclass(frozen=True, slots=True)
class Format:
    name: str
    check: Callable[[str], list[str]]
    cel_type = "kubernetes.NamedFormat"


def _uri(text: str) -> list[str]:
    try:
        parts = urlsplit(text)
    except ValueError:
        return ["invalid URI"]
    return [] if parts.scheme or text.startswith("/") else ["invalid URI"]


def _date(text: str) -> list[str]:
    try:
        date.fromisoformat(text)
    except ValueError:
        return ["invalid date"]
    return []


def _moment(text: str) -> list[str]:
    try:
        parse_timestamp(text)
    except CelError:
        return ["invalid datetime"]
    return []


def _matching(pattern: re.Pattern[str], complaint: str) -> Callable[[str], list[str]]:
    return lambda text: [] if pattern.fullmatch(text) else [complaint]


def _prefix(check: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    """Let a prefix end where a name must not: with a dash."""
    return lambda text: check(f"{text}a" if text.endswith("-") else text)


FORMATS = {
    one.name: one
    for one in (
        Format("dns1123Label", names.dns1123_label),
        Format("dns1123Subdomain", names.dns1123_subdomain),
        Format("dns1035Label", names.dns1035_label),
        Format("qualifiedName", names.qualified_name),
        Format("dns1123LabelPrefix", _prefix(names.dns1123_label)),
        Format("dns1123SubdomainPrefix", _prefix(names.dns1123_subdomain)),
        Format("dns1035LabelPrefix", _prefix(names.dns1035_label)),
        Format("labelValue", names.label_value),
        Format("uri", _uri),
        Format("uuid", _matching(_UUID, "does not match the UUID format")),
        Format("byte", _matching(_BASE64, "invalid base64")),
        Format("date", _date),
        Format("datetime", _moment),
    )
}


def _validate(form: Any, text: Any) -> Optional:
    if not isinstance(form, Format) or type(text) is not str:
        raise CelError("no such overload")
    complaints = form.check(text)
    return some(complaints) if complaints else NONE


def _named(name: Any) -> Optional:
    if type(name) is not str:
        raise CelError("no such overload")
    return some(FORMATS[name]) if name in FORMATS else NONE


def _of(form: Format) -> Callable[[], Format]:
    return lambda: form


def _escaped(text: Any) -> str:
    """Escape a key as a part of a JSON pointer, as jsonpatch.escapeKey."""
    if type(text) is not str:
        raise CelError("no such overload")
    return text.replace("~", "~0").replace("/", "~1")


METHODS: dict[str, Callable[..., Any]] = {"validate": _validate}
NAMESPACES: dict[str, Callable[..., Any]] = {
    "format.named": _named,
    "jsonpatch.escapeKey": _escaped,
    **{f"format.{name}": _of(form) for name, form in FORMATS.items()},
}
