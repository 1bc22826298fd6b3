"""Regular expressions of strangers, run in linear time: by RE2, whose dialect is Go's.

Used wherever a client names the expression: patterns of schemas, CEL's matches, find and findAll,
policies of JobSets. A backtracking engine takes an hour for thirty characters, if it is told to.
Our own expressions are the standard library's. Compiled ones are kept here and nowhere else, since
each may take a megabyte once it has run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from time import thread_time

import re2  # type: ignore[import-untyped]

_MEMORY = 1 << 20  # of one expression and what it remembers of its states
_KEPT = 128
# Instructions times bytes: a fifth of a second, where RE2 has to follow all of them at once.
MAX_WORK = 200_000_000
_SECONDS = 0.5  # of CPU, for all matches in one text
_ONE_BYTE = re.compile(r"(?<!\\)(?:\\\\)*\\C")  # RE2 has it, Go has not


class PatternError(ValueError):
    """No expression, or one that would need more memory than it may have."""


class TooMuchWork(ValueError):
    """The expression is too large for so long a text."""


class Pattern:
    """A compiled expression."""

    __slots__ = ("_regexp", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        options = re2.Options()
        options.max_mem = _MEMORY
        options.log_errors = False
        options.never_capture = True
        try:
            if _ONE_BYTE.search(text):
                raise PatternError(r"error parsing regexp: invalid escape sequence: `\C`")
            self._regexp = re2.compile(text, options)
        except re2.error as error:
            raise PatternError(f"error parsing regexp: {_words(error)}") from error
        except UnicodeEncodeError as error:
            raise PatternError("error parsing regexp: invalid UTF-8") from error

    def work(self, text: str) -> int:
        """Return what a search of this text costs at most."""
        return len(text) * int(self._regexp.programsize)

    def matches(self, text: str) -> bool:
        """Return whether it matches somewhere in the text."""
        return next(self._found(text), None) is not None

    def find(self, text: str) -> str | None:
        return next(self._found(text), None)

    def find_all(self, text: str, limit: int | None = None) -> list[str]:
        return list(islice(self._found(text), limit))

    def _found(self, text: str) -> Iterator[str]:
        """Yield all matches, as Go counts them: no empty one right behind another."""
        if self.work(text) > MAX_WORK:
            raise TooMuchWork(
                f"the pattern is too large for a text of {len(text)} characters: "
                "make either of them smaller"
            )
        if not text.isascii():
            text = text.encode(errors="replace").decode()
        until, end = thread_time() + _SECONDS, -1
        for match in self._regexp.finditer(text):
            if match.end() > match.start() or match.start() != end:
                yield match.group()
            end = match.end()
            if thread_time() > until:  # each may have looked at all that is left
                raise TooMuchWork("the pattern takes too long to find all its matches")


@lru_cache(maxsize=_KEPT)
def compiled(text: str) -> Pattern:
    """Compile the pattern; PatternError where it is none."""
    return Pattern(text)


def _words(error: BaseException) -> str:
    told = error.args[0] if error.args else ""
    text = told.decode(errors="replace") if isinstance(told, bytes) else str(told)
    return text if len(text) <= 200 else f"{text[:200]}..."
