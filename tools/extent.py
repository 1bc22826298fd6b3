"""How much set-up prepares: what `make demo` needs, or all that the tests need too.

Given to `python -m tools` as a word, and by it to each step that does less for the demo.
"""

from __future__ import annotations

from enum import StrEnum


class Extent(StrEnum):
    DEMO = "demo"
    ALL = "all"
