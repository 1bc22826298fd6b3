"""The rules that a schema writes in CEL: x-kubernetes-validations.

Compiled with the schema, checked after its values were found right. A rule that names `oldSelf` is
about a change and holds where an old value can be matched with the new one. All rules of one object
share one budget of steps. As apiextensions' schema/cel/validation.go, in its words.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Any

from ..cel import CelError, CelSyntaxError, CostExceeded, Program, compile_expression
from ..cel.frames import Budget
from ..cel.library.times import parse_timestamp
from ..cel.values import NONE, Duration, some
from ..formats import go_duration
from ..objects import Obj
from ..validation.errors import Errors, FieldError, bad_value, duplicate, forbidden, required
from .names import unknown_fields
from .structural_schema import ABSENT, Node
from .validation import correlated

VARIABLES = ("self", "oldSelf")
_NOWHERE = "<nil>"
_LONGEST_MESSAGE = 5 << 10  # as upstream's MaxEvaluatedMessageExpressionSizeBytes
_LONGEST_PATH = 10_000  # characters, which are written for every value below
_OUT_OF_BUDGET = (
    "validation failed due to running out of cost budget, no further validation rules will be run"
)
_PATH = re.compile(r"\.([^.\[\]]+)|\['([^']*)'\]|\[\"([^\"]*)\"\]|\[(\d+)\]")
_BY_REASON = ("FieldValueForbidden", "FieldValueRequired", "FieldValueDuplicate")


class _OutOfBudget(Exception):
    """No rule may be run any more."""


class ValidationRule:
    """One compiled rule; CelSyntaxError where it is none."""

    __slots__ = ("field_path", "message", "message_program", "optional_old", "program", "reason")

    def __init__(self, rule: Obj) -> None:
        self.program = compile_expression(rule["rule"], VARIABLES)
        self.message: str = (rule.get("message") or "").strip()
        expression = rule.get("messageExpression")
        self.message_program: Program | None = None
        if expression:
            self.message_program = compile_expression(expression, VARIABLES)
        self.reason: str = rule.get("reason") or "FieldValueInvalid"
        self.field_path: str = field_path(rule.get("fieldPath") or "")
        self.optional_old = bool(rule.get("optionalOldSelf"))

    @property
    def is_transition(self) -> bool:
        return "oldSelf" in self.program.uses

    def error(self, path: str, shown: str, text: str) -> FieldError:
        path = f"{path}{self.field_path}" if path else self.field_path.removeprefix(".")
        if self.reason == "FieldValueForbidden":
            return forbidden(path or _NOWHERE, text)
        if self.reason == "FieldValueRequired":
            return required(path or _NOWHERE, text)
        if self.reason == "FieldValueDuplicate":
            return duplicate(path or _NOWHERE, shown)
        return bad_value(path or _NOWHERE, shown, text)


class Rules:
    """All rules of a schema, by the node they are written on."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._rules: dict[int, list[ValidationRule]] = {}
        self._compile(node)

    def _compile(self, node: Node) -> None:
        if node.rules:
            self._rules[id(node)] = [ValidationRule(one) for one in node.rules]
        for below in (*node.properties.values(), node.additional, node.items):
            if below is not None and below.has_rules:
                self._compile(below)

    def check(self, obj: Any, old: Any = ABSENT) -> Errors:
        """Return what the rules have against an object that is replacing `old`."""
        run = _Run(self._rules)
        try:
            run.value(self._node, obj, old, "")
        except _OutOfBudget:
            run.errors.append(bad_value(_NOWHERE, "", _OUT_OF_BUDGET))
        return run.errors


class _Run:
    def __init__(self, rules: dict[int, list[ValidationRule]]) -> None:
        self._rules = rules
        self._left = Budget()
        self.errors: Errors = []

    def value(self, node: Node, value: Any, old: Any, path: str) -> None:
        if value is None or not node.has_rules:
            return
        if self._left.is_spent or len(path) > _LONGEST_PATH:
            raise _OutOfBudget
        if node.rules:
            self._apply(node, value, old, path)
        if type(value) is dict:
            self._object(node, value, old if type(old) is dict else {}, path)
        elif type(value) is list and node.items is not None and node.items.has_rules:
            former = correlated(node, old)
            for index, item in enumerate(value):
                before = former(item) if former is not None else ABSENT
                self.value(node.items, item, before, f"{path}[{index}]")

    def _object(self, node: Node, value: Obj, old: Obj, path: str) -> None:
        for name, item in value.items():
            below = node.properties.get(name)
            if below is not None:
                inner = f"{path}.{name}" if path else name
            elif node.additional is not None:
                below, inner = node.additional, f"{path}[{name}]"
            else:
                continue
            self.value(below, item, old.get(name, ABSENT), inner)

    def _apply(self, node: Node, value: Any, old: Any, path: str) -> None:
        has_old = old is not ABSENT and old is not None
        with self._left.timed():  # each node with rules looks at all that is below it once more
            is_unchanged = has_old and value == old
            variables: dict[str, Any] = {"self": seen_by_cel(node, value)}
            former = seen_by_cel(node, old) if has_old else None
        for rule in self._rules[id(node)]:
            if rule.optional_old:
                variables["oldSelf"] = some(former) if has_old else NONE
            elif rule.is_transition:
                if not has_old:
                    continue
                variables["oldSelf"] = former
            elif is_unchanged:
                continue  # what was accepted once stays accepted while nobody touches it
            self._one(rule, node, variables, path)

    def _one(self, rule: ValidationRule, node: Node, variables: dict[str, Any], path: str) -> None:
        shown = node.type or "string"
        try:
            if self._run(rule.program, variables) is True:
                return
            text = self._message(rule, variables)
        except CostExceeded:
            text = (
                "call cost exceeds limit, no further validation rules will be run due to call cost "
                f"exceeds limit for rule: {rule.program.text}"
            )
            self.errors.append(rule.error(path, shown, text))
            raise _OutOfBudget from None
        except CelError as error:
            text = rule.message or f"{error} evaluating rule: {rule.program.text}"
            self.errors.append(bad_value(path or _NOWHERE, shown, text))
            return
        self.errors.append(rule.error(path, shown, text))

    def _run(self, program: Program, variables: dict[str, Any]) -> Any:
        if self._left.is_spent:
            raise _OutOfBudget
        frame = self._left.frame(variables)
        try:
            return program.run(frame)
        finally:
            self._left.take(frame)

    def _message(self, rule: ValidationRule, variables: dict[str, Any]) -> str:
        """Return what the message's expression says, if that is one line; else its message."""
        if rule.message_program is not None:
            try:
                text = self._run(rule.message_program, variables)
            except (CelError, CostExceeded):
                text = None
            if type(text) is str and is_message(text):
                return text.strip()
        return rule.message or f"failed rule: {rule.program.text}"


def is_message(text: str) -> bool:
    """Return whether a message can be shown: one line that is not too long."""
    return 0 < len(text.strip()) <= _LONGEST_MESSAGE and "\n" not in text.strip()


def seen_by_cel(node: Node, value: Any) -> Any:
    """Return a JSON value as an expression sees it: times as times, numbers as doubles."""
    if not node.cel_view or value is None:
        return value
    match value:
        case bool():
            return value
        case int() if node.type == "number":
            return float(value)
        case float() if node.type == "integer" and value.is_integer():
            return int(value)
        case str() if node.type == "string":
            return _text_seen(node.format, value)
        case dict():
            return {
                name: item if (below := node.below(name)) is None else seen_by_cel(below, item)
                for name, item in value.items()
            }
        case list() if node.items is not None:
            return [seen_by_cel(node.items, item) for item in value]
    return value


def _text_seen(form: str, value: str) -> Any:
    try:
        if form in ("date-time", "datetime"):
            return parse_timestamp(value)
        if form == "date":
            return parse_timestamp(f"{value}T00:00:00Z")
        if form == "byte":
            return base64.b64decode(value, validate=True)
    except (CelError, binascii.Error, ValueError):
        return value
    if form == "duration":
        nanos = go_duration(value)
        return value if nanos is None else Duration(nanos)
    return value


def field_path(text: str) -> str:
    """Parse `.spec['a.b']` as errors write it; ValueError where it is no such path."""
    out, at = "", 0
    while at < len(text):
        match = _PATH.match(text, at)
        if match is None:
            raise ValueError(f"expected [ or . but got: {text[at:]}")
        name, single, double, index = match.groups()
        if index is not None:
            out += f"[{index}]"
        elif name is not None:
            out += f".{name}"
        else:
            out += f"[{single if single is not None else double}]"
        at = match.end()
    return out


def rule_problems(rule: Obj, node: Node, *, is_root: bool) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with a rule as it is written: the field of it, and why."""
    for field in ("rule", "messageExpression"):
        text = rule.get(field) or ""
        if field == "rule" and not text.strip():
            continue
        if field in rule:
            for why in _compile_problems(text, node, is_root=is_root):
                yield field, f"compilation failed: {why}\n | {text}"


def _compile_problems(text: str, node: Node, *, is_root: bool) -> Iterator[str]:
    try:
        compile_expression(text, VARIABLES)
        yield from unknown_fields(text, node, is_root=is_root)
    except CelSyntaxError as error:
        yield str(error)
