"""Slurm's hostlists: `n[1-3,7]` to names and back.

Used wherever a command names nodes; pure, so that no `scontrol show hostnames` is started for
each pod. It never looks a name up.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

MOST_HOSTS = 65536  # slurm.conf(5): more nodes than this is a typing error
_NUMBERED = re.compile(r"(.*?)(\d+)")  # Slurm knows ranges at the end of names only


def expand(hostlist: str) -> tuple[str, ...]:
    """All names of a hostlist in its own order; `(null)` and `None assigned` name none."""
    text = hostlist.strip()
    if not text or text.lower() in ("(null)", "none", "n/a", "none assigned"):
        return ()
    names: list[str] = []
    for part in _split(text):
        names.extend(_expand_part(part))
        if len(names) > MOST_HOSTS:
            raise ValueError(f"{hostlist!r} names more than {MOST_HOSTS} hosts")
    return tuple(names)


def compress(names: Iterable[str]) -> str:
    """The shortest way Slurm would write those names, sorted: `n[1-3],login`."""
    matches = {name: _NUMBERED.fullmatch(name) for name in dict.fromkeys(names)}
    parts = {name: match.groups() for name, match in matches.items() if match is not None}
    # Leading zeros fix a width: n08 and n10 share a range, n8 and n10 do, n08 and n8 do not.
    padded = {
        (prefix, len(digits))
        for prefix, digits in parts.values()
        if digits.startswith("0") and len(digits) > 1
    }
    groups: dict[tuple[str, int], list[int]] = {}
    for prefix, digits in parts.values():
        width = len(digits) if (prefix, len(digits)) in padded else 0
        groups.setdefault((prefix, width), []).append(int(digits))
    ranges = [_group(key, sorted(numbers)) for key, numbers in sorted(groups.items())]
    return ",".join([*ranges, *sorted(name for name, match in matches.items() if match is None)])


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
            raise ValueError(f"{text!r}: unbalanced brackets")
        if char == "," and depth == 0:
            yield text[start:place]
            start = place + 1
    if depth:
        raise ValueError(f"{text!r}: unbalanced brackets")
    yield text[start:]


def _expand_part(part: str) -> list[str]:
    """One part; brackets may come more than once, the last runs fastest."""
    before, bracket, rest = part.partition("[")
    if not bracket:
        return [part] if part else []
    inside, _, after = rest.partition("]")
    tails = _expand_part(after) or [""]
    return [f"{before}{number}{tail}" for number in _numbers(inside) for tail in tails]


def _numbers(inside: str) -> Iterator[str]:
    for piece in inside.split(","):
        first, dash, last = piece.partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            raise ValueError(f"[{inside}]: {piece!r} is no number or range")
        if not dash:
            yield first
            continue
        if int(last) - int(first) > MOST_HOSTS:
            raise ValueError(f"[{inside}] names more than {MOST_HOSTS} hosts")
        for number in range(int(first), int(last) + 1):
            yield f"{number:0{len(first)}}"
