"""Translates what netd's parts in Python and in C have in common to a header of C.

Called by `compiling` when the library is made; nobody writes that header by hand and none is kept.
Layouts and numbers are read from the modules themselves, functions from their source: of Python the
translator knows a small part, in which C means exactly the same, and refuses all else.
This module is not part of the agent.
"""

from __future__ import annotations

import ast
import math
from pathlib import Path
from typing import Any

from .netd import layout
from .netd.tcp import decisions

# Modules whose numbers C has from a header of its own.
HEADERS = {"errno": "errno.h", "sockets.socket_calls": "netinet/tcp.h"}
_TYPES = {"int": "int", "float": "double", "bool": "bool"}
_ARITHMETIC = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}
_COMPARISONS = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}
# Words that are names in Python and none in C.
_RESERVED = frozenset(
    ("auto", "bool", "case", "char", "const", "default", "do", "double", "enum", "extern", "float",
     "goto", "inline", "int", "long", "register", "restrict", "short", "signed", "sizeof", "static",
     "struct", "switch", "typedef", "union", "unsigned", "void", "volatile")
)  # fmt: skip
_SMALL = range(-(1 << 31), 1 << 31)


class Untranslatable(Exception):
    """What C would have to be written by hand for."""


def netd_header() -> str:
    """Return all that netd's C has in common with its Python."""
    parts = [
        "/* Made by agent/c_header.py. */",
        "#include <stdbool.h>\n#include <stddef.h>\n#include <stdint.h>",
        *(constant(name, told) for name, told in layout.constants().items()),
        *(structure(tag, one) for tag, one in layout.STRUCTS.items()),
        offsets("BODY", layout.DATAGRAM),
        translate(Path(decisions.__file__).read_text(), vars(decisions)),
    ]
    return "\n".join(parts)


def constant(name: str, told: float | bytes) -> str:
    if isinstance(told, bytes):
        return f"static const uint8_t {name}[{len(told)}] = {{{', '.join(map(str, told))}}};"
    if isinstance(told, float):
        return f"static const double {name} = {_float(told)};"
    if told in _SMALL:
        return f"enum {{ {name} = {told} }};"
    return f"#define {name} UINT64_C({told})"


def structure(tag: str, one: layout.Layout) -> str:
    """Declare a struct, and have the compiler check that Python packs it so."""
    fields = [f"    {declare.format(name)};" for name, (declare, _) in one.fields.items()]
    checks = [
        f'_Static_assert(offsetof(struct {tag}, {name}) == {one.offset(name)}, "{tag}.{name}");'
        for name in one.fields
    ]
    size = f'_Static_assert(sizeof(struct {tag}) == {one.size}, "{tag}");'
    return "\n".join([f"struct {tag} {{", *fields, "};", *checks, size])


def offsets(prefix: str, one: layout.Layout) -> str:
    """Tell where the fields of something packed begin."""
    found = {f"{name.upper()}_AT": one.offset(name) for name in one.fields} | {"SIZE": one.size}
    return "\n".join(f"enum {{ {prefix}_{name} = {at} }};" for name, at in found.items())


def translate(source: str, values: dict[str, Any]) -> str:
    """Translate a module; `values`: its constants. Raise Untranslatable."""
    return _Module(values).translate(ast.parse(source))


def _float(told: float) -> str:
    if not math.isfinite(told):
        raise Untranslatable(f"{told} is no number of C's")
    return repr(told)


def _refuse(node: ast.AST, words: str) -> Untranslatable:
    line = getattr(node, "lineno", "?")
    return Untranslatable(f"line {line}: {words}: {type(node).__name__}")


class _Module:
    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values
        self.numbers: dict[str, str] = {}  # name -> type
        self.tuples: dict[str, list[str]] = {}  # name -> its members, in C
        self.functions: dict[str, tuple[list[str], str]] = {}  # name -> types, type

    def translate(self, tree: ast.Module) -> str:
        body = tree.body[1:] if ast.get_docstring(tree) is not None else tree.body
        return "\n".join(text for text in map(self._statement, body) if text)

    def _statement(self, node: ast.stmt) -> str:
        if isinstance(node, ast.ImportFrom):
            return self._import(node)
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            targets = node.targets[0]
            names = targets.elts if isinstance(targets, ast.Tuple) else [targets]
            return "\n".join(filter(None, (self._constant(name, node.value) for name in names)))
        if isinstance(node, ast.FunctionDef):
            return self._function(node)
        raise _refuse(node, "a module has imports, constants and functions")

    def _import(self, node: ast.ImportFrom) -> str:
        if node.module == "__future__":
            return ""
        if node.module not in HEADERS:
            raise _refuse(node, f"C does not know {node.module}")
        for alias in node.names:
            if alias.asname or type(self._values[alias.name]) is not int:
                raise _refuse(node, f"{alias.name} is no number by its own name")
            self.numbers[alias.name] = "int"
        return f"#include <{HEADERS[node.module]}>"

    def _constant(self, target: ast.expr, value: ast.expr) -> str:
        if not isinstance(target, ast.Name) or not target.id.isupper():
            raise _refuse(target, "a constant has a name in capitals")
        told = self._values[target.id]
        if type(told) is tuple and isinstance(value, ast.Tuple):
            self.tuples[target.id] = [self.member(one) for one in value.elts]
            return ""
        if type(told) is int and told in _SMALL:
            self.numbers[target.id] = "int"
        elif type(told) is float:
            self.numbers[target.id] = "float"
        else:
            raise _refuse(value, f"{target.id} is no number and no tuple of numbers")
        return constant(target.id, told)

    def member(self, node: ast.expr) -> str:
        """Return a member of a tuple: a whole number, by its name or as it is."""
        if isinstance(node, ast.Name) and self.numbers.get(node.id) == "int":
            return node.id
        if isinstance(node, ast.Constant) and type(node.value) is int and node.value in _SMALL:
            return str(node.value)
        raise _refuse(node, "what is compared with many is a whole number")

    def _function(self, node: ast.FunctionDef) -> str:
        arguments = node.args
        rest = (arguments.vararg, arguments.kwarg, *arguments.kwonlyargs, *arguments.posonlyargs)
        if any(rest) or arguments.defaults or node.decorator_list:
            raise _refuse(node, f"{node.name} has more than plain arguments")
        types = {one.arg: self._type(one.annotation, one) for one in arguments.args}
        for name in (node.name, *types):
            if name in _RESERVED:
                raise _refuse(node, f"{name} is a word of C's")
        result = self._type(node.returns, node)
        body = node.body[1:] if ast.get_docstring(node) is not None else node.body
        lines = _Body(self, types, result).lines(body)
        self.functions[node.name] = list(types.values()), result
        said = ", ".join(f"{_TYPES[kind]} {name}" for name, kind in types.items()) or "void"
        head = f"static inline {_TYPES[result]} {node.name}({said})"
        return "\n".join([head, "{", *lines, "}"])

    def _type(self, node: ast.expr | None, where: ast.AST) -> str:
        if isinstance(node, ast.Name) and node.id in _TYPES:
            return node.id
        raise _refuse(where, "a type is int, float or bool")


class _Body:
    """One function's."""

    def __init__(self, module: _Module, types: dict[str, str], result: str) -> None:
        self._module, self._types, self._result = module, types, result

    def lines(self, body: list[ast.stmt]) -> list[str]:
        """Translate statements of which the last returns."""
        found: list[str] = []
        for node in body:
            found += self._statement(node, is_last=node is body[-1])
        return [f"    {line}" for line in found]

    def _statement(self, node: ast.stmt, is_last: bool) -> list[str]:
        if isinstance(node, ast.Return) and node.value is not None and is_last:
            return [f"return {self._typed(node.value, self._result)};"]
        if isinstance(node, ast.If) and bool(node.orelse) == is_last:
            found = [f"if ({self._typed(node.test, 'bool')}) {{", *self.lines(node.body), "}"]
            return [*found, "else {", *self.lines(node.orelse), "}"] if is_last else found
        raise _refuse(node, "a function is made of `if` and `return`, and returns at its end")

    def _typed(self, node: ast.expr, wanted: str) -> str:
        text, found = self._expression(node)
        if found != wanted:
            raise _refuse(node, f"a {wanted} is wanted, and this is a {found}")
        return text

    def _expression(self, node: ast.expr) -> tuple[str, str]:
        """Return it in C, and its type."""
        if isinstance(node, ast.Constant):
            return self._literal(node)
        if isinstance(node, ast.Name):
            found = self._types.get(node.id) or self._module.numbers.get(node.id)
            if found is None:
                raise _refuse(node, f"{node.id} is not known")
            return node.id, found
        if isinstance(node, ast.BoolOp):
            word = " && " if isinstance(node.op, ast.And) else " || "
            return f"({word.join(self._typed(one, 'bool') for one in node.values)})", "bool"
        if isinstance(node, ast.UnaryOp):
            return self._unary(node)
        if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
            left, right = (self._typed(one, "float") for one in (node.left, node.right))
            return f"({left} {_ARITHMETIC[type(node.op)]} {right})", "float"
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            return self._comparison(node.left, node.ops[0], node.comparators[0]), "bool"
        if isinstance(node, ast.IfExp):
            text, found = self._expression(node.body)
            test, other = self._typed(node.test, "bool"), self._typed(node.orelse, found)
            return f"({test} ? {text} : {other})", found
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
            return self._call(node, node.func.id)
        raise _refuse(node, "this is not known")

    def _literal(self, node: ast.Constant) -> tuple[str, str]:
        told = node.value
        if type(told) is bool:
            return str(told).lower(), "bool"
        if type(told) is float:
            return _float(told), "float"
        if type(told) is int and told in _SMALL:
            return str(told), "int"
        raise _refuse(node, "a value is true, false or a number")

    def _unary(self, node: ast.UnaryOp) -> tuple[str, str]:
        if isinstance(node.op, ast.Not):
            return f"!{self._typed(node.operand, 'bool')}", "bool"
        text, found = self._expression(node.operand)
        # The smallest number of C's has no other sign; none of ours is that.
        is_known = isinstance(node.operand, ast.Constant) or text in self._module.numbers
        if not isinstance(node.op, ast.USub) or found == "bool" or not is_known:
            raise _refuse(node, "only a constant has another sign")
        return f"(-{text})", found

    def _comparison(self, left: ast.expr, word: ast.cmpop, right: ast.expr) -> str:
        if isinstance(word, (ast.In, ast.NotIn)) and isinstance(right, ast.Tuple):
            return self._among(left, word, [self._module.member(one) for one in right.elts])
        if isinstance(word, (ast.In, ast.NotIn)) and isinstance(right, ast.Name):
            if right.id not in self._module.tuples:
                raise _refuse(right, f"{right.id} is no tuple")
            return self._among(left, word, self._module.tuples[right.id])
        text, found = self._expression(left)
        if type(word) not in _COMPARISONS or found == "bool":
            raise _refuse(word, "numbers are compared, of one kind and two at a time")
        return f"({text} {_COMPARISONS[type(word)]} {self._typed(right, found)})"

    def _among(self, left: ast.expr, word: ast.cmpop, members: list[str]) -> str:
        text = self._typed(left, "int")
        found = " || ".join(f"{text} == {member}" for member in members)
        return f"({found})" if isinstance(word, ast.In) else f"(!({found}))"

    def _call(self, node: ast.Call, name: str) -> tuple[str, str]:
        if name in ("min", "max") and len(node.args) == 2:
            one, other = (self._typed(argument, "float") for argument in node.args)
            word = "<" if name == "min" else ">"  # as Python: the first, unless the other is so
            return f"({other} {word} {one} ? {other} : {one})", "float"
        types, result = self._module.functions.get(name, ([], ""))
        if not result or len(types) != len(node.args):
            raise _refuse(node, f"{name} is no function above, or has other arguments")
        given = [self._typed(one, kind) for one, kind in zip(node.args, types)]  # noqa: B905
        return f"{name}({', '.join(given)})", result
