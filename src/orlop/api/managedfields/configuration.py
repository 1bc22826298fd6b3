"""The configuration that a client applies: is it of its kind's shape, and which fields does it own.

Called by apply with what the client sent, before anything is merged. Quantities and times are
brought into the form they are kept in, so that another way to write a value is no change; what a
value means is checked later, as for every write. As structured-merge-diff's typed/validate.go and
typed/tofieldset.go.
"""

from __future__ import annotations

from typing import Any

from .elements import NoKey, list_element, text_of
from .fieldset import FieldSet, joined
from .shapes import IGNORED, LEAF, KeyedList, Leaf, Map, SetList, Shape, Struct, child_of, resolved

_Path = tuple[str, ...]


class NotTyped(ValueError):
    """The configuration does not fit the schema; the message lists all that is wrong."""

    def __init__(self, problems: list[str]) -> None:
        text = problems[0] if len(problems) == 1 else "\n  ".join(["errors:", *problems])
        super().__init__(text)


def fields_of(config: dict[str, Any], shape: Shape) -> FieldSet:
    """Return the fields whose values the configuration states. Values in it become canonical."""
    walk = _Walk()
    found = walk.value(config, shape, ())
    if walk.problems:
        raise NotTyped(walk.problems)
    return found or {}


class _Walk:
    """Each method gives the node of what it walks: None where it owns nothing."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def value(self, value: Any, shape: Shape, path: _Path) -> FieldSet | None:
        shape = resolved(shape, value)
        if isinstance(shape, Leaf):
            return {}
        if value is None:
            return None
        if isinstance(shape, Struct | Map):
            if isinstance(value, dict):
                return self._object(value, shape, path)
            self._refuse(path, f"expected map, got {_name(value)}")
            return None
        assert isinstance(shape, KeyedList | SetList), "what is deduced was resolved"
        if isinstance(value, list):
            return self._list(value, shape, path)
        self._refuse(path, f"expected list, got {_name(value)}")
        return None

    def _object(self, obj: dict[str, Any], shape: Struct | Map, path: _Path) -> FieldSet | None:
        children: FieldSet = {}
        for name, value in obj.items():
            below = (*path, f"f:{name}")
            child = child_of(shape, name)
            if child is None:
                self._refuse(below, "field not declared in schema")
            elif child is not IGNORED:
                obj[name] = value = _canonical(child, value)
                is_entry = isinstance(shape, Map) or name not in shape.fields
                owns_itself = is_entry or value is None or value == {}
                node = _owned(self.value(value, child, below), owns_itself)
                if node is not None:
                    children[below[-1]] = node
        return joined(children, member=False)

    def _list(self, items: list[Any], shape: KeyedList | SetList, path: _Path) -> FieldSet | None:
        children: FieldSet = {}
        for index, item in enumerate(items):
            try:
                element = list_element(shape, item)
            except NoKey as error:
                self._refuse(path, f"element {index}: {error}")
                continue
            if element in children:
                self._refuse(path, f"duplicate entries for key {text_of([element])}")
            inner = shape.element if isinstance(shape, KeyedList) else LEAF
            children[element] = _owned(self.value(item, inner, (*path, element)), True) or {}
        return joined(children, member=False)

    def _refuse(self, path: _Path, why: str) -> None:
        self.problems.append(f"{text_of(path)}: {why}")


def _owned(node: FieldSet | None, owns_itself: bool) -> FieldSet | None:
    """Return the node, with what it stands for made a member of the set."""
    if not owns_itself:
        return node
    return {".": {}, **node} if node else {}


def _canonical(shape: Shape, value: Any) -> Any:
    if isinstance(shape, Leaf) and shape.canonical is not None and value is not None:
        try:
            return shape.canonical(value)
        except (ValueError, TypeError):
            return value  # decoding will say what is wrong with it
    return value


def _name(value: Any) -> str:
    match value:
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "list"
    return "map"
