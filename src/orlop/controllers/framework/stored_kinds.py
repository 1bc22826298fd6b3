"""Chooses the kinds that the controllers of everything look after: each stored object once.

Asked by the garbage collector and the namespace controller. Some kinds are served in two versions
or groups over the same objects; one of them is enough. Events own nothing, are owned by nothing,
and are too many to be followed.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...api.kinds import EVENT, EVENTS_EVENT, STORED, Kind


def stored_once(kinds: Iterable[Kind] = STORED) -> list[Kind]:
    """Return the kinds without second views of the same objects: the first version of each."""
    first: dict[tuple[str, str], Kind] = {}
    for kind in kinds:
        if kind != EVENTS_EVENT and "delete" in kind.verbs:
            first.setdefault((kind.group, kind.plural), kind)
    return list(first.values())


def collectable(kinds: Iterable[Kind] = STORED) -> list[Kind]:
    """Return the kinds whose objects may own or be owned."""
    return [kind for kind in stored_once(kinds) if kind != EVENT]
