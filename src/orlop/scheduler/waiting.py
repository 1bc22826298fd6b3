"""Keeps pods that fit nowhere, until something happens that may help them.

Kept by the scheduler beside its queue. Each pod names the events that may help it, and an event
looks at just those pods: with thousands of them waiting, an event that helps none costs nothing. It
holds keys, not objects.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..api.objects import Key


class Waiting:
    def __init__(self) -> None:
        self._helps: dict[Key, frozenset[str]] = {}
        self._by_event: dict[str, dict[Key, None]] = {}  # in the order in which they came

    def __contains__(self, key: Key) -> bool:
        return key in self._helps

    def __len__(self) -> int:
        return len(self._helps)

    def park(self, key: Key, helps: Iterable[str]) -> None:
        self.discard(key)
        self._helps[key] = frozenset(helps)
        for event in self._helps[key]:
            self._by_event.setdefault(event, {})[key] = None

    def discard(self, key: Key) -> None:
        for event in self._helps.pop(key, ()):
            self._by_event[event].pop(key, None)

    def helped_by(self, event: str) -> list[Key]:
        """Return those that the event may help; they wait on until they are tried."""
        return list(self._by_event.get(event, ()))
