"""Expands `$(VAR)` in commands, arguments and variables, as Kubernetes does.

Called while a plan is made; no shell is involved. As third_party/forked/golang/expansion/expand.go:
`$$` is a dollar, an unknown name stays as it is. Variables that refer to variables double with each
line of a manifest, so what they may become is bounded before it is made: by what Linux passes on to
a program, and for a pod as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from .refusal import Refusal

LONGEST = 128 << 10  # one argument or variable: MAX_ARG_STRLEN of Linux
MOST = 6 << 20  # all arguments and variables of a program: three quarters of its _STK_LIM
MOST_OF_POD = 32 << 20
_REFERENCE = re.compile(r"\$(?:\$|\(([^)]*)\))")


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace references to known variables by their values; raise Refusal if that is too long."""

    def value(match: re.Match[str]) -> str:
        name = match[1]
        return "$" if name is None else variables.get(name, match[0])

    closed = _closed(text)
    size = len(text)
    for match in _REFERENCE.finditer(text[:closed]):
        size += len(value(match)) - len(match[0])
        if size > max(LONGEST, len(text)):
            words = f"references make more than {LONGEST >> 10} KiB of {text[:50]!r}"
            raise Refusal(f"{words}, and Linux takes no longer argument or variable")
    return _REFERENCE.sub(value, text[:closed]) + text[closed:].replace("$$", "$")


def expand_all(words: Iterable[str], variables: Mapping[str, str]) -> list[str]:
    """Expand the words of one command."""
    room = Room(MOST, "Linux takes no more arguments and variables")
    found = []
    for word in words:
        found.append(expand(word, variables))
        room.take(found[-1])
    return found


class Room:
    """Counts text while it is made, and raises Refusal when it is more than there is room for."""

    def __init__(self, most: int, why: str) -> None:
        self._most = self._left = most
        self._why = why

    def take(self, *texts: str | bytes) -> None:
        self._left -= sum(map(len, texts))
        if self._left < 0:
            raise Refusal(f"it has more than {self._most >> 20} MiB of text: {self._why}")


def unknown_names(text: str, variables: Mapping[str, str]) -> list[str]:
    """Return the names that `text` refers to and that are not set."""
    names = [match[1] for match in _REFERENCE.finditer(text[: _closed(text)])]
    return [name for name in names if name is not None and name not in variables]


def _closed(text: str) -> int:
    """Return where the last reference may end; all that begin behind it would look for an end in
    vain.
    """
    return text.rfind(")") + 1
