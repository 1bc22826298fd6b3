"""Keeps equal parts of many objects once: ten thousand pods of one template have one spec.

Used by informers on what goes into their caches, whose objects nobody may change. So many different
parts are remembered; a part that is not is simply kept twice.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import msgspec

_REMEMBERED = 512


class Shared:
    """The parts seen lately, by their JSON."""

    def __init__(self, size: int = _REMEMBERED) -> None:
        self._parts: OrderedDict[bytes, Any] = OrderedDict()
        self._size = size

    def one(self, part: Any) -> Any:
        """Return an equal part that may be in use already."""
        text = msgspec.json.encode(part)
        known = self._parts.get(text)
        if known is not None:
            self._parts.move_to_end(text)
            return known
        self._parts[text] = part
        if len(self._parts) > self._size:
            self._parts.popitem(last=False)
        return part
