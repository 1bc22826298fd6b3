"""Keeps the objects of one kind as last seen, by key, by namespace and by any index asked for.

Filled by an informer, read by controllers, scheduler and kubelet through it. Objects are shared
by all readers and must not be changed; nothing here speaks to the API server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set

from ..api.objects import Key, Obj, key_of

Objects = list[Obj]
IndexFunction = Callable[[Obj], Iterable[str]]


class _Index:
    """Values to objects, kept by replaying the function on what went and what came."""

    __slots__ = ("_buckets", "_function")

    def __init__(self, function: IndexFunction) -> None:
        self._function = function
        self._buckets: dict[str, dict[Key, Obj]] = {}

    def put(self, key: Key, obj: Obj) -> None:
        for value in self._function(obj):
            self._buckets.setdefault(value, {})[key] = obj

    def drop(self, key: Key, obj: Obj) -> None:
        for value in self._function(obj):
            bucket = self._buckets.get(value)
            if bucket is not None:
                bucket.pop(key, None)
                if not bucket:
                    del self._buckets[value]

    def get(self, value: str) -> Objects:
        return list(self._buckets.get(value, {}).values())

    def count(self, value: str) -> int:
        return len(self._buckets.get(value, {}))


class Cache:
    """Objects by key; every index is up to date after each `put` and `drop`."""

    def __init__(self) -> None:
        self._objects: dict[Key, Obj] = {}
        self._by_namespace = _Index(lambda obj: (key_of(obj).namespace,))
        self._indexes: dict[str, _Index] = {}

    def __len__(self) -> int:
        return len(self._objects)

    def absent_from(self, keys: Set[Key]) -> Iterable[Key]:
        """Return the keys of what is here and not there."""
        return self._objects.keys() - keys

    def get(self, key: Key) -> Obj | None:
        return self._objects.get(key)

    def list(self, namespace: str = "") -> Objects:
        """Return all objects, or those of one namespace."""
        if namespace:
            return self._by_namespace.get(namespace)
        return list(self._objects.values())

    def add_index(self, name: str, function: IndexFunction) -> None:
        """Keep an index under `name`; the same name means the same function everywhere."""
        if name in self._indexes:
            return
        index = self._indexes[name] = _Index(function)
        for key, obj in self._objects.items():
            index.put(key, obj)

    def by_index(self, name: str, value: str) -> Objects:
        return self._indexes[name].get(value)

    def count_by_index(self, name: str, value: str) -> int:
        return self._indexes[name].count(value)

    def put(self, obj: Obj) -> Obj | None:
        """Keep the object as it is now; return what it replaces."""
        key = key_of(obj)
        former = self.drop(key)
        self._objects[key] = obj
        self._by_namespace.put(key, obj)
        for index in self._indexes.values():
            index.put(key, obj)
        return former

    def drop(self, key: Key) -> Obj | None:
        former = self._objects.pop(key, None)
        if former is not None:
            self._by_namespace.drop(key, former)
            for index in self._indexes.values():
                index.drop(key, former)
        return former
