"""The words of an expression: identifiers, literals, operators.

Called by the parser. Strings are unescaped here, numbers are read here; every word knows where it
stood, for messages.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from .errors import CelSyntaxError
from .values import Uint

_TOKEN = re.compile(
    r"""
    (?P<space>[ \t\n\f\r]+|//[^\n]*)
  | (?P<float>(?:\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\.\d+(?:[eE][+-]?\d+)?))
  | (?P<uint>(?:0x[0-9a-fA-F]+|\d+)[uU])
  | (?P<int>0x[0-9a-fA-F]+|\d+)
  | (?P<text>(?:[rR]?[bB]|[bB]?[rR]|)(?:\"\"\"|'''|"|'))
  | (?P<quoted>`[a-zA-Z0-9_.\-/ ]+`)
  | (?P<ident>[_a-zA-Z][_a-zA-Z0-9]*)
  | (?P<op>==|!=|<=|>=|&&|\|\||[-+*/%!<>?:.,()\[\]{}])
    """,
    re.VERBOSE,
)
_ESCAPES = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", "?": "?", '"': '"', "'": "'", "`": "`",
}  # fmt: skip
_LONGEST = 20  # digits of a number of 64 bits; of thousands, `int` reads none
_NUMERIC = re.compile(r"x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2}")


class Token(NamedTuple):
    kind: str  # ident, op, value, end
    value: Any
    at: int


def tokens(text: str) -> list[Token]:
    return [*_tokens(text), Token("end", "<EOF>", len(text))]


def _tokens(text: str) -> Iterator[Token]:
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise error(text, at, f"Syntax error: token recognition error at: '{text[at]}'")
        kind, word, start = match.lastgroup, match[0], at
        at = match.end()
        if kind == "text":
            value, at = _string(text, start, word, at)
            yield Token("value", value, start)
        elif kind in ("ident", "op"):
            yield Token(kind, word, start)
        elif kind == "quoted":
            yield Token("quoted", word[1:-1], start)
        elif kind != "space":
            yield Token("value", _number(text, start, kind, word), start)


def _number(text: str, at: int, kind: str | None, word: str) -> Any:
    if kind == "float":
        return float(word)
    base, digits = (16, word[2:]) if "x" in word else (10, word)
    digits = digits.rstrip("uU").lstrip("0") or "0"
    value = int(digits, base) if len(digits) <= _LONGEST else math.inf
    limit = 2**64 if kind == "uint" else 2**63 + 1  # its sign comes before it
    if value >= limit:
        raise error(text, at, f"invalid {kind} literal")
    return Uint(value) if kind == "uint" else value


def _string(text: str, start: int, opening: str, at: int) -> tuple[Any, int]:
    quote = opening.lstrip("rRbB")
    prefix = opening[: -len(quote)].lower()
    out: list[Any] = []
    while not text.startswith(quote, at):
        if at >= len(text) or (len(quote) == 1 and text[at] == "\n"):
            raise error(text, start, f"Syntax error: token recognition error at: '{text[start:]}'")
        if text[at] == "\\" and "r" not in prefix:
            piece, at = _escape(text, at, is_bytes="b" in prefix)
            out.append(piece)
        elif text[at] == "\\" and at + 1 < len(text):
            out.append(text[at : at + 2])
            at += 2
        else:
            out.append(text[at])
            at += 1
    at += len(quote)
    if "b" not in prefix:
        return "".join(out), at
    return b"".join(one if isinstance(one, bytes) else one.encode() for one in out), at


def _escape(text: str, at: int, *, is_bytes: bool) -> tuple[Any, int]:
    after = text[at + 1 : at + 2]
    if after in _ESCAPES:
        return _ESCAPES[after], at + 2
    match = _NUMERIC.match(text, at + 1)
    if match is None:
        raise error(text, at, f"Syntax error: token recognition error at: '{text[at : at + 2]}'")
    digits = match[0]
    number = int(digits, 8) if digits[0].isdigit() else int(digits[1:], 16)
    end = match.end()
    if is_bytes and digits[0] not in "uU":
        return bytes([number]), end
    if number > 0x10FFFF or 0xD800 <= number < 0xE000:
        raise error(text, at, "invalid unicode code point")
    return chr(number), end


def error(text: str, at: int, message: str) -> CelSyntaxError:
    line = text.count("\n", 0, at) + 1
    column = at - (text.rfind("\n", 0, at) + 1)
    return CelSyntaxError(message, line, column)
