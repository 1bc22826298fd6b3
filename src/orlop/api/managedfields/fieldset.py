"""Sets of fields in FieldsV1 form, and what sets can do.

A set is a nested dict from path elements to sets: an empty one below an element is a member, `.`
marks a member that has members below it. All functions share what they do not change and change
nothing they are given; the root of a set is no member.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .elements import is_element

FieldSet = dict[str, Any]

_SELF = "."


def is_member(node: FieldSet) -> bool:
    """Return whether what this node stands for is in the set itself, not just what is below it."""
    return not node or _SELF in node


def joined(children: FieldSet, *, member: bool) -> FieldSet | None:
    """Make a node of these children, sorted; None where it would stand for nothing."""
    if not children:
        return {} if member else None
    ordered = dict(sorted(children.items())) if len(children) > 1 else children
    return {_SELF: {}, **ordered} if member else ordered


def union(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return all members of both."""
    if one is other or not other:
        return one
    return joined(_union_of_children(one, other), member=False) or {} if one else other


def _union_of_children(one: FieldSet, other: FieldSet) -> FieldSet:
    children = _children(one)
    for element, node in other.items():
        if element != _SELF:
            mine = children.get(element)
            children[element] = node if mine is None else _union(mine, node)
    return children


def _union(one: FieldSet, other: FieldSet) -> FieldSet:
    if one == other:
        return one
    member = is_member(one) or is_member(other)
    return joined(_union_of_children(one, other), member=member) or {}


def difference(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return the members of `one` that are not in `other`; `one` itself where that is all."""
    if not one or not other:
        return one
    children = _difference_of_children(one, other)
    return one if children is None else joined(children, member=False) or {}


def _difference_of_children(one: FieldSet, other: FieldSet) -> FieldSet | None:
    """Return the children that are left; None where nothing was taken."""
    children: FieldSet | None = None
    for element, node in other.items():
        mine = one.get(element) if element != _SELF else None
        if mine is None:
            continue
        left = _difference(mine, node)
        if left is not mine:
            children = _children(one) if children is None else children
            if left is None:
                del children[element]
            else:
                children[element] = left
    return children


def _difference(one: FieldSet, other: FieldSet) -> FieldSet | None:
    was_member = is_member(one)
    member = was_member and not is_member(other)
    children = _difference_of_children(one, other)
    if children is None and member == was_member:
        return one
    return joined(_children(one) if children is None else children, member=member)


def intersection(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return the members of both."""
    return joined(_intersection_of_children(one, other), member=False) or {}


def _intersection_of_children(one: FieldSet, other: FieldSet) -> FieldSet:
    children = {}
    for element, node in other.items():
        mine = one.get(element) if element != _SELF else None
        if mine is not None:
            member = is_member(mine) and is_member(node)
            both = joined(_intersection_of_children(mine, node), member=member)
            if both is not None:
                children[element] = both
    return children


def has(fields: FieldSet, path: tuple[str, ...]) -> bool:
    """Return whether that path is a member."""
    node: FieldSet | None = fields
    for element in path:
        node = node.get(element) if node is not None else None
    return node is not None and is_member(node)


def paths(fields: FieldSet, prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield every member, as the elements that lead to it."""
    if prefix and is_member(fields):
        yield prefix
    for element, node in fields.items():
        if element != _SELF:
            yield from paths(node, (*prefix, element))


def of_paths(members: Iterator[tuple[str, ...]] | list[tuple[str, ...]]) -> FieldSet:
    """Make the set of just these members."""
    fields: FieldSet = {}
    for path in members:
        node: FieldSet = {}
        for element in reversed(path):
            node = {element: node}
        fields = union(fields, node)
    return fields


def is_valid(fields: Any) -> bool:
    """Return whether this is a set at all, as far as a client may write one."""
    if not isinstance(fields, dict):
        return False
    for element, node in fields.items():
        if element == _SELF:
            if node != {}:
                return False
        elif not is_element(element) or not is_valid(node):
            return False
    return True


def _children(node: FieldSet) -> FieldSet:
    return {element: below for element, below in node.items() if element != _SELF}
