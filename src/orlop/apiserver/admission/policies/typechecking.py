"""Finds what a policy's expressions name that the kinds it is about do not have.

Called by the status controller. Each expression is followed through the fields of each kind that
the policy's rules name; what is written wrong there is a warning in `status.typeChecking`, not an
error. As apiserver/pkg/admission/plugin/policy/validating/typechecking.go, for fields; the types of
values are seen when an expression is evaluated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ....api.cel import CelSyntaxError
from ....api.cel.compiling import field_names
from ....api.cel.lexing import error
from ....api.cel.parsing import Call, Expr, Ident, Index, Select, children, parse
from ....api.kinds import Kind, Kinds
from ....api.managedfields.builtin import Shapes
from ....api.managedfields.shapes import KeyedList, Leaf, Map, Shape, Struct
from ....api.objects import Obj

_MOST_KINDS = 10  # as upstream's maxTypesToCheck
_LOOPS = ("all", "exists", "exists_one", "existsOne", "filter", "map", "transformList")
Scope = Mapping[str, Any]  # names and their shapes; `variables` has a mapping of its own


def warnings(policy: Obj, served: Kinds, shapes: Shapes) -> list[Obj]:
    """Return the expressionWarnings of a policy."""
    spec = policy.get("spec") or {}
    kinds = list(kinds_of(spec, served))
    if not kinds:
        return []
    found: list[Obj] = []
    for index, validation in enumerate(spec.get("validations") or ()):
        for name in ("expression", "messageExpression"):
            text = validation.get(name)
            told = [line for kind in kinds for line in _of_kind(text, spec, kind, shapes)]
            if text and told:
                field = f"spec.validations[{index}].{name}"
                found.append({"fieldRef": field, "warning": "\n".join(told)})
    return found


def kinds_of(spec: Obj, served: Kinds) -> Iterator[Kind]:
    """Yield the kinds that rules name exactly; what has a `*` is not checked."""
    seen: set[Kind] = set()
    for rule in (spec.get("matchConstraints") or {}).get("resourceRules") or ():
        for group in rule.get("apiGroups") or ():
            for version in rule.get("apiVersions") or ():
                for plural in rule.get("resources") or ():
                    kind = served.by_resource(group, version, plural)
                    if kind is not None and kind not in seen and len(seen) < _MOST_KINDS:
                        seen.add(kind)
                        yield kind


def _of_kind(text: str | None, spec: Obj, kind: Kind, shapes: Shapes) -> Iterator[str]:
    root = shapes.of(kind)
    scope: dict[str, Any] = {"object": root, "oldObject": root, "variables": {}}
    try:
        for one in spec.get("variables") or ():
            scope["variables"][one["name"]] = _shape(parse(one["expression"]), scope)
        tree = parse(text or "")
    except CelSyntaxError:
        return
    for select in _wrong(tree, scope):
        complaint = error(text or "", select.at, f"undefined field '{select.field}'")
        group_version = kind.api_version if "/" in kind.api_version else f"/{kind.api_version}"
        yield f"{group_version}, Kind={kind.kind}: {complaint}"


def _wrong(expr: Expr, scope: Scope) -> Iterator[Select]:
    if isinstance(expr, Select):
        holder = _shape(expr.operand, scope)
        is_known = isinstance(holder, Struct) and holder.rest is None
        if is_known and isinstance(holder, Struct) and not _has(holder, expr):
            yield expr
    inner = scope
    if isinstance(expr, Call) and expr.target is not None and expr.name in _LOOPS:
        yield from _wrong(expr.target, scope)
        inner = {**scope, **dict(_bound(expr, scope))}
        for one in expr.args:
            yield from _wrong(one, inner)
        return
    for one in children(expr):
        yield from _wrong(one, inner)


def _has(holder: Struct, select: Select) -> bool:
    return any(name in holder.fields for name in _names(select))


def _names(select: Select) -> Iterable[str]:
    return (select.field,) if select.quoted else field_names(select.field)


def _bound(call: Call, scope: Scope) -> Iterator[tuple[str, Shape | None]]:
    """Yield the names that a loop binds: the last of them is the item."""
    assert call.target is not None, "a loop has a range"
    shape = _shape(call.target, scope)
    names = [one.name for one in call.args[:-1] if isinstance(one, Ident)]
    for index, name in enumerate(names):
        is_item = index == len(names) - 1
        yield name, shape.element if is_item and isinstance(shape, KeyedList) else None


def _shape(expr: Expr, scope: Scope) -> Shape | None:
    """Return what is known of the value of an expression."""
    match expr:
        case Ident(name=name):
            found = scope.get(name)
            return found if isinstance(found, Struct | KeyedList | Map | Leaf) else None
        case Select(operand=Ident(name="variables"), field=name):
            return dict(scope.get("variables") or {}).get(name)
        case Select(operand=operand):
            holder = _shape(operand, scope)
            if isinstance(holder, Struct):
                found = [holder.fields[n] for n in _names(expr) if n in holder.fields]
                return found[0] if found else None
            return holder.element if isinstance(holder, Map) else None
        case Index(operand=operand):
            holder = _shape(operand, scope)
            return holder.element if isinstance(holder, KeyedList | Map) else None
        case Call(name="filter", target=Expr() as target):
            return _shape(target, scope)
    return None
