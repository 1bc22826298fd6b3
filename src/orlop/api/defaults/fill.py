"""Fills in defaults: the few steps that all defaulting is made of.

Used by the defaulters. A field that is absent, or empty where empty means absent, takes the
default; whatever else is there stays.
"""

from __future__ import annotations

from typing import Any

from ..objects import Obj


def fill(obj: Obj, key: str, value: Any) -> None:
    """Fill fields whose zero means "not set": empty strings, and numbers that are no pointers."""
    if not obj.get(key):
        obj[key] = value


def section(obj: Obj, key: str) -> Obj:
    """Return the object under `key`, made where it is missing."""
    inner: Obj | None = obj.get(key)
    if inner is None:
        inner = obj[key] = {}
    return inner
