"""Regular expressions as Go writes them, for Python to run.

Used for the patterns of schemas and by the functions of CEL. RE2 has no look-around and no
back-references; where it writes something differently, it is rewritten here.
"""

from __future__ import annotations

import re

_POSIX = {
    "alpha": "a-zA-Z",
    "digit": "0-9",
    "alnum": "a-zA-Z0-9",
    "lower": "a-z",
    "upper": "A-Z",
    "space": r"\s",
    "word": r"\w",
    "xdigit": "0-9A-Fa-f",
    "punct": r"!-/:-@\[-`{-~",
}
_CLASS = re.compile(r"\[:(\w+):\]")


def compiled(pattern: str) -> re.Pattern[str]:
    """re.error where it is none."""
    text = _CLASS.sub(lambda match: _POSIX.get(match[1], match[0]), pattern)
    return re.compile(_ends(text), re.ASCII)


def _ends(text: str) -> str:
    """`$` and `\\z` are the very end: in Python, `$` also matches before a last newline."""
    out, at, in_class = "", 0, False
    while at < len(text):
        here = text[at]
        if here == "\\":
            pair = text[at : at + 2]
            out += r"\Z" if pair == r"\z" and not in_class else pair
            at += 2
            continue
        if here == "[" and not in_class:
            in_class = True
        elif here == "]" and in_class and text[at - 1] not in "[^":
            in_class = False
        out += r"\Z" if here == "$" and not in_class else here
        at += 1
    return out
