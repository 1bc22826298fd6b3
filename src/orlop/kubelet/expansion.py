"""`$(VAR)` in commands, arguments and variables, as Kubernetes expands it.

Called while a plan is made; the shell is never involved and nothing else is expanded. As
third_party/forked/golang/expansion/expand.go: `$$` is a dollar, an unknown name stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_REFERENCE = re.compile(r"\$(?:\$|\(([^)]*)\))")


def expand(text: str, variables: Mapping[str, str]) -> str:
    """`text` with every reference to a known variable replaced by its value."""

    def value(match: re.Match[str]) -> str:
        name = match[1]
        return "$" if name is None else variables.get(name, match[0])

    closed = _closed(text)
    return _REFERENCE.sub(value, text[:closed]) + text[closed:].replace("$$", "$")


def unknown_names(text: str, variables: Mapping[str, str]) -> list[str]:
    """The names that `text` refers to and nobody has set."""
    names = [match[1] for match in _REFERENCE.finditer(text[: _closed(text)])]
    return [name for name in names if name is not None and name not in variables]


def _closed(text: str) -> int:
    """Where the last reference may end; all that begin behind it would look for an end in vain."""
    return text.rfind(")") + 1
