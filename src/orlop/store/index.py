"""Finds keys of a bucket by terms, such as `spec.nodeName=n1`, that its objects answer to.

Owned by the bucket, which keeps it up to date once somebody has asked for it; what the terms of an
object are is told by whoever asks first. It keeps keys and terms, not objects.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from ..api.objects import Key
from .record import Record

Terms = Callable[[Record], Iterable[str]]


class Index:
    __slots__ = ("_keys", "_terms", "terms_of")

    def __init__(self, terms_of: Terms, records: Iterable[Record]) -> None:
        self.terms_of = terms_of
        self._keys: dict[str, set[Key]] = {}
        self._terms: dict[Key, tuple[str, ...]] = {}
        for record in records:
            self.put(record)

    def put(self, record: Record) -> None:
        terms = tuple(self.terms_of(record))
        former = self._terms.get(record.key)
        if former == terms:
            return
        self.remove(record.key)
        self._terms[record.key] = terms
        for term in terms:
            self._keys.setdefault(term, set()).add(record.key)

    def remove(self, key: Key) -> None:
        for term in self._terms.pop(key, ()):
            keys = self._keys[term]
            keys.discard(key)
            if not keys:
                del self._keys[term]

    def keys(self, terms: Sequence[str]) -> Collection[Key]:
        """Return where an object that answers to all of these can be: those of the rarest term."""
        return min((self._keys.get(term, set()) for term in terms), key=len)
