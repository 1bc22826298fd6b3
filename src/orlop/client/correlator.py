"""Decides what becomes of an event: a new one, one more of an old one, or nothing.

Asked by the recorder before each write. As client-go's tools/record/events_cache.go: equal events
are counted, many like ones about one object are combined into one, and an object that causes a
flood of them is cut off. Pure; it reads no clock and writes nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

COMBINED = "(combined from similar events): "
_REMEMBERED = 4096  # objects, and events, that are kept in mind
_ALIKE = 10  # different messages of one reason within _ALIKE_WINDOW before they are combined
_ALIKE_WINDOW = 600.0
_BURST = 25.0  # events about one object at once; then one every 5 minutes
_REFILL = 1 / 300

V = TypeVar("V")


class Source(NamedTuple):
    """The object that an event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    field_path: str


class Happening(NamedTuple):
    """The event that is to be told."""

    about: Source
    type: str
    reason: str
    message: str


@dataclass(slots=True)
class Told:
    """An event that was written: `count` times so far, under `name`."""

    name: str = ""
    count: int = 0
    first: float = 0.0
    message: str = ""


@dataclass(slots=True)
class _Alike:
    since: float
    messages: set[str] = field(default_factory=set)


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


class _Recent(Generic[V]):
    """A dict that forgets what was used longest ago."""

    def __init__(self, size: int = _REMEMBERED) -> None:
        self._values: OrderedDict[Hashable, V] = OrderedDict()
        self._size = size

    def get(self, key: Hashable) -> V | None:
        value = self._values.get(key)
        if value is not None:
            self._values.move_to_end(key)
        return value

    def put(self, key: Hashable, value: V) -> V:
        self._values[key] = value
        if len(self._values) > self._size:
            self._values.popitem(last=False)
        return value


class Correlator:
    """The memory of one component's events."""

    def __init__(self) -> None:
        self._told: _Recent[Told] = _Recent()
        self._alike: _Recent[_Alike] = _Recent()
        self._buckets: _Recent[_Bucket] = _Recent()

    def correlate(self, what: Happening, now: float) -> Told | None:
        """Return the record of this event, with the message to write; None: say nothing.

        The caller writes it (a count of 0 means that it is new) and counts it up.
        """
        key, message = self._combined(what, now)
        if not self._allows(what.about, now):
            return None
        told = self._told.get(key) or self._told.put(key, Told(first=now))
        told.message = message
        return told

    def _combined(self, what: Happening, now: float) -> tuple[Hashable, str]:
        group = (what.about, what.type, what.reason)
        alike = self._alike.get(group)
        if alike is None or now - alike.since > _ALIKE_WINDOW:
            alike = self._alike.put(group, _Alike(now))
        if what.message in alike.messages or len(alike.messages) < _ALIKE:
            alike.messages.add(what.message)
            return what, what.message
        return group, COMBINED + what.message

    def _allows(self, about: Source, now: float) -> bool:
        bucket = self._buckets.get(about) or self._buckets.put(about, _Bucket(_BURST, now))
        bucket.tokens = min(_BURST, bucket.tokens + (now - bucket.at) * _REFILL)
        bucket.at = now
        if bucket.tokens < 1:
            return False
        bucket.tokens -= 1
        return True
