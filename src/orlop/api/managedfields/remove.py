"""Takes fields out of an object: those that their applier gave up and no manager claims.

Called by apply after merging. A struct field counts as claimed as long as anything below it is; an
element of a list goes whole once nobody claims the element itself. As structured-merge-diff's
merge/update.go: prune, and typed/remove.go.
"""

from __future__ import annotations

from typing import Any

from .elements import NoKey, list_element
from .fieldset import FieldSet, is_member
from .shapes import DEDUCED, KeyedList, Leaf, Map, SetList, Shape, Struct, child_of, resolved


def given_up(last: FieldSet, claimed: FieldSet, shape: Shape) -> FieldSet:
    """Return the fields of `last` to take out, where `claimed` is what all managers claim now."""
    dropped: FieldSet = {}
    for element, node in last.items():
        if element == ".":
            continue
        child = _child(shape, element)
        held = claimed.get(element)
        is_named = _is_named(shape, element)
        if (is_named or is_member(node)) and not _is_held(held, is_named):
            dropped[element] = {}
        elif node:
            below = given_up(node, held or {}, child)
            if below:
                dropped[element] = below
    return dropped


def _is_held(held: FieldSet | None, is_named: bool) -> bool:
    return held is not None and (is_named or is_member(held))


def _is_named(shape: Shape, element: str) -> bool:
    return isinstance(shape, Struct) and element[:2] == "f:" and element[2:] in shape.fields


def _child(shape: Shape, element: str) -> Shape:
    if isinstance(shape, Struct | Map):
        return child_of(shape, element[2:]) or DEDUCED
    return shape.element if isinstance(shape, KeyedList) else DEDUCED


def remove(value: Any, dropped: FieldSet, shape: Shape) -> Any:
    """Return `value` without these fields; what holds none any more stays, empty."""
    shape = resolved(shape, value)
    if not dropped or isinstance(shape, Leaf):
        return value
    if isinstance(value, dict) and isinstance(shape, Struct | Map):
        return _remove_from_object(value, dropped, shape)
    if isinstance(value, list) and isinstance(shape, KeyedList | SetList):
        return _remove_from_list(value, dropped, shape)
    return value


def _remove_from_object(obj: dict[str, Any], dropped: FieldSet, shape: Struct | Map) -> Any:
    kept = {}
    for name, value in obj.items():
        node = dropped.get(f"f:{name}")
        if node is None:
            kept[name] = value
        elif not is_member(node):
            kept[name] = remove(value, node, child_of(shape, name) or DEDUCED)
    return kept


def _remove_from_list(items: list[Any], dropped: FieldSet, shape: KeyedList | SetList) -> Any:
    kept = []
    for item in items:
        try:
            element = list_element(shape, item)
        except NoKey:
            kept.append(item)
            continue
        node = dropped.get(element)
        if node is None:
            kept.append(item)
        elif not is_member(node) and isinstance(shape, KeyedList):
            kept.append(remove(item, node, shape.element))
    return kept
