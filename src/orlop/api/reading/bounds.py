"""Bounds how large and how deep one object may be, in whatever format and by whatever patch.

Every part of the server that walks an object may rely on it: recursion is at most a few hundred
calls deep, and one walk over all values takes well under a second. It knows no format.
"""

from __future__ import annotations

from typing import Any

MAX_BYTES = 3 << 20  # as upstream: what a single object may weigh on the wire
# Upstream has 10,000, on stacks that grow. Half of a definition's levels are `properties`, and the
# deepest of them in the wild have some sixty; who walks an object may take four calls for each.
MAX_DEPTH = 200
MAX_VALUES = 100_000  # upstream's store takes 1.5 MiB: sixty thousand values of the usual size


class OutOfBounds(ValueError):
    """Deeper, or of more values, than an object may be; says the bound and what to do."""


def too_deep() -> OutOfBounds:
    return OutOfBounds(f"it is nested more than {MAX_DEPTH} levels deep: make it flatter")


def too_many(limit: int = MAX_VALUES) -> OutOfBounds:
    return OutOfBounds(f"it has more than {limit} values: split it into several objects")


def check(value: Any, *, values: int = MAX_VALUES) -> None:
    """Raise OutOfBounds where plain data is too much; a part that is in it twice counts twice.

    Level by level, so that it needs no recursion itself.
    """
    level, seen = [value] if type(value) in (dict, list) else [], 1
    for _ in range(MAX_DEPTH):
        if not level:
            return
        seen += sum(map(len, level))
        if seen > values:
            raise too_many(values)
        level = [
            inner
            for one in level
            for inner in (one.values() if type(one) is dict else one)
            if type(inner) is dict or type(inner) is list
        ]
    if level:
        raise too_deep()
