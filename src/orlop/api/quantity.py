"""Quantities of resources ("500m", "1.5Gi", "1e3"), exact as Kubernetes counts them.

Used by defaulting, validation, the scheduler and the kubelet. Values are integers of nano-units, so
that nothing is ever rounded through a float; what is finer than a nano is rounded up, as
apimachinery/pkg/api/resource/quantity.go does. A unit is not guessed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

NANO = 1_000_000_000
MICRO = 1_000_000
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_SUFFIX = {power: suffix for suffix, power in _BINARY.items()}
_DECIMAL_SUFFIX = {power: suffix for suffix, power in _DECIMAL.items()}
_SYNTAX = re.compile(
    r"([+-]?)([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:([KMGTPE]i)|([eE][+-]?[0-9]+)|([numkMGTPE]?))"
)
_BINARY_LIMIT = (2**63 - 1) * NANO  # decimal amounts have none

# apimachinery/pkg/api/resource: ErrFormatWrong, ErrSuffix
SYNTAX_ERROR = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
SUFFIX_ERROR = "unable to parse quantity's suffix"
_WELL_FORMED = re.compile(r"[+-]?([0-9]++(\.[0-9]*+)?|\.[0-9]++)[eEinumkKMGTP]*+[-+]?[0-9]*+")


_LONGEST = 1000  # characters; no amount that means anything has a tenth of it


class QuantityError(ValueError):
    """A text that is no quantity; the message is upstream's."""


@dataclass(frozen=True, slots=True, order=False)
class Quantity:
    """An amount in nano-units and the way it was written: "", "i" (binary) or "e" (exponent)."""

    nanos: int
    form: str = ""

    def __str__(self) -> str:
        if self.form == "i" and abs(self.nanos) >= 1024 * NANO and self.nanos % NANO == 0:
            return _binary_text(self.nanos // NANO)
        return _decimal_text(self.nanos, exponent=self.form == "e")

    def __add__(self, other: Quantity) -> Quantity:
        return Quantity(self.nanos + other.nanos, self.form if self.nanos else other.form)

    def __sub__(self, other: Quantity) -> Quantity:
        return Quantity(self.nanos - other.nanos, self.form if self.nanos else other.form)

    def __lt__(self, other: Quantity) -> bool:
        return self.nanos < other.nanos

    def __le__(self, other: Quantity) -> bool:
        return self.nanos <= other.nanos

    def __gt__(self, other: Quantity) -> bool:
        return self.nanos > other.nanos

    def __ge__(self, other: Quantity) -> bool:
        return self.nanos >= other.nanos

    @property
    def millis(self) -> int:
        """Return the thousandths, rounded up: the unit in which cpu is counted."""
        return -(-self.nanos // MICRO)

    @property
    def value(self) -> int:
        """Return the whole units, rounded up: bytes of memory, pods, devices."""
        return -(-self.nanos // NANO)


ZERO = Quantity(0)


@lru_cache(maxsize=4096)
def _parse_text(text: str) -> Quantity:
    if len(text) > _LONGEST:
        raise QuantityError(SYNTAX_ERROR)
    match = _SYNTAX.fullmatch(text)
    if match is None:
        raise QuantityError(SUFFIX_ERROR if _WELL_FORMED.fullmatch(text) else SYNTAX_ERROR)
    sign, number, binary, exponent, suffix = match.groups()
    whole, _, fraction = number.partition(".")
    digits = int((whole + fraction) or "0")
    if binary:
        nanos = _scaled(digits * 1024 ** _BINARY[binary], 9 - len(fraction))
        nanos = min(nanos, _BINARY_LIMIT)
    else:
        power = int(exponent[1:]) if exponent else _DECIMAL[suffix]
        nanos = _scaled(digits, power + 9 - len(fraction))
    form = "i" if binary else "e" if exponent else ""
    return Quantity(-nanos if sign == "-" else nanos, form)


def _scaled(digits: int, power: int) -> int:
    """Return digits * 10**power, rounded away from zero; absurd powers are cut off."""
    if power >= 0:
        return digits * int("1" + "0" * min(power, 1000))
    return -(-digits // int("1" + "0" * min(-power, 1000)))


def parse(value: Any) -> Quantity:
    """Return the quantity that a JSON value (a string or a number) means."""
    if isinstance(value, str):
        return _parse_text(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise QuantityError(SYNTAX_ERROR)
    return _parse_text(repr(value) if isinstance(value, float) else str(value))


@lru_cache(maxsize=4096)
def _canonical_text(text: str) -> str:
    return str(_parse_text(text))


def canonical(value: Any) -> str:
    """Write the amount in the one way of upstream: "1.5Gi" is "1536Mi", 0.5 is "500m"."""
    return _canonical_text(value) if isinstance(value, str) else str(parse(value))


def to_millis(value: Any) -> int:
    return parse(value).millis


def to_bytes(value: Any) -> int:
    return parse(value).value


def _binary_text(units: int) -> str:
    power = 0
    while power < 6 and units % 1024 == 0:
        units //= 1024
        power += 1
    return f"{units}{_BINARY_SUFFIX.get(power, '')}"


def _decimal_text(nanos: int, *, exponent: bool) -> str:
    if nanos == 0:
        return "0"
    power = -9
    while nanos % 1000 == 0:
        nanos //= 1000
        power += 3
    if exponent or power > 18:  # there is no suffix above E
        return f"{nanos}e{power}" if power else str(nanos)
    return f"{nanos}{_DECIMAL_SUFFIX[power]}"
