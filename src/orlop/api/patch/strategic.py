"""Strategic merge patch: a merge patch that knows which lists are keyed, and by what.

Called by the patch verb for built-in kinds; kubectl apply, edit, label and scale send these. What
merges with what comes from the schema's merge keys; the directives are `$patch`, `$retainKeys`,
`$setElementOrder/<field>` and `$deleteFromPrimitiveList/<field>`. The order of merged lists is
upstream's: the patch's own, with what the server has woven in by its former place.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Protocol

from ...errors import BadRequest, Invalid
from ..objects import Obj

_PATCH = "$patch"
_RETAIN = "$retainKeys"
_ORDER = "$setElementOrder/"
_DELETE = "$deleteFromPrimitiveList/"
_RETAIN_ERROR = "invalid patch format of retainKeys"


class FieldFacts(Protocol):
    """The facts of how one field merges."""

    @property
    def merge_key(self) -> str: ...

    @property
    def strategies(self) -> tuple[str, ...]: ...

    def struct(self) -> StructFacts | None:
        """Return the type of the value, or of its elements; None for scalars and unknown types."""


class StructFacts(Protocol):
    """The facts of one type, from the schema."""

    def field(self, name: str) -> FieldFacts | None: ...


def apply(target: Obj, patch: Any, struct: StructFacts | None) -> Obj:
    """Return `target` after `patch`; both are consumed. Without facts every list is replaced."""
    if not isinstance(patch, dict):
        raise BadRequest("a strategic merge patch must be a JSON object")
    return _merge_object(target, patch, struct)


def _merge_object(target: Obj, patch: Obj, struct: StructFacts | None) -> Obj:
    directive = patch.pop(_PATCH, None)
    if directive is not None:
        return _by_directive(directive, patch)
    _retain_keys(target, patch)
    _merge_ordered(target, patch, struct)
    for key, value in patch.items():
        facts = struct.field(key.removeprefix(_DELETE)) if struct is not None else None
        if key.startswith(_DELETE):
            _delete_primitives(target, key.removeprefix(_DELETE), value)
        elif value is None:
            target.pop(key, None)
        elif key not in target:
            target[key] = _without_directives(value)
        else:
            target[key] = _merge_value(target[key], value, facts)
    return target


def _by_directive(directive: Any, patch: Obj) -> Obj:
    if directive == "replace":
        return patch
    if directive == "delete":
        return {}
    raise BadRequest(f"unknown patch type {directive!r}: $patch may be replace, delete or merge")


def _merge_value(former: Any, value: Any, facts: FieldFacts | None) -> Any:
    """Merge two values of one field that both are there."""
    strategies = facts.strategies if facts is not None else ()
    inner = facts.struct() if facts is not None else None
    if isinstance(former, dict) and isinstance(value, dict):
        if "replace" in strategies:
            return value
        return _merge_object(former, value, inner)
    if isinstance(former, list) and isinstance(value, list) and "merge" in strategies:
        return _merge_list(former, value, facts.merge_key if facts else "", inner)
    return _without_directives(value)


def _retain_keys(target: Obj, patch: Obj) -> None:
    retained = patch.pop(_RETAIN, None)
    if retained is None:
        return
    if not isinstance(retained, list):
        raise BadRequest(_RETAIN_ERROR)
    kept = {_identity(key, "") for key in retained}
    for key, value in patch.items():
        if value is not None and not key.startswith((_DELETE, _ORDER)) and key not in kept:
            raise BadRequest(_RETAIN_ERROR)
    for key in [key for key in target if key not in kept]:
        del target[key]


def _delete_primitives(target: Obj, key: str, values: Any) -> None:
    if not isinstance(values, list):
        raise BadRequest("invalid patch format of primitive list")
    if isinstance(target.get(key), list):
        gone = {_identity(value, "") for value in values}
        target[key] = [value for value in target[key] if _identity(value, "") not in gone]


def _merge_ordered(target: Obj, patch: Obj, struct: StructFacts | None) -> None:
    """Merge lists whose final order the patch states; they are done here and leave the patch."""
    for directive in [key for key in patch if key.startswith(_ORDER)]:
        order = patch.pop(directive)
        key = directive.removeprefix(_ORDER)
        facts = struct.field(key) if struct is not None else None
        merge_key = facts.merge_key if facts is not None else ""
        changes = patch.pop(key, None)
        former = target.get(key)
        if not isinstance(order, list) or not _is_list_or_absent(changes, former):
            raise BadRequest("invalid patch format of setElementOrder list")
        if former is None and changes is None:
            continue
        before = list(former or [])
        if former is None or changes is None:
            merged = before if changes is None else _without_directives(changes)
        else:
            merged = _merge_value(former, changes, facts)
        target[key] = _ordered(merged, order, before, merge_key)


def _is_list_or_absent(*values: Any) -> bool:
    return all(value is None or isinstance(value, list) for value in values)


def _merge_list(
    former: list[Any], patch: list[Any], merge_key: str, struct: StructFacts | None
) -> list[Any]:
    if any(isinstance(item, list) for item in patch):
        raise Invalid("cannot merge lists of lists")
    if not any(isinstance(item, dict) for item in (*former, *patch)):
        merged = list(dict.fromkeys([*former, *patch]))
        return _ordered(merged, patch, former, "")
    if not merge_key:
        raise Invalid("cannot merge lists without merge key for type map")
    former, patch = _special_elements(former, patch, merge_key)
    before = list(former)
    places = {_key_of(item, merge_key): place for place, item in enumerate(former)}
    for item in patch:
        key = _key_of(item, merge_key)
        if key in places:
            former[places[key]] = _merge_object(former[places[key]], item, struct)
        else:
            places[key] = len(former)
            former.append(_without_directives(item))
    return _ordered(former, patch, before, merge_key)


def _special_elements(
    former: list[Any], patch: list[Any], merge_key: str
) -> tuple[list[Any], list[Any]]:
    """Carry out `{"$patch": "delete", <key>: ...}` and `{"$patch": "replace"}` elements."""
    plain = [item for item in patch if not (isinstance(item, dict) and _PATCH in item)]
    directives = [item for item in patch if isinstance(item, dict) and _PATCH in item]
    deleted = [_key_of(item, merge_key) for item in directives if item[_PATCH] == "delete"]
    for item in directives:
        if item[_PATCH] == "merge":
            raise BadRequest("merging lists cannot yet be specified in the patch")
        if item[_PATCH] not in ("delete", "replace"):
            raise BadRequest(f"unknown patch type {item[_PATCH]!r}: use replace or delete")
    if any(item[_PATCH] == "replace" for item in directives):
        return [_without_directives(item) for item in plain], []
    if deleted:
        gone = {_identity(key, "") for key in deleted}
        former = [item for item in former if _identity(item.get(merge_key), "") not in gone]
    return former, plain


def _key_of(item: Any, merge_key: str) -> Any:
    if not isinstance(item, dict) or merge_key not in item:
        raise Invalid(f"map: {item} does not contain declared merge key: {merge_key}")
    if isinstance(item[merge_key], dict | list):
        raise Invalid(f"map: {item}: its merge key {merge_key} is no plain value")
    return item[merge_key]


def _ordered(merged: list[Any], order: list[Any], before: list[Any], merge_key: str) -> list[Any]:
    """Put the list into the patch's order.

    What the patch names comes in its order; the rest is woven in where it was relative to those.
    """
    wanted = _places(order, merge_key)
    former = _places(before, merge_key)
    named = [item for item in merged if _identity(item, merge_key) in wanted]
    others = [item for item in merged if _identity(item, merge_key) not in wanted]
    named.sort(key=lambda item: wanted[_identity(item, merge_key)])
    others.sort(key=lambda item: former.get(_identity(item, merge_key), len(before)))
    result: list[Any] = []
    left = deque(others)
    for item in named:
        place = former.get(_identity(item, merge_key))
        while place is not None and left:
            if former.get(_identity(left[0], merge_key), len(before)) >= place:
                break
            result.append(left.popleft())
        result.append(item)
    return [*result, *left]


def _places(items: list[Any], merge_key: str) -> dict[Any, int]:
    places: dict[Any, int] = {}
    for place, item in enumerate(items):
        places.setdefault(_identity(item, merge_key), place)
    return places


def _identity(item: Any, merge_key: str) -> Any:
    if merge_key and isinstance(item, dict):
        item = item.get(merge_key)
    return repr(item) if isinstance(item, dict | list) else item


def _without_directives(value: Any) -> Any:
    """Remove nulls and directives from what a patch adds whole: they are no part of an object."""
    if isinstance(value, list):
        return [
            _without_directives(item)
            for item in value
            if not (isinstance(item, dict) and item.get(_PATCH) in ("delete", "replace"))
        ]
    if not isinstance(value, dict):
        return value
    return {
        key: _without_directives(item)
        for key, item in value.items()
        if item is not None
        and key not in (_PATCH, _RETAIN)
        and not key.startswith((_ORDER, _DELETE))
    }
