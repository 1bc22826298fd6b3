"""Turns a tree into closures: every expression is compiled once and then called.

Called by whoever has an expression: rules of schemas, policies. Names that nothing declares are
found here; what values an operator or a function takes is seen when it meets them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from . import macros, operators
from .errors import CelError, CelSyntaxError
from .frames import PER_CALL, Eval, Frame, run
from .lexing import error
from .library import COSTS, FUNCTIONS, METHODS, NAMESPACES
from .parsing import (
    Call,
    Expr,
    Ident,
    Index,
    ListExpr,
    Literal,
    MapExpr,
    Select,
    StructExpr,
    parse,
    qualified,
)
from .values import NONE, Lazy, Optional, Type, is_missing, lookup, some

_TYPE_NAMES = {
    name: Type(name)
    for name in ("int", "uint", "double", "string", "bytes", "bool", "list", "map", "null_type",
                 "type", "optional_type")
}  # fmt: skip
# Field names that are no identifiers are written escaped.
_ESCAPES = {"__dot__": ".", "__dash__": "-", "__slash__": "/", "__underscores__": "__"}


class Program:
    """A compiled expression."""

    __slots__ = ("_run", "text", "uses")

    def __init__(self, text: str, run: Eval, uses: frozenset[str]) -> None:
        self.text = text
        self.uses = uses  # the declared variables that it names
        self._run = run

    def __call__(self, variables: Mapping[str, Any], *, limit: int = PER_CALL) -> Any:
        """Return the value; CelError where there is none, CostExceeded where it takes too long."""
        return self.run(Frame(dict(variables), limit))

    def run(self, frame: Frame) -> Any:
        try:
            return run(frame, self._run)
        except (RecursionError, OverflowError) as error:
            raise CelError(str(error)) from error


def compile_expression(
    text: str, variables: Iterable[str] = (), structs: Iterable[str] = ()
) -> Program:
    """Compile an expression that sees these variables; CelSyntaxError where the text is not right.

    `structs` are the messages it may make, as mutations do: with `Object` also `Object.spec` and
    all below.
    """
    try:
        tree = parse(text)
        compiler = Compiler(text, frozenset(variables), frozenset(structs))
        return Program(text, compiler.compile(tree), frozenset(compiler.used))
    except RecursionError:
        raise CelSyntaxError("Syntax error: the expression is nested too deeply") from None


class Compiler:
    def __init__(
        self, text: str, declared: frozenset[str], structs: frozenset[str] = frozenset()
    ) -> None:
        self._text = text
        self._declared = declared
        self._structs = structs
        self._local: list[str] = []
        self.used: set[str] = set()

    def fail(self, expr: Expr, message: str) -> CelSyntaxError:
        return error(self._text, expr.at, message)

    def compile(self, expr: Expr) -> Eval:
        match expr:
            case Literal(value=value):
                return lambda frame: value
            case Ident():
                return self._ident(expr)
            case Select():
                return self._select(expr)
            case Index():
                return self._index(expr)
            case Call():
                return self._call(expr)
            case ListExpr():
                return self._list(expr)
            case MapExpr():
                return self._map(expr)
            case StructExpr():
                return self._struct(expr)
        raise AssertionError(f"an expression of an unknown kind: {expr}")

    def within(self, names: Iterable[str], expr: Expr) -> Eval:
        """Compile where a macro has bound more names."""
        self._local += names
        try:
            return self.compile(expr)
        finally:
            del self._local[len(self._local) - len(list(names)) :]

    def _ident(self, expr: Ident) -> Eval:
        name = expr.name
        if name in self._local or name in self._declared:
            if name not in self._local:
                self.used.add(name)

            def variable(frame: Frame) -> Any:
                frame.spend()
                return frame.variables[name]

            return variable
        if name in _TYPE_NAMES:
            constant = _TYPE_NAMES[name]
            return lambda frame: constant
        raise self.fail(expr, f"undeclared reference to '{name}' (in container '')")

    def _select(self, expr: Select) -> Eval:
        name = qualified(expr)
        if name in ("google.protobuf.Timestamp", "google.protobuf.Duration"):
            constant = Type(name)
            return lambda frame: constant
        operand = self.compile(expr.operand)
        names = (expr.field,) if expr.quoted else field_names(expr.field)
        if expr.optional:
            return lambda frame: _optional_field(operand(frame), names)

        def select(frame: Frame) -> Any:
            frame.spend()
            return _field(operand(frame), names)

        return select

    def _index(self, expr: Index) -> Eval:
        operand, key = self.compile(expr.operand), self.compile(expr.key)
        if expr.optional:
            return lambda frame: _optional_index(operand(frame), key(frame))

        def index(frame: Frame) -> Any:
            frame.spend()
            return operators.index(operand(frame), key(frame))

        return index

    def _list(self, expr: ListExpr) -> Eval:
        items = [(self.compile(item), optional) for item, optional in expr.items]

        def make(frame: Frame) -> Any:
            frame.spend(len(items) + 1)
            out = []
            for item, optional in items:
                value = item(frame)
                if not optional:
                    out.append(value)
                elif isinstance(value, Optional):
                    out += value.held
            return out

        return make

    def _map(self, expr: MapExpr) -> Eval:
        entries = [(self.compile(k), self.compile(v), optional) for k, v, optional in expr.entries]

        def make(frame: Frame) -> Any:
            frame.spend(len(entries) + 1)
            out: dict[Any, Any] = {}
            for key, value, optional in entries:
                name, item = key(frame), value(frame)
                if type(name) not in (str, int, bool) and not isinstance(name, int):
                    raise CelError("unsupported key type")
                if name in out:
                    raise CelError(f"insert failed: key {name} already exists")
                if not optional:
                    out[name] = item
                elif isinstance(item, Optional) and item.has_value:
                    out[name] = item.held[0]
            return out

        return make

    def _struct(self, expr: StructExpr) -> Eval:
        """Make a message: a map that its maker can tell from one, and others cannot."""
        if expr.name.partition(".")[0] not in self._structs:
            raise self.fail(expr, f"undeclared reference to '{expr.name}' (in container '')")
        fields = [
            (field_names(name)[-1], self.compile(value), optional)
            for name, value, optional in expr.fields
        ]

        def make(frame: Frame) -> Any:
            frame.spend(len(fields) + 1)
            out: dict[str, Any] = {}
            for name, value, optional in fields:
                item = value(frame)
                if not optional:
                    out[name] = item
                elif isinstance(item, Optional) and item.has_value:
                    out[name] = item.held[0]
            return out

        return make

    def _call(self, expr: Call) -> Eval:
        macro = macros.find(expr)
        if macro is not None:
            return macro(self, expr)
        if expr.target is not None:
            return self._method(expr, expr.target)
        args = [self.compile(arg) for arg in expr.args]
        lazy = operators.LAZY.get(expr.name)
        if lazy is not None:
            return lazy(*args)
        function = operators.STRICT.get(expr.name) or FUNCTIONS.get(expr.name)
        if function is None:
            raise self.fail(expr, f"undeclared reference to '{expr.name}' (in container '')")
        return _strict(function, args)

    def _method(self, expr: Call, target: Expr) -> Eval:
        args = [self.compile(arg) for arg in expr.args]
        if isinstance(target, Ident) and target.name not in {*self._local, *self._declared}:
            static = NAMESPACES.get(f"{target.name}.{expr.name}")
            if static is not None:
                return _strict(static, args)
        function = METHODS.get(expr.name)
        if function is None:
            raise self.fail(expr, f"undeclared reference to '{expr.name}' (in container '')")
        return _strict(function, [self.compile(target), *args], COSTS.get(expr.name, 1))


def _strict(function: Any, args: list[Eval], cost: int = 1) -> Eval:
    """Make a function of values: all arguments are evaluated first. Most have one or two."""

    def call(frame: Frame) -> Any:
        values = [arg(frame) for arg in args]
        frame.spend(cost + sum(len(one) for one in values if type(one) in (str, bytes, list)) // 10)
        try:
            made = function(*values)
        except (TypeError, AttributeError, KeyError) as error:
            raise CelError("no such overload") from error
        except ValueError as error:  # of a number of thousands of digits, of a text of half a URL
            raise CelError(str(error)) from error
        if type(made) in (str, bytes, list):
            frame.spend(len(made) // 10)
        return made

    return call


def field_names(written: str) -> tuple[str, ...]:
    """Return what a field may be called: as written, and with its escapes resolved."""
    if not written.startswith("__") and "__" not in written:
        return (written,)
    if written.startswith("__") and written.endswith("__") and written[2:-2].isalpha():
        return (written, written[2:-2])
    plain, at = "", 0
    while at < len(written):
        escape = next((one for one in _ESCAPES if written.startswith(one, at)), None)
        plain += _ESCAPES[escape] if escape else written[at]
        at += len(escape) if escape else 1
    return (written, plain)


def _field(value: Any, names: tuple[str, ...]) -> Any:
    if isinstance(value, Optional):
        return _optional_field(value, names)
    value = getattr(value, "cel_fields", value)
    if isinstance(value, Lazy):
        return value.cel_get(names[0])
    if type(value) is not dict:
        raise CelError(f"no such key: {names[0]}" if value is None else "no such overload")
    for name in names:
        if name in value:
            return value[name]
    raise CelError(f"no such key: {names[-1]}")


def has_field(value: Any, names: tuple[str, ...]) -> bool:
    if isinstance(value, Optional):
        return value.has_value and has_field(value.held[0], names)
    if isinstance(value, Lazy):
        return value.cel_has(names[0])
    if type(value) is not dict:
        raise CelError("no such overload")
    return any(name in value for name in names)


def _optional_field(value: Any, names: tuple[str, ...]) -> Optional:
    if isinstance(value, Optional):
        if not value.has_value:
            return NONE
        value = value.held[0]
    if type(value) is not dict:
        raise CelError("no such overload")
    return next((some(value[name]) for name in names if name in value), NONE)


def _optional_index(value: Any, key: Any) -> Optional:
    if isinstance(value, Optional):
        if not value.has_value:
            return NONE
        value = value.held[0]
    if type(value) is dict:
        found = lookup(value, key)
        return NONE if is_missing(found) else some(found)
    if type(value) is list and type(key) is int:
        return some(value[key]) if 0 <= key < len(value) else NONE
    raise CelError("no such overload")


__all__ = ["Compiler", "Program", "compile_expression", "field_names", "has_field"]
