"""Label selectors and field selectors: reading them, and matching objects with them.

Used by list and watch, by every controller that selects pods, and by validation. Texts follow
`kubectl -l` and `--field-selector`; what cannot be read raises BadRequest in upstream's words. A
structured selector that is absent selects nothing, an empty one selects everything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from ..errors import BadRequest
from . import names
from .objects import Obj

_TOKEN = re.compile(r"==|!=|[=!(),<>]|[^=!(),<>\s]+")  # of spaces, none is looked at twice
_OPERATORS = ("in", "notin", "=", "==", "!=", "gt", "lt")
_STRUCTURED = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one key; `=` and `==` are kept as `in` with one value."""

    key: str
    operator: str  # in, notin, exists, !, >, <
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "in":
                return value in self.values
            case "notin":
                return value not in self.values
            case "exists":
                return value is not None
            case "!":
                return value is None
        return self._compares(value)

    def _compares(self, value: str | None) -> bool:
        try:
            found, bound = int(value or ""), int(next(iter(self.values)))
        except ValueError:
            return False
        return found > bound if self.operator == ">" else found < bound

    def __str__(self) -> str:
        values = ",".join(sorted(self.values))
        match self.operator:
            case "exists":
                return self.key
            case "!":
                return f"!{self.key}"
            case "in" if len(self.values) == 1:
                return f"{self.key}={values}"
            case "notin" if len(self.values) == 1:
                return f"{self.key}!={values}"
            case "in" | "notin":
                return f"{self.key} {self.operator} ({values})"
        return f"{self.key}{self.operator}{values}"


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """All requirements must hold; `nothing` is the selector of an absent structure."""

    requirements: tuple[Requirement, ...] = ()
    nothing: bool = False
    _equal: dict[str, str] | None = field(default=None, repr=False, compare=False)

    def matches(self, labels: Mapping[str, str]) -> bool:
        if self._equal is not None:  # only key=value: one comparison of sets
            return self._equal.items() <= labels.items()
        return not self.nothing and all(one.matches(labels) for one in self.requirements)

    @property
    def is_empty(self) -> bool:
        """Return whether it selects everything."""
        return not self.requirements and not self.nothing

    def exact(self, key: str) -> str | None:
        """Return the one value this selector demands of a label, for use with an index."""
        for one in self.requirements:
            if one.key == key and one.operator == "in" and len(one.values) == 1:
                return next(iter(one.values))
        return None

    def __str__(self) -> str:
        return ",".join(str(one) for one in self.requirements)


EVERYTHING = LabelSelector()
NOTHING = LabelSelector(nothing=True)


def _selector(requirements: Iterable[Requirement]) -> LabelSelector:
    ordered = tuple(sorted(requirements, key=lambda one: one.key))
    if not ordered:
        return EVERYTHING
    equal: dict[str, str] | None = {}
    for one in ordered:
        if one.operator != "in" or len(one.values) != 1 or equal is None or one.key in equal:
            equal = None
        else:
            equal[one.key] = next(iter(one.values))
    return LabelSelector(ordered, _equal=equal)


def from_labels(labels: Mapping[str, str]) -> LabelSelector:
    """Make the selector of everything that carries all these labels."""
    return _selector(Requirement(key, "in", frozenset((value,))) for key, value in labels.items())


def from_structure(selector: Obj | None) -> LabelSelector:
    """Read a metav1.LabelSelector: `matchLabels` and `matchExpressions`."""
    if selector is None:
        return NOTHING
    requirements = [
        Requirement(key, "in", frozenset((value,)))
        for key, value in (selector.get("matchLabels") or {}).items()
    ]
    for expression in selector.get("matchExpressions") or []:
        operator = _STRUCTURED.get(expression.get("operator", ""))
        if operator is None:
            raise BadRequest(
                f'"{expression.get("operator")}" is not a valid label selector operator'
            )
        values = frozenset(expression.get("values") or ())
        requirements.append(Requirement(expression.get("key", ""), operator, values))
    return _selector(requirements)


def parse_labels(text: str) -> LabelSelector:
    """Parse `a=b,c!=d,e in (f,g),!h`, the form of the labelSelector parameter and `kubectl -l`."""
    if not text:
        return EVERYTHING
    return _selector(_LabelParser(text).parse())


class _LabelParser:
    """A recursive descent over the tokens of one selector."""

    def __init__(self, text: str) -> None:
        self._tokens = _TOKEN.findall(text)
        self._next = 0

    def parse(self) -> list[Requirement]:
        requirements: list[Requirement] = []
        while (token := self._peek()) is not None:
            if token != "!" and not _is_identifier(token):
                raise _bad(f"found '{token}', expected: !, identifier, or 'end of string'")
            requirements.append(self._requirement())
            separator = self._take()
            if separator is None:
                break
            if separator != ",":
                raise _bad(f"found '{separator}', expected: ',' or 'end of string'")
            following = self._peek()
            if following is None or (following != "!" and not _is_identifier(following)):
                raise _bad(f"found '{following or ''}', expected: identifier after ','")
        return requirements

    def _requirement(self) -> Requirement:
        absent = self._peek() == "!"
        if absent:
            self._take()
        key = self._take()
        if key is None or not _is_identifier(key):
            raise _bad(f"unable to parse requirement: found '{key or ''}', expected: identifier")
        _check_key(key)
        if absent:
            return Requirement(key, "!")
        if self._peek() in (None, ","):
            return Requirement(key, "exists")
        return self._binary(key)

    def _binary(self, key: str) -> Requirement:
        operator = self._take() or ""
        if operator in ("in", "notin"):
            values = self._values()
        elif operator in ("=", "==", "!=", "<", ">"):
            values = frozenset((self._value(),))
        else:
            expected = ", ".join(_OPERATORS)
            raise _bad(f"unable to parse requirement: found '{operator}', expected: {expected}")
        if operator in ("<", ">"):
            _check_integers(values)
        for value in values:
            _check_value(key, value)
        name = {"=": "in", "==": "in", "!=": "notin"}.get(operator, operator)
        return Requirement(key, name, values)

    def _value(self) -> str:
        if self._peek() in (None, ","):
            return ""
        value = self._take() or ""
        if not _is_identifier(value):
            raise _bad(f"unable to parse requirement: found '{value}', expected: identifier")
        return value

    def _values(self) -> frozenset[str]:
        opening = self._take()
        if opening != "(":
            raise _bad(f"unable to parse requirement: found '{opening or ''}' expected: '('")
        values: list[str] = []
        current = ""
        while (token := self._take()) != ")":
            if (
                token is None
                or not (token == "," or _is_identifier(token))
                or (current and token != ",")
            ):
                raise _bad(
                    f"unable to parse requirement: found '{token or ''}', expected: ',' or ')'"
                )
            if token == ",":
                values.append(current)
                current = ""
            else:
                current = token
        return frozenset([*values, current])

    def _peek(self) -> str | None:
        return self._tokens[self._next] if self._next < len(self._tokens) else None

    def _take(self) -> str | None:
        token = self._peek()
        self._next += 1
        return token


def _is_identifier(token: str) -> bool:
    return token[0] not in "=!(),<>"


def _bad(message: str) -> BadRequest:
    return BadRequest(message)


def _check_key(key: str) -> None:
    problems = names.qualified_name(key)
    if problems:
        text = "; ".join(problems)
        raise _bad(f'unable to parse requirement: <nil>: Invalid value: "{key}": {text}')


def _check_value(key: str, value: str) -> None:
    problems = names.label_value(value)
    if problems:
        text = "; ".join(problems)
        raise _bad(
            f'unable to parse requirement: values[0][{key}]: Invalid value: "{value}": {text}'
        )


def _check_integers(values: Iterable[str]) -> None:
    for value in values:
        if not re.fullmatch(r"[+-]?[0-9]+", value):
            raise _bad(
                f'unable to parse requirement: values[0]: Invalid value: "{value}": '
                "for 'Gt', 'Lt' operators, the value must be an integer"
            )


Getter = Callable[[Obj], str]


@dataclass(frozen=True, slots=True)
class FieldTerm:
    """`field = value` or `field != value`; a field that is absent has its zero value."""

    name: str
    value: str
    equal: bool
    get: Getter = field(repr=False, compare=False)

    def matches(self, obj: Obj) -> bool:
        return (self.get(obj) == self.value) is self.equal


@dataclass(frozen=True, slots=True)
class FieldSelector:
    terms: tuple[FieldTerm, ...] = ()

    def matches(self, obj: Obj) -> bool:
        return all(term.matches(obj) for term in self.terms)

    @property
    def is_empty(self) -> bool:
        return not self.terms

    def exact(self, name: str) -> str | None:
        """Return the one value this selector demands of a field, for use with an index."""
        return next((term.value for term in self.terms if term.equal and term.name == name), None)

    def __str__(self) -> str:
        signs = {True: "=", False: "!="}
        return ",".join(f"{term.name}{signs[term.equal]}{term.value}" for term in self.terms)


def split_fields(text: str) -> list[tuple[str, bool, str]]:
    """Return each term of a field selector: name, whether it must be equal, and value."""
    terms = []
    for part in re.findall(r"(?:[^,\\]|\\.)+", text):
        match = re.fullmatch(r"([^=!]*)(==|=|!=)((?:[^=!,\\]|\\[\\,=])*)", part)
        if match is None:
            raise _bad(f"invalid selector: '{text}'; can't understand '{part}'")
        name, operator, value = match.groups()
        terms.append((name, operator != "!=", re.sub(r"\\(.)", r"\1", value)))
    return terms
