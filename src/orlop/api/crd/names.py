"""Checks that the fields that a rule names are in the schema it is written on.

Called when a definition is validated, for each of its rules. It follows what begins with `self` or
`oldSelf` as far as the schema goes and lets everything else be: what it says is wrong could not
have a value. As the type checker of cel-go, for this one mistake, which is the common one.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..cel.compiling import field_names
from ..cel.lexing import error
from ..cel.parsing import Call, Expr, Ident, Index, Select, children, parse
from .structural_schema import Node

_OF_RESOURCE = {"apiVersion": Node({"type": "string"}), "kind": Node({"type": "string"})}
_METADATA = Node(
    {
        "type": "object",
        "properties": {"name": {"type": "string"}, "generateName": {"type": "string"}},
    }
)


def unknown_fields(text: str, node: Node, *, is_root: bool) -> Iterator[str]:
    """Yield what the expression names and the schema does not have, as compilers complain."""
    tree = parse(text)
    if any(isinstance(one, Call) and _binds_self(one) for one in _all(tree)):
        return
    for one in _all(tree):
        if isinstance(one, Select):
            holder = _node(one.operand, node, is_root=is_root)
            if (
                holder is not None
                and _below(holder, one, is_root=is_root and holder is node) is None
            ):
                yield str(error(text, one.at, f"undefined field '{one.field}'"))


def _binds_self(call: Call) -> bool:
    names = [one.name for one in call.args if isinstance(one, Ident)]
    return call.target is not None and bool({"self", "oldSelf"} & set(names[:2]))


def _node(expr: Expr, root: Node, *, is_root: bool) -> Node | None:
    """Return the schema of what an expression leads to, if it is an object of known fields."""
    match expr:
        case Ident(name="self" | "oldSelf"):
            return root if _is_closed(root) else None
        case Select():
            holder = _node(expr.operand, root, is_root=is_root)
            if holder is None:
                return None
            found = _below(holder, expr, is_root=is_root and holder is root)
            return found if found is not None and _is_closed(found) else None
        case Index():
            inner = _list(expr.operand, root, is_root=is_root)
            return inner if inner is not None and _is_closed(inner) else None
    return None


def _list(expr: Expr, root: Node, *, is_root: bool) -> Node | None:
    """Return the schema of the items of what an expression leads to."""
    if not isinstance(expr, Select):
        return root.items if isinstance(expr, Ident) and expr.name in ("self", "oldSelf") else None
    holder = _node(expr.operand, root, is_root=is_root)
    found = _below(holder, expr, is_root=is_root and holder is root) if holder is not None else None
    return (found.items or found.additional) if found is not None else None


def _below(holder: Node, select: Select, *, is_root: bool) -> Node | None:
    names = (select.field,) if select.quoted else field_names(select.field)
    if is_root or holder.embedded:
        if select.field == "metadata":
            return _METADATA
        if select.field in _OF_RESOURCE:
            return _OF_RESOURCE[select.field]
    return next((holder.properties[name] for name in names if name in holder.properties), None)


def _is_closed(node: Node) -> bool:
    return node.type == "object" and not node.preserve and node.additional is None


def _all(expr: Expr) -> Iterator[Expr]:
    yield expr
    for one in children(expr):
        yield from _all(one)
