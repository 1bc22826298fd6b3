"""Slurm's hostlists: `n[1-3,7]` to names and back.

Used wherever a command names nodes; pure, so that no `scontrol show hostnames` is started for
each pod. It never looks a name up.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from string import digits

MOST_HOSTS = 65536  # slurm.conf(5): more nodes than this is a typing error
LONGEST_NAME, MOST_DIGITS = 255, 18  # of a name that is made of a range, and of a number in it


def expand(hostlist: str) -> tuple[str, ...]:
    """All names of a hostlist in its own order; `(null)` and `None assigned` name none."""
    text = hostlist.strip()
    if not text or text.lower() in ("(null)", "none", "n/a", "none assigned"):
        return ()
    names: list[str] = []
    for part in _split(text):
        names.extend(_expand_part(part))
        if len(names) > MOST_HOSTS:
            raise ValueError(f"{hostlist[:50]!r} names more than {MOST_HOSTS} hosts")
    return tuple(names)


def compress(names: Iterable[str]) -> str:
    """The shortest way Slurm would write those names, sorted: `n[1-3],login`."""
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


def _split(text: str) -> Iterator[str]:
    """The parts between commas that are outside brackets."""
    depth = start = 0
    for place, char in enumerate(text):
        depth += (char == "[") - (char == "]")
        if depth not in (0, 1):
            raise ValueError(f"{text[:200]!r}: unbalanced brackets")
        if char == "," and depth == 0:
            yield text[start:place]
            start = place + 1
    if depth:
        raise ValueError(f"{text[:200]!r}: unbalanced brackets")
    yield text[start:]


def _expand_part(part: str) -> list[str]:
    """One part; brackets may come more than once, the last runs fastest."""
    if not part or "[" not in part:
        return [part] if part else []
    if len(re.sub(r"\[[^]]*\]", "", part)) > LONGEST_NAME:
        raise ValueError(f"{part[:50]!r}… is longer than the name of a host")
    names, rest = [""], part
    while rest:
        before, bracket, rest = rest.partition("[")
        inside, _, rest = rest.partition("]")
        numbers = list(islice(_numbers(inside), MOST_HOSTS + 1)) if bracket else [""]
        if len(names) * len(numbers) > MOST_HOSTS:
            raise ValueError(f"{part[:50]!r} names more than {MOST_HOSTS} hosts")
        names = [f"{name}{before}{number}" for name in names for number in numbers]
        if names and len(names[0]) > LONGEST_NAME:
            raise ValueError(f"{part[:50]!r}… is longer than the name of a host")
    return names


def _numbers(inside: str) -> Iterator[str]:
    for piece in inside.split(","):
        first, dash, last = piece.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ValueError(f"[{inside[:50]}]: {piece[:50]!r} is no number or range")
        if len(first) > MOST_DIGITS or len(last) > MOST_DIGITS:
            raise ValueError(f"[{inside[:50]}]: {piece[:50]!r} has more than {MOST_DIGITS} digits")
        if not dash:
            yield first
            continue
        if int(last) - int(first) > MOST_HOSTS:
            raise ValueError(f"[{inside[:50]}] names more than {MOST_HOSTS} hosts")
        for number in range(int(first), int(last) + 1):
            yield f"{number:0{len(first)}}"
