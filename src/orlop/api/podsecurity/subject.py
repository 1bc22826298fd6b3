"""A pod as the checks of pod security look at it: its containers, and who sets what.

Used by the checks. Pure; the words here are those that all checks share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from ..objects import Obj

Found = tuple[str, str]  # the reason and the detail of a refusal
FINE: Found = ("", "")


class Subject(NamedTuple):
    metadata: Obj
    spec: Obj
    minor: int  # of the version of the standard

    @property
    def containers(self) -> list[Obj]:
        names = ("initContainers", "containers", "ephemeralContainers")
        return [one for name in names for one in self.spec.get(name) or ()]

    @property
    def context(self) -> Obj:
        return self.spec.get("securityContext") or {}

    @property
    def is_windows(self) -> bool:
        """Return whether it is a Windows pod, which newer standards let leave some fields out."""
        return self.minor >= 25 and (self.spec.get("os") or {}).get("name") == "windows"

    def those(self, is_bad: Callable[[Obj], Any]) -> list[str]:
        """Return the names of the containers whose security context is bad."""
        contexts = ((one.get("name", ""), one.get("securityContext") or {})
                    for one in self.containers)  # fmt: skip
        return [name for name, context in contexts if is_bad(context)]


def quoted(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def plural(word: str, names: Sequence[Any]) -> str:
    return word if len(names) == 1 else f"{word}s"


def containers(names: Sequence[str]) -> str:
    return f"{plural('container', names)} {quoted(names)}"


def setters(pod_is_bad: bool, bad: Sequence[str]) -> str:
    """Write `pod and containers "a", "b"`; empty where none of them is bad."""
    return " and ".join((["pod"] if pod_is_bad else []) + ([containers(bad)] if bad else []))
