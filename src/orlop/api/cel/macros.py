"""The macros: calls whose arguments are not values but expressions over a name they bind.

Used by the compiler for has, all, exists, exists_one, map and filter, for their forms with two
names, for bind, and for optMap and optFlatMap. Each item of a list costs a step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from .errors import CelError
from .frames import Eval, Frame
from .parsing import Call, Expr, Ident, Select
from .values import NONE, Optional, some

if TYPE_CHECKING:
    from .compiling import Compiler

Macro = Callable[["Compiler", Call], Eval]


def find(expr: Call) -> Macro | None:
    """Return the macro that a call is, by its name and the number of its arguments."""
    if expr.target is None:
        return _has if expr.name == "has" and len(expr.args) == 1 else None
    if expr.name == "bind" and isinstance(expr.target, Ident) and expr.target.name == "cel":
        return _bind
    macro = _METHODS.get((expr.name, len(expr.args)))
    if macro is None or not isinstance(expr.args[0], Ident):
        return None
    if macro is _transform and not isinstance(expr.args[1], Ident):
        return None
    return macro


def _has(compiler: Compiler, expr: Call) -> Eval:
    from .compiling import field_names, has_field

    chosen = expr.args[0]
    if not isinstance(chosen, Select):
        raise compiler.fail(expr, "invalid argument to has() macro")
    operand = compiler.compile(chosen.operand)
    names = (chosen.field,) if chosen.quoted else field_names(chosen.field)

    def run(frame: Frame) -> bool:
        frame.spend()
        return has_field(operand(frame), names)

    return run


class Loop:
    """The items of a list, or the keys of a map, each bound to a name while `body` is run."""

    def __init__(self, compiler: Compiler, expr: Call, *bodies: Expr, names: int = 1) -> None:
        assert expr.target is not None
        self.names = [_name(compiler, one) for one in expr.args[:names]]
        self.range = compiler.compile(expr.target)
        self.bodies = [compiler.within(self.names, body) for body in bodies]

    def run(self, frame: Frame, turn: Callable[[], bool | None]) -> None:
        """Call `turn()` for each item, with the names bound to it; until one returns True."""
        items = self._items(self.range(frame))
        outer = frame.variables
        inner = frame.variables = dict(outer)
        try:
            for values in items:
                frame.spend()
                inner.update(zip(self.names, values, strict=True))
                if turn():
                    return
        finally:
            frame.variables = outer

    def collect(self, frame: Frame, body: Eval, chosen: Eval | None = None) -> list[Any]:
        """Return what `body` makes of each item that is chosen."""
        out: list[Any] = []

        def turn() -> None:
            if chosen is None or _truth(chosen(frame)):
                out.append(body(frame))

        self.run(frame, turn)
        return out

    def _items(self, holder: Any) -> Iterable[tuple[Any, ...]]:
        if type(holder) is list:
            return enumerate(holder) if len(self.names) == 2 else ((one,) for one in holder)
        if type(holder) is dict:
            return list(holder.items()) if len(self.names) == 2 else [(key,) for key in holder]
        raise CelError("no such overload")


def _name(compiler: Compiler, expr: Expr) -> str:
    if not isinstance(expr, Ident):
        raise compiler.fail(expr, "argument must be a simple name")
    return expr.name


def _quantified(*, decides: bool) -> Macro:
    """Make `all` or `exists`.

    all ends at the first false, exists at the first true; an error matters if none comes.
    """

    def macro(compiler: Compiler, expr: Call) -> Eval:
        loop = Loop(compiler, expr, expr.args[-1], names=len(expr.args) - 1)
        body = loop.bodies[0]

        def run(frame: Frame) -> bool:
            failures: list[CelError] = []
            decided: list[bool] = []

            def turn() -> bool:
                try:
                    if _truth(body(frame)) is decides:
                        decided.append(True)
                        return True
                except CelError as error:
                    failures.append(error)
                return False

            loop.run(frame, turn)
            if failures and not decided:
                raise failures[0]
            return decides if decided else not decides

        return run

    return macro


def _exists_one(compiler: Compiler, expr: Call) -> Eval:
    loop = Loop(compiler, expr, expr.args[-1], names=len(expr.args) - 1)
    body = loop.bodies[0]
    return lambda frame: sum(map(_truth, loop.collect(frame, body))) == 1


def _filter(compiler: Compiler, expr: Call) -> Eval:
    loop = Loop(compiler, expr, expr.args[-1])
    body, name = loop.bodies[0], loop.names[0]
    return lambda frame: loop.collect(frame, lambda inner: inner.variables[name], body)


def _map(compiler: Compiler, expr: Call) -> Eval:
    loop = Loop(compiler, expr, *expr.args[1:])
    made, chosen = loop.bodies[-1], loop.bodies[0] if len(loop.bodies) == 2 else None
    return lambda frame: loop.collect(frame, made, chosen)


def _transform(compiler: Compiler, expr: Call) -> Eval:
    """Make transformList or transformMap, with an optional filter between names and result."""
    loop = Loop(compiler, expr, *expr.args[2:], names=2)
    made, chosen = loop.bodies[-1], loop.bodies[0] if len(loop.bodies) == 2 else None
    key = loop.names[0]
    if expr.name == "transformList":
        return lambda frame: loop.collect(frame, made, chosen)

    def pair(frame: Frame) -> tuple[Any, Any]:
        return frame.variables[key], made(frame)

    return lambda frame: dict(loop.collect(frame, pair, chosen))


def _bind(compiler: Compiler, expr: Call) -> Eval:
    if len(expr.args) != 3:
        raise compiler.fail(expr, "cel.bind() takes a name, its value and an expression")
    name = _name(compiler, expr.args[0])
    value, body = compiler.compile(expr.args[1]), compiler.within([name], expr.args[2])
    return lambda frame: _with(frame, name, value(frame), body)


def _with(frame: Frame, name: str, value: Any, body: Eval) -> Any:
    outer = frame.variables
    frame.variables = {**outer, name: value}
    try:
        return body(frame)
    finally:
        frame.variables = outer


def _opt_map(compiler: Compiler, expr: Call) -> Eval:
    assert expr.target is not None
    name, target = _name(compiler, expr.args[0]), compiler.compile(expr.target)
    body, is_flat = compiler.within([name], expr.args[1]), expr.name == "optFlatMap"

    def run(frame: Frame) -> Any:
        held = target(frame)
        if not isinstance(held, Optional):
            raise CelError("no such overload")
        if not held.has_value:
            return NONE
        value = _with(frame, name, held.held[0], body)
        return value if is_flat else some(value)

    return run


def _truth(value: Any) -> bool:
    if type(value) is not bool:
        raise CelError("no such overload")
    return value


_ALL, _EXISTS = _quantified(decides=False), _quantified(decides=True)
_METHODS: dict[tuple[str, int], Macro] = {
    ("all", 2): _ALL,
    ("all", 3): _ALL,
    ("exists", 2): _EXISTS,
    ("exists", 3): _EXISTS,
    ("exists_one", 2): _exists_one,
    ("existsOne", 2): _exists_one,
    ("existsOne", 3): _exists_one,
    ("filter", 2): _filter,
    ("map", 2): _map,
    ("map", 3): _map,
    ("transformList", 3): _transform,
    ("transformList", 4): _transform,
    ("transformMap", 3): _transform,
    ("transformMap", 4): _transform,
    ("optMap", 2): _opt_map,
    ("optFlatMap", 2): _opt_map,
}
