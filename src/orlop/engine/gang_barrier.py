"""Makes members of gangs wait for each other, until there are enough of them.

Used by engines for pods that must start together. What was asked for is held in this process: a
control plane that is started anew has each pod ask again. Starting them is the engine's part.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..api.gangs import later_of
from ..api.objects import key_of, uid_of
from ..errors import WaitingForGang
from . import Gang, Submission

_DIGITS = re.compile(r"(\d+)")


class Muster:
    def __init__(self) -> None:
        self._waiting: dict[str, dict[str, Submission]] = {}

    def add(self, submission: Submission) -> list[Submission]:
        """Return all members that are there, ordered by name; WaitingForGang if too few."""
        gang = submission.gang
        assert gang is not None, "only members of a gang muster"
        waiting = self._waiting.setdefault(gang.key, {})
        waiting[uid_of(submission.pod)] = submission
        for uid in [uid for uid in waiting if uid not in gang.peers]:
            del waiting[uid]  # deleted meanwhile
        room = first_room(waiting.values())
        first = [one for one in waiting.values() if _gang(one).room == room]
        size = max(_gang(one).size for one in first)
        if len(first) < size:
            raise WaitingForGang(waiting_words(gang.name, len(first), size))
        return sorted(waiting.values(), key=_order)

    def discard(self, submission: Submission) -> None:
        """Let it wait no more."""
        gang = submission.gang
        if gang is None:
            return
        waiting = self._waiting.get(gang.key, {})
        waiting.pop(uid_of(submission.pod), None)
        if not waiting:
            self._waiting.pop(gang.key, None)


def first_room(members: Iterable[Submission]) -> str:
    """Return the `room` of the member that expects most to come later, of those who start first.

    Who could have come later but is there already starts with them, and does not count for others.
    """
    rooms = {_gang(one).room for one in members}
    return max(rooms, key=lambda room: (sum(one.count for one in later_of(room)), room))


def waiting_words(name: str, there: int, size: int) -> str:
    """Return what is told of a gang that is not complete, with the remedy."""
    words = f"{there} of {size} members of gang {name} are there"
    return f"{words}; nothing starts and nothing is held before the others are"


def _gang(submission: Submission) -> Gang:
    assert submission.gang is not None, "only members of a gang muster"
    return submission.gang


def _order(submission: Submission) -> list[object]:
    """Return a key that sorts worker-10 after worker-9."""
    parts = _DIGITS.split(str(key_of(submission.pod)))
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]
