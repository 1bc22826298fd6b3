"""Which lines of ours an input reaches, and how many it takes: what tells that one is worth more.

Used by the worker for a sample of all inputs, since it makes them several times slower; from the
others it learns where they were refused, which costs next to nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType, FrameType, TracebackType
from typing import Any

import orlop

_OURS = next(iter(orlop.__path__))


class Tracer:
    def __init__(self) -> None:
        self._lines: set[tuple[CodeType, int]] = set()
        self._places: set[tuple[str, CodeType, int]] = set()
        self._is_ours: dict[CodeType, bool] = {}
        self._most = 0.0  # lines a byte
        self._count = 0
        self._is_new = False

    @property
    def reached(self) -> int:
        return len(self._lines)

    def watch(self, run: Callable[[bytes], object], data: bytes) -> None:
        """Run it under watch; raises what it raises."""
        self._count = 0
        sys.settrace(self._enter)
        try:
            run(data)
        finally:
            sys.settrace(None)

    def _enter(self, frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        is_ours = self._is_ours.get(code)
        if is_ours is None:
            is_ours = self._is_ours[code] = code.co_filename.startswith(_OURS)
        return self._line if is_ours else None

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        self._count += 1
        place = frame.f_code, frame.f_lineno
        if place not in self._lines:
            self._lines.add(place)
            self._is_new = True
        return self._line

    def was_worth(self, data: bytes) -> bool:
        """Whether what was just watched went where none went before, or took more work for it."""
        is_new, self._is_new = self._is_new, False
        work = self._count / (len(data) + 64)
        if work > 1.2 * self._most:
            self._most = work
            return True
        return is_new

    def is_refused_anew(self, error: BaseException) -> bool:
        """Whether it was refused in a way, and at a place, that is new."""
        at = _innermost(error.__traceback__)
        if at is None:
            return False
        place = type(error).__name__, at.tb_frame.f_code, at.tb_lineno
        if place in self._places:
            return False
        self._places.add(place)
        return True


def _innermost(traceback: TracebackType | None) -> TracebackType | None:
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback
