"""Turns the text of an expression into its tree.

Called by the compiler. The grammar is CEL's own, with Kubernetes' optional syntax (`a.?b`, `a[?b]`,
`[?a]`, `{?a: b}`); macros are calls here and get their meaning from the compiler.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .errors import CelSyntaxError
from .lexing import Token, error, tokens

_RESERVED = frozenset(
    [
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    ]
)
_RELATIONS = ("==", "!=", "<", "<=", ">", ">=", "in")
LONGEST = 100_000  # code points, as cel-go's
_DEEPEST = 250  # as cel-go's limit on recursion


@dataclass(frozen=True, slots=True)
class Expr:
    """Any node; `at` is where it begins in the text."""

    at: int


@dataclass(frozen=True, slots=True)
class Literal(Expr):
    value: Any


@dataclass(frozen=True, slots=True)
class Ident(Expr):
    name: str


@dataclass(frozen=True, slots=True)
class Select(Expr):
    operand: Expr
    field: str
    optional: bool = False
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Index(Expr):
    operand: Expr
    key: Expr
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Call(Expr):
    """A function, an operator (`_+_`) or, with a target, a method."""

    name: str
    args: tuple[Expr, ...]
    target: Expr | None = None


@dataclass(frozen=True, slots=True)
class ListExpr(Expr):
    items: tuple[tuple[Expr, bool], ...]  # and whether the item is optional


@dataclass(frozen=True, slots=True)
class MapExpr(Expr):
    entries: tuple[tuple[Expr, Expr, bool], ...]


@dataclass(frozen=True, slots=True)
class StructExpr(Expr):
    """A message with named fields: `Object.spec{replicas: 3}`."""

    name: str
    fields: tuple[tuple[str, Expr, bool], ...]


def children(expr: Expr) -> list[Expr]:
    """Return the expressions right below one."""
    match expr:
        case Select(operand=operand):
            return [operand]
        case Index(operand=operand, key=key):
            return [operand, key]
        case Call(args=args, target=target):
            return [*([target] if target is not None else []), *args]
        case ListExpr(items=items):
            return [item for item, _ in items]
        case MapExpr(entries=entries):
            return [one for key, value, _ in entries for one in (key, value)]
        case StructExpr(fields=fields):
            return [value for _, value, _ in fields]
    return []


def qualified(expr: Expr) -> str:
    """Return `a.b.c` of a name that is written so, an empty text of all else."""
    match expr:
        case Ident(name=name):
            return name
        case Select(operand=operand, field=field, optional=False, quoted=False):
            outer = qualified(operand)
            return f"{outer}.{field}" if outer else ""
    return ""


def parse(text: str) -> Expr:
    """Parse the text; CelSyntaxError where it is no expression."""
    if len(text) > LONGEST:
        raise CelSyntaxError(
            f"expression code point size exceeds limit: size: {len(text)}, limit {LONGEST}"
        )
    parser = _Parser(text)
    expr = parser.expression()
    parser.end()
    return expr


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokens(text)
        self._at = 0
        self._depth = 0

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _fail(self, message: str = "") -> CelSyntaxError:
        token = self._next
        return error(
            self._text, token.at, f"Syntax error: {message or f'unexpected {token.value!r}'}"
        )

    def _take(self) -> Token:
        token = self._next
        self._at += 1
        return token

    def _is(self, *words: str) -> bool:
        token = self._next
        return token.kind in ("op", "ident") and token.value in words

    def _accept(self, word: str) -> bool:
        if self._is(word):
            self._at += 1
            return True
        return False

    def _expect(self, word: str) -> None:
        if not self._accept(word):
            raise self._fail(f"mismatched input '{self._next.value}' expecting '{word}'")

    def end(self) -> None:
        if self._next.kind != "end":
            raise self._fail(f"mismatched input '{self._next.value}' expecting <EOF>")

    def expression(self) -> Expr:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self._fail(f"expression recursion limit exceeded: {_DEEPEST}")
        start = self._next.at
        condition = self._binary(("||",), self._and)
        if self._accept("?"):
            yes = self._binary(("||",), self._and)
            self._expect(":")
            condition = Call(start, "_?_:_", (condition, yes, self.expression()))
        self._depth -= 1
        return condition

    def _and(self) -> Expr:
        return self._binary(("&&",), lambda: self._binary(_RELATIONS, self._sum))

    def _sum(self) -> Expr:
        return self._binary(("+", "-"), lambda: self._binary(("*", "/", "%"), self._unary))

    def _binary(self, signs: tuple[str, ...], inner: Any) -> Expr:
        left: Expr = inner()
        while self._is(*signs):
            sign = self._take()
            left = Call(sign.at, f"_{sign.value}_", (left, inner()))
        return left

    def _unary(self) -> Expr:
        signs: list[Token] = []
        while self._is("!", "-"):
            signs.append(self._take())
            if len(signs) > _DEEPEST:
                raise self._fail(f"expression recursion limit exceeded: {_DEEPEST}")
        if signs and signs[-1].value == "-" and type(self._next.value) in (int, float):
            # The sign of a literal is a part of it: only so the least of all integers can be said.
            signs.pop()
            token = self._take()
            expr: Expr = self._member(Literal(token.at, -token.value))
        else:
            expr = self._member(self._primary())
        for sign in reversed(signs):
            expr = Call(sign.at, f"{sign.value}_", (expr,))
        if isinstance(expr, Literal) and expr.value == 2**63 and type(expr.value) is int:
            raise error(self._text, expr.at, "invalid int literal")
        return expr

    def _member(self, expr: Expr) -> Expr:
        while True:
            at = self._next.at
            if self._accept("."):
                expr = self._field(expr, at)
            elif self._accept("["):
                optional = self._accept("?")
                key = self.expression()
                self._expect("]")
                expr = Index(at, expr, key, optional)
            elif self._is("{") and qualified(expr):
                self._take()
                expr = StructExpr(expr.at, qualified(expr), self._fields())
            else:
                return expr

    def _field(self, expr: Expr, at: int) -> Expr:
        optional = self._accept("?")
        token = self._take()
        if token.kind == "quoted":
            return Select(at, expr, token.value, optional, quoted=True)
        if token.kind != "ident":
            self._at -= 1
            raise self._fail(f"no viable alternative at input '.{token.value}'")
        if not optional and self._accept("("):
            return Call(at, token.value, self._arguments(")"), expr)
        return Select(at, expr, token.value, optional)

    def _primary(self) -> Expr:
        token = self._take()
        if token.kind == "value":
            return Literal(token.at, token.value)
        if token.kind == "ident":
            return self._named(token)
        if token.value == "(":
            expr = self.expression()
            self._expect(")")
            return expr
        if token.value == "[":
            return ListExpr(token.at, self._items())
        if token.value == "{":
            return MapExpr(token.at, self._entries())
        if token.value == "." and self._next.kind == "ident":
            return self._named(self._take())
        self._at -= 1
        raise self._fail(f"mismatched input '{token.value}' expecting an expression")

    def _named(self, token: Token) -> Expr:
        constant = {"true": True, "false": False, "null": None}
        if token.value in constant:
            return Literal(token.at, constant[token.value])
        if token.value in _RESERVED or token.value == "in":
            raise error(self._text, token.at, f"reserved identifier: {token.value}")
        if self._accept("("):
            return Call(token.at, token.value, self._arguments(")"))
        return Ident(token.at, token.value)

    def _arguments(self, closing: str) -> tuple[Expr, ...]:
        args: list[Expr] = []
        while not self._accept(closing):
            args.append(self.expression())
            if not self._is(closing):
                self._expect(",")
                if self._is(closing):
                    raise self._fail()
        return tuple(args)

    def _items(self) -> tuple[tuple[Expr, bool], ...]:
        items: list[tuple[Expr, bool]] = []
        while not self._accept("]"):
            optional = self._accept("?")
            items.append((self.expression(), optional))
            if not self._is("]"):
                self._expect(",")
        return tuple(items)

    def _fields(self) -> tuple[tuple[str, Expr, bool], ...]:
        fields: list[tuple[str, Expr, bool]] = []
        while not self._accept("}"):
            optional = self._accept("?")
            token = self._take()
            if token.kind not in ("ident", "quoted"):
                self._at -= 1
                raise self._fail(f"mismatched input '{token.value}' expecting IDENTIFIER")
            self._expect(":")
            fields.append((token.value, self.expression(), optional))
            if not self._is("}"):
                self._expect(",")
        return tuple(fields)

    def _entries(self) -> tuple[tuple[Expr, Expr, bool], ...]:
        entries: list[tuple[Expr, Expr, bool]] = []
        while not self._accept("}"):
            optional = self._accept("?")
            key = self.expression()
            self._expect(":")
            entries.append((key, self.expression(), optional))
            if not self._is("}"):
                self._expect(",")
        return tuple(entries)
