"""A parser that strangers reach, as the fuzzer sees it: how to run it, and what it may answer.

Made by the functions of `targets`, one for each parser. A target says what its parser may raise for
input that it refuses; whatever else is raised is a fault.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T", bound="Callable[[], Target]")


@dataclass(frozen=True)
class Target:
    run: Callable[[bytes], object]
    seeds: tuple[bytes, ...]
    words: tuple[bytes, ...] = ()  # what has a meaning there, beside what has one everywhere
    refuses: tuple[type[BaseException], ...] = ()
    is_json: bool = False  # seeds are JSON, which is changed as a tree, too
    longest: int = 4096  # bytes of most inputs
    largest: int = 1 << 16  # of the few that repeat something very often


@dataclass(frozen=True)
class Entry:
    """A target by its name, not made yet: some need much to be imported."""

    name: str
    reads: str  # what is fuzzed, for the list in README.md
    strangers: str  # whose bytes these are
    make: Callable[[], Target]
    is_native: bool = False  # compiled with sanitizers, which must be loaded first

    @property
    def module(self) -> str:
        return self.make.__module__


class Registry:
    """The targets of one module."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def find(self, name: str) -> Entry:
        return next(entry for entry in self.entries if entry.name == name)

    def __call__(
        self, name: str, reads: str, strangers: str, *, is_native: bool = False
    ) -> Callable[[T], T]:
        def register(make: T) -> T:
            self.entries.append(Entry(name, reads, strangers, make, is_native))
            return make

        return register


class Unhandled(Exception):
    """A task ended with an error that nobody looked at."""


class Loop:
    """An event loop for one target; what goes wrong beside the call itself is raised by it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(self._note)
        self._noted: list[dict[str, Any]] = []

    def _note(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self._noted.append(context)

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    def run(self, work: Callable[[], Any]) -> Any:
        found = self._loop.run_until_complete(work())
        if self._noted:
            noted, self._noted = self._noted, []
            raise Unhandled(noted[0].get("message")) from noted[0].get("exception")
        return found


def encoded(texts: Iterable[str]) -> tuple[bytes, ...]:
    return tuple(text.encode() for text in texts)
