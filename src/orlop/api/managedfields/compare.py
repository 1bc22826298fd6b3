"""Finds what a write changed: the fields that are new or different, and those that are gone.

Called for every write, with the object before and after. Subtrees that are equal are skipped by one
comparison in C, so that the cost is that of the change and not of the object. As
structured-merge-diff's typed/compare.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from .elements import NoKey, list_element
from .fieldset import FieldSet, joined
from .shapes import (
    DEDUCED,
    IGNORED,
    KeyedList,
    Leaf,
    Map,
    SetList,
    Shape,
    Struct,
    child_of,
    resolved,
)


class Changes(NamedTuple):
    changed: FieldSet
    removed: FieldSet


def compare(old: dict[str, Any], new: dict[str, Any], shape: Shape) -> Changes:
    """Return the difference between two objects of one shape."""
    changes = _Changes()
    _compare_objects(old, new, resolved(shape, new), changes)
    return Changes(
        joined(changes.changed, member=False) or {}, joined(changes.removed, member=False) or {}
    )


def whole(value: Any, shape: Shape) -> FieldSet:
    """Return all fields of something that was not there before, itself among them."""
    shape = resolved(shape, value)
    children: FieldSet = {}
    if isinstance(value, dict) and isinstance(shape, Struct | Map):
        for name, item in value.items():
            child = child_of(shape, name)
            if child is not None and child is not IGNORED:
                # Most are leaves; to see it here saves the call.
                children[f"f:{name}"] = {} if type(child) is Leaf else whole(item, child)
    elif isinstance(value, list) and isinstance(shape, KeyedList | SetList):
        elements = _indexed(value, shape)
        if elements is not None:
            children = {element: _whole_items(items, shape) for element, items in elements.items()}
    return joined(children, member=True) or {}


class _Changes:
    """Children of one node that are changed or removed, as the walk finds them."""

    __slots__ = ("changed", "removed")

    def __init__(self) -> None:
        self.changed: FieldSet = {}
        self.removed: FieldSet = {}

    def descend(self, element: str, walk: Callable[[_Changes], None]) -> None:
        below = _Changes()
        walk(below)
        changed = joined(below.changed, member=False)
        removed = joined(below.removed, member=False)
        if changed is not None:
            self.changed[element] = changed
        if removed is not None:
            self.removed[element] = removed


def _compare_objects(
    old: dict[str, Any], new: dict[str, Any], shape: Shape, changes: _Changes
) -> None:
    assert isinstance(shape, Struct | Map), "only objects have fields"
    implied: Iterable[str] = shape.implied if isinstance(shape, Struct) else ()
    for name, value in new.items():
        child = child_of(shape, name)
        if child is None or child is IGNORED:
            continue
        if name in old:
            former = old[name]
            if former != value:
                _compare_values(f"f:{name}", former, value, child, changes)
        elif name in implied:
            _compare_values(f"f:{name}", None, value, child, changes)
        else:
            changes.changed[f"f:{name}"] = whole(value, child)
    for name, value in old.items():
        if name in new:
            continue
        child = child_of(shape, name)
        if child is None or child is IGNORED:
            continue
        if name in implied and not isinstance(child, Leaf):
            _compare_values(f"f:{name}", value, None, child, changes)
        else:
            changes.removed[f"f:{name}"] = whole(value, child)


def _compare_values(element: str, old: Any, new: Any, shape: Shape, changes: _Changes) -> None:
    """Compare two values that differ, either of which may be null."""
    if shape is DEDUCED and isinstance(old, dict) != isinstance(new, dict) and old and new:
        changes.changed[element] = whole(new, shape)
        gone = {name: node for name, node in whole(old, shape).items() if name != "."}
        if gone:
            changes.removed[element] = gone
        return
    shape = resolved(shape, old if new is None else new)
    if isinstance(shape, Leaf) or (not old and not new):
        if old or new:
            changes.changed[element] = {}
        return
    if isinstance(shape, Struct | Map):
        if isinstance(old, dict | None) and isinstance(new, dict | None):
            changes.descend(
                element, lambda below: _compare_objects(old or {}, new or {}, shape, below)
            )
            return
    elif _are_lists(old, new) and isinstance(shape, KeyedList | SetList):
        before, after = _indexed(old or [], shape), _indexed(new or [], shape)
        if before is not None and after is not None:
            changes.descend(element, lambda below: _compare_lists(before, after, shape, below))
            return
    changes.changed[element] = {}  # of another type than it should be: replaced whole


def _are_lists(old: Any, new: Any) -> bool:
    return isinstance(old, list | None) and isinstance(new, list | None)


_Indexed = dict[str, list[Any]]


def _indexed(items: list[Any], shape: KeyedList | SetList) -> _Indexed | None:
    """Return the items by their path element, in a list for those that are there twice.

    None if one has no key, so that nothing can be said of single items.
    """
    indexed: _Indexed = {}
    try:
        for item in items:
            indexed.setdefault(list_element(shape, item), []).append(item)
    except NoKey:
        return None
    return indexed


def _compare_lists(before: _Indexed, after: _Indexed, shape: Shape, changes: _Changes) -> None:
    for element, items in after.items():
        former = before.get(element)
        if former is None:
            changes.changed[element] = _whole_items(items, shape)
        elif former != items:
            _compare_items(element, former, items, shape, changes)
    for element, items in before.items():
        if element not in after:
            changes.removed[element] = _whole_items(items, shape)


def _compare_items(
    element: str, old: list[Any], new: list[Any], shape: Shape, changes: _Changes
) -> None:
    """Compare items of one key, which differ; the same key twice makes them one thing."""
    if len(old) == len(new) == 1:
        if isinstance(shape, KeyedList):
            _compare_values(element, old[0], new[0], shape.element, changes)
    elif len(old) > 1 and len(new) > 1:
        changes.changed[element] = {}
    elif len(old) > 1:
        changes.changed[element] = _whole_items(new, shape)
    else:
        changes.removed[element] = _whole_items(old, shape)
        changes.changed[element] = {}


def _whole_items(items: list[Any], shape: Shape) -> FieldSet:
    if len(items) == 1 and isinstance(shape, KeyedList):
        return whole(items[0], shape.element)
    return {}
