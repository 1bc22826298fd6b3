"""Converts Slurm's hostlists: `n[1-3,7]` to names and back.

Used wherever a command names nodes; pure, so that no `scontrol show hostnames` is started for each
pod. No name is looked up.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from itertools import product
from string import digits
from typing import NamedTuple

from .numbers import MOST_DIGITS

MOST_HOSTS = 65536  # slurm.conf(5): more nodes than this is a typing error
LONGEST_NAME = 255  # of those that are made of a range
_PART = re.compile(r"([^][,]*(?:\[[^][]*\][^][,]*)*)(?:,|\Z)")
_BRACKETS = re.compile(r"\[([^]]*)\]")


def expand(hostlist: str, most: int = MOST_HOSTS) -> tuple[str, ...]:
    """Return all names of a hostlist in its own order; `(null)` and `None assigned` name none.

    No name is made before all is read and counted: a few bytes may say very many of them.
    """
    text = hostlist.strip()
    if not text or text.lower() in ("(null)", "none", "n/a", "none assigned"):
        return ()
    is_plain = "[" not in text and "]" not in text
    names = tuple(filter(None, text.split(","))) if is_plain else ()
    parts = [] if is_plain else [_read(part) for part in _split(text)]
    if len(names) + sum(part.hosts for part in parts) > most:
        raise ValueError(f"{text[:50]!r} names more than {most} hosts")
    return names or tuple(name for part in parts for name in part.names())


def compress(names: Iterable[str]) -> str:
    """Return the shortest way Slurm would write those names, sorted: `n[1-3],login`."""
    known = dict.fromkeys(names)
    # Slurm knows ranges at the end of names only.
    split = {name: len(name.rstrip(digits)) for name in known}
    parts = {name: (name[:at], name[at:]) for name, at in split.items() if at < len(name)}
    # Leading zeros fix a width: n08 and n10 share a range, n8 and n10 do, n08 and n8 do not.
    padded = {
        (prefix, len(number))
        for prefix, number in parts.values()
        if number.startswith("0") and len(number) > 1
    }
    groups: dict[tuple[str, int], list[int]] = {}
    for prefix, number in parts.values():
        width = len(number) if (prefix, len(number)) in padded else 0
        groups.setdefault((prefix, width), []).append(int(number))
    ranges = [_group(key, sorted(numbers)) for key, numbers in sorted(groups.items())]
    return ",".join([*ranges, *sorted(known.keys() - parts.keys())])


def _group(key: tuple[str, int], numbers: list[int]) -> str:
    prefix, width = key
    ranges = [
        f"{first:0{width}}" if first == last else f"{first:0{width}}-{last:0{width}}"
        for first, last in _runs(numbers)
    ]
    return f"{prefix}{ranges[0]}" if len(numbers) == 1 else f"{prefix}[{','.join(ranges)}]"


def _runs(numbers: list[int]) -> Iterator[tuple[int, int]]:
    first = last = numbers[0]
    for number in numbers[1:]:
        if number != last + 1:
            yield first, last
            first = number
        last = number
    yield first, last


class _Range(NamedTuple):
    """A range such as `08-11`; a number alone is a range of one."""

    first: int
    last: int
    width: int  # of the first, zeros and all

    @property
    def hosts(self) -> int:
        return max(0, self.last - self.first + 1)

    @property
    def longest(self) -> int:
        return max(self.width, len(str(self.last)))


class _Part(NamedTuple):
    """The text between two commas; brackets may come more than once, the last runs fastest."""

    words: list[str]  # one more than there are brackets
    brackets: list[list[_Range]]

    @property
    def hosts(self) -> int:
        return math.prod(sum(one.hosts for one in ranges) for ranges in self.brackets)

    def names(self) -> Iterator[str]:
        if not self.hosts:  # one range goes backwards, and another may be as long as it likes
            return iter(())
        first, *words = self.words
        inside = (
            [f"{n:0{one.width}}{word}" for one in ranges for n in range(one.first, one.last + 1)]
            for word, ranges in zip(words, self.brackets, strict=True)
        )
        return map("".join, product([first], *inside))


def _split(text: str) -> Iterator[str]:
    """Return the parts between commas that are outside brackets."""
    place = 0
    while place < len(text):
        part = _PART.match(text, place)
        if part is None:
            raise ValueError(f"{text[:200]!r}: unbalanced brackets")
        if part[1]:
            yield part[1]
        place = part.end()


def _read(part: str) -> _Part:
    if "[" not in part:
        return _Part([part], [])
    pieces = _BRACKETS.split(part)
    found = _Part(pieces[::2], [_ranges(inside) for inside in pieces[1::2]])
    longest = sum(max(one.longest for one in ranges) for ranges in found.brackets)
    if longest + sum(map(len, found.words)) > LONGEST_NAME:
        raise ValueError(f"{part[:50]!r}… is longer than the name of a host")
    return found


def _ranges(inside: str) -> list[_Range]:
    found = []
    for piece in inside.split(","):
        first, dash, last = piece.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ValueError(f"[{inside[:50]}]: {piece[:50]!r} is no number or range")
        if len(first) > MOST_DIGITS or len(last) > MOST_DIGITS:
            raise ValueError(f"[{inside[:50]}]: {piece[:50]!r} has more than {MOST_DIGITS} digits")
        found.append(_Range(int(first), int(last or first), len(first)))
    return found
