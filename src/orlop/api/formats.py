"""The string formats that a schema may name, and what each accepts.

Read by the nodes of a schema. The list is upstream's (apiextensions, validation/formats.go); a
format that is not in it is taken as a remark and checks nothing.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from datetime import date
from ipaddress import AddressValueError, IPv4Address, IPv6Address, NetmaskValueError, ip_network
from urllib.parse import urlsplit

from . import names, times

_MOST_DIGITS = 19  # of what fits into 64 bits
Check = Callable[[str], bool]
_DURATION_UNITS = {
    "ns": 1, "us": 1_000, "µs": 1_000, "μs": 1_000, "ms": 10**6, "s": 10**9, "m": 60 * 10**9,
    "h": 3600 * 10**9,
}  # fmt: skip
_DURATION = re.compile(r"([0-9]*+\.?[0-9]*+)(ns|us|µs|μs|ms|s|m|h)")
_LONG_DURATION = re.compile(r"\s*(\d+)\s*(nanoseconds?|nanos?|ns|microseconds?|micros?|us|µs|"
                            r"milliseconds?|millis?|ms|seconds?|secs?|s|minutes?|mins?|m|"
                            r"hours?|hrs?|h|days?|d|weeks?|wks?|w)", re.IGNORECASE)  # fmt: skip


def go_duration(text: str) -> int | None:
    """Return the nanoseconds of `1h30m`; None where it is none. As Go's time.ParseDuration."""
    sign, rest = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    if rest == "0":
        return 0
    total, at = 0.0, 0
    while at < len(rest):
        match = _DURATION.match(rest, at)
        if match is None or match[1] in ("", "."):
            return None
        whole, _, fraction = match[1].partition(".")
        if len(whole.lstrip("0")) > _MOST_DIGITS:
            return None
        unit = _DURATION_UNITS[match[2]]
        total += int(whole.lstrip("0") or 0) * unit + (
            int(float(f"0.{fraction}") * unit) if fraction else 0
        )
        at = match.end()
    return sign * int(total) if rest and total < 1 << 63 else None


def _is_duration(text: str) -> bool:
    if go_duration(text) is not None:
        return True
    return bool(text) and re.fullmatch(f"(?:{_LONG_DURATION.pattern})+", text, re.I) is not None


def _is_time(text: str) -> bool:
    try:
        times.parse(text)
    except ValueError:
        return False
    return True


def _is_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return len(text) == 10


def _is_uri(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme) or text.startswith("/")


def _is_ipv4(text: str) -> bool:
    try:
        IPv4Address(text)
    except AddressValueError:
        return False
    return True


def _is_ipv6(text: str) -> bool:
    try:
        IPv6Address(text)
    except AddressValueError:
        return False
    return "%" not in text


def _is_cidr(text: str) -> bool:
    try:
        ip_network(text, strict=False)
    except (ValueError, AddressValueError, NetmaskValueError):
        return False
    return "/" in text


def _is_bytes(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _by(pattern: str) -> Check:
    regex = re.compile(pattern)
    return lambda text: regex.fullmatch(text) is not None


_HEX = "[0-9a-fA-F]"
_UUID = rf"{_HEX}{{8}}-?{_HEX}{{4}}-?%s{_HEX}{{3}}-?%s{_HEX}{{3}}-?{_HEX}{{12}}"
CHECKS: dict[str, Check] = {
    "date-time": _is_time,
    "datetime": _is_time,
    "date": _is_date,
    "duration": _is_duration,
    "uri": _is_uri,
    "email": _by(r"[^@\s<>]+@[^@\s<>]+"),
    "hostname": _by(r"(?=.{1,253}\.?$)[A-Za-z0-9_]([-A-Za-z0-9_]{0,62})"
                    r"(\.[A-Za-z0-9_]([-A-Za-z0-9_]{0,62}))*\.?"),
    "ipv4": _is_ipv4,
    "ipv6": _is_ipv6,
    "cidr": _is_cidr,
    "mac": _by(rf"{_HEX}{{2}}([:-]{_HEX}{{2}}){{5}}|({_HEX}{{4}}\.){{2}}{_HEX}{{4}}"),
    "uuid": _by(rf"{_HEX}{{8}}-?({_HEX}{{4}}-?){{3}}{_HEX}{{12}}"),
    "uuid3": _by(_UUID % ("3", _HEX)),
    "uuid4": _by(_UUID % ("4", "[89abAB]")),
    "uuid5": _by(_UUID % ("5", "[89abAB]")),
    "byte": _is_bytes,
    "hexcolor": _by(rf"#?({_HEX}{{3}}|{_HEX}{{6}})"),
    "rgbcolor": _by(r"rgb\(\s*(\d{1,3}%?\s*,\s*){2}\d{1,3}%?\s*\)"),
    "bsonobjectid": _by(rf"{_HEX}{{24}}"),
    "ssn": _by(r"\d{3}[- ]?\d{2}[- ]?\d{4}"),
    "creditcard": _by(r"(\d[ -]?){12,18}\d"),
    "isbn": _by(r"(?:\d[- ]?){9}[\dXx]|(?:\d[- ]?){12}\d"),
    "isbn10": _by(r"(?:\d[- ]?){9}[\dXx]"),
    "isbn13": _by(r"(?:\d[- ]?){12}\d"),
    "k8s-short-name": lambda text: not names.dns1123_label(text),
    "k8s-long-name": lambda text: not names.dns1123_subdomain(text),
}  # fmt: skip
