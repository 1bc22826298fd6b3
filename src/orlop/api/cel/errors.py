"""The errors of an expression: its text, its evaluation, or its cost.

Raised by the parser, the compiler and the functions; callers put the texts into their own answers.
"""

from __future__ import annotations


class CelError(Exception):
    """An evaluation that has no value, such as a missing key or types that do not go together."""


class CelSyntaxError(Exception):
    """A text that is no expression, or that names what is not there."""

    def __init__(self, message: str, line: int = 1, column: int = 0) -> None:
        super().__init__(f"ERROR: <input>:{line}:{column + 1}: {message}")


class CostExceeded(Exception):
    """The expression took more steps than it may; it is no CelError: nothing absorbs it."""
