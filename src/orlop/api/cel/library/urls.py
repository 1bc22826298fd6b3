"""Kubernetes' url(): the parts of a URL.

Part of the library. As apiserver/pkg/cel/library/urls.go, which takes what Go's
url.ParseRequestURI takes: an absolute URL or an absolute path.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, parse_qs, quote, urlsplit

from ..errors import CelError


@dataclass(frozen=True, slots=True)
class URL:
    parts: SplitResult
    cel_type = "kubernetes.URL"


def _url(text: Any) -> URL:
    if type(text) is not str:
        raise CelError("no such overload")
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError as error:
        raise CelError(f"URL parse error during conversion from string: {error}") from error
    is_absolute = bool(parts.scheme) or text.startswith("/")
    if not is_absolute or any(character <= " " for character in text):
        raise CelError(
            "URL parse error during conversion from string: "
            f'parse "{text}": invalid URI for request'
        )
    return URL(parts)


def _is_url(text: Any) -> bool:
    try:
        _url(text)
    except CelError:
        if type(text) is not str:
            raise
        return False
    return True


def _parts(value: Any) -> SplitResult:
    if not isinstance(value, URL):
        raise CelError("no such overload")
    return value.parts


def _host(value: Any) -> str:
    return _parts(value).netloc.rpartition("@")[2]


def _hostname(value: Any) -> str:
    host = _host(value)
    if host.startswith("["):
        return host[1 : host.index("]")]
    return host.partition(":")[0]


def _port(value: Any) -> str:
    port = _parts(value).port
    return "" if port is None else str(port)


FUNCTIONS: dict[str, Callable[..., Any]] = {"url": _url, "isURL": _is_url}
METHODS: dict[str, Callable[..., Any]] = {
    "getScheme": lambda value: _parts(value).scheme,
    "getHost": _host,
    "getHostname": _hostname,
    "getPort": _port,
    "getEscapedPath": lambda value: quote(_parts(value).path, safe="/%:@!$&'()*+,;=~-._"),
    "getQuery": lambda value: parse_qs(_parts(value).query, keep_blank_values=True),
}
