"""The shapes of values, as far as managers of fields care: what merges, and by which key.

Made by `builtin` for built-in kinds and by `structural` for custom resources; read by every walk of
this package. A shape is immutable once made, but for structs, which may contain themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True, eq=False)
class Leaf:
    """A scalar, or anything that is replaced whole."""

    canonical: Callable[[Any], Any] | None = None  # brings what clients write into its kept form


@dataclass(frozen=True, slots=True, eq=False)
class Struct:
    """An object of named fields."""

    fields: dict[str, Shape]
    # Present as far as Go is concerned, even where JSON leaves them out: structs that own nothing
    # themselves, scalars whose zero is no change.
    implied: set[str] = field(default_factory=set)
    rest: Shape | None = None  # of fields that have no name here; None allows no others


@dataclass(frozen=True, slots=True, eq=False)
class Map:
    """An object of entries, each with an owner of its own."""

    element: Shape


@dataclass(frozen=True, slots=True, eq=False)
class KeyedList:
    """A list whose elements are told apart by some of their fields."""

    keys: tuple[str, ...]
    element: Shape
    defaults: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class SetList:
    """A list of scalars, none of them twice."""


@dataclass(frozen=True, slots=True, eq=False)
class Deduced:
    """A value of which nothing is known: objects are maps, all else is replaced whole."""


Shape: TypeAlias = Leaf | Struct | Map | KeyedList | SetList | Deduced

LEAF = Leaf()
IGNORED = Leaf()  # has no owner: the server's own, or reset by this endpoint
SET = SetList()
DEDUCED = Deduced()
_DEDUCED_MAP = Map(DEDUCED)


def resolved(shape: Shape, value: Any) -> Shape:
    """Return the shape itself; where nothing is known, that of the value."""
    if shape is DEDUCED:
        return _DEDUCED_MAP if isinstance(value, dict) else LEAF
    return shape


def child_of(shape: Struct | Map, name: str) -> Shape | None:
    """Return the shape of a field or entry; None where the struct has no such field."""
    if isinstance(shape, Struct):
        return shape.fields.get(name, shape.rest)
    return shape.element
