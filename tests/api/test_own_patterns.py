"""Expressions of our own that strangers' words meet: none takes more time than the words are long.

They are run by a backtracking engine. Each is tried with long texts that repeat few characters and
end as they should not: what is worse than linear shows.
"""

from __future__ import annotations

import importlib
import itertools
import pkgutil
import re
import types
from collections.abc import Iterator
from time import thread_time

import pytest

PACKAGES = ("api", "apiserver", "controllers", "extensions", "gateway", "jwt", "kubelet", "network",
            "scheduler")  # fmt: skip
BITS = [*"a10 .-/[](),=\\\"'_:<@*\t", "a.", "a-", "1.", " a", "a/", "1m", "..", "a=", "\\a", "[a]",
        "--", "a:", "$("]  # fmt: skip
LENGTH = 20_000
ALLOWED = 0.5  # seconds of CPU; what is quadratic takes ten times that, what is worse never ends


def _modules() -> Iterator[types.ModuleType]:
    for package in PACKAGES:
        module = importlib.import_module(f"orlop.{package}")
        yield module
        for found in pkgutil.walk_packages(getattr(module, "__path__", ()), f"orlop.{package}."):
            yield importlib.import_module(found.name)


def _patterns() -> dict[str, re.Pattern[str]]:
    found: dict[str, re.Pattern[str]] = {}
    for module in _modules():
        for value in vars(module).values():
            if isinstance(value, re.Pattern) and isinstance(value.pattern, str):
                found.setdefault(value.pattern, value)
    return found


PATTERNS = _patterns()


@pytest.mark.parametrize("pattern", PATTERNS.values(), ids=[text[:60] for text in PATTERNS])
def test_it_takes_no_more_time_than_the_text_is_long(pattern: re.Pattern[str]) -> None:
    for bit, last in itertools.product(BITS, ("", "!", "\n")):
        text = bit * (LENGTH // len(bit)) + last
        begun = thread_time()
        pattern.fullmatch(text)
        pattern.match(text)
        if thread_time() - begun > ALLOWED:
            pytest.fail(f"{pattern.pattern} takes too long for many {bit!r} before {last!r}")
