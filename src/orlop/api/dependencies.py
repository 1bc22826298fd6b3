"""Reads what a job waits for, in sbatch's words: `afterok:17,afterany:job/prepare:pod/seed`.

Used by the kubelet for pods, whose annotation may name objects where sbatch has numbers, and for
what conditions mean. What is there is for others to look at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ..errors import ConfigError
from .kinds import JOB, POD, Kind
from .objects import Obj

CONDITIONS = ("after", "afterany", "afterok", "afternotok", "aftercorr")
_NAMED = ("after", "afterany", "afterok", "afternotok")
_BUILT_IN = (JOB.kind, POD.kind)


@dataclass(frozen=True, slots=True)
class Wait:
    """One part of a list: a number or whatever else is sbatch's own, or an object by its name."""

    condition: str
    number: str = ""
    kind: str = ""
    name: str = ""

    def __str__(self) -> str:
        return f"{self.condition}:{self.number}" if self.number else self.condition


@dataclass(frozen=True, slots=True)
class AwaitedKind:
    """A kind whose objects may be waited for by name, as its extension brings it."""

    kind: Kind
    has_succeeded: Callable[[Obj], bool | None]  # None while an object has not ended
    job_of: Callable[[Obj], str]  # the number of its Slurm job; empty before it has one


_awaited_kinds: tuple[AwaitedKind, ...] = ()


def use_awaited_kinds(found: Iterable[AwaitedKind]) -> None:
    """Set what may be waited for beside Jobs and pods: once, when the process begins."""
    global _awaited_kinds
    _awaited_kinds = tuple(found)


def awaited_kind(kind: str) -> AwaitedKind | None:
    """Return what an extension has brought for a kind; None for Jobs and pods."""
    return next((one for one in _awaited_kinds if one.kind.kind == kind), None)


def names_objects(text: str) -> bool:
    """Return whether anything in it is for us to look up; else all of it is for sbatch."""
    return "/" in text


def parse(text: str, where: str) -> list[Wait]:
    """Return all that it waits for; ConfigError where a name is none that we know."""
    if "?" in text:
        raise ConfigError(f"{where}: {text!r}: one of several (?) is for Slurm's numbers only")
    found: list[Wait] = []
    for part in text.split(","):
        condition, *whom = part.strip().split(":")
        if "/" in condition:
            raise ConfigError(f"{where}: expected afterok:{condition} or the like, found {part!r}")
        found += [_wait(condition, one, where) for one in whom] or [Wait(condition)]
    return found


def _wait(condition: str, whom: str, where: str) -> Wait:
    word, slash, name = whom.partition("/")
    if not slash:
        return Wait(condition, whom)
    kinds = {
        kind.lower(): kind for kind in (*_BUILT_IN, *(one.kind.kind for one in _awaited_kinds))
    }
    kind = kinds.get(word.lower().removesuffix("s"))
    if kind is None or not name:
        *others, last = (f"{one}/<name>" for one in kinds)
        raise ConfigError(f"{where}: expected {', '.join(others)} or {last}, found {whom!r}")
    if condition not in _NAMED:
        expected = f"expected one of {', '.join(_NAMED)} before {whom}"
        raise ConfigError(f"{where}: {expected}, found {condition!r}")
    return Wait(condition, kind=kind, name=name)


def holds(condition: str, has_succeeded: bool) -> bool:
    """Return whether a condition on what has ended is met."""
    if condition == "afternotok":
        return not has_succeeded
    return has_succeeded if condition in ("afterok", "aftercorr") else True
