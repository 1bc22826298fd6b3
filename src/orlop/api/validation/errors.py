"""Says what is wrong with a field, in upstream's words and shape.

Made by all validation, read by `invalid` which turns a list of them into the answer a client sees:
`Pod "x" is invalid: spec.containers[0].name: Required value`. The kinds of error are those of
apimachinery/pkg/util/validation/field.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import Invalid
from ..kinds import Kind
from ..objects import Obj

IMMUTABLE = "field is immutable"
_MOST_TOLD = 100  # errors of one object: an answer must not be a hundred times the request
_LONGEST = 10_000  # characters of a value that is shown


@dataclass(frozen=True, slots=True)
class FieldError:
    """One problem of one field."""

    reason: str
    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"

    def cause(self) -> Obj:
        return {"reason": self.reason, "message": self.message, "field": self.field}


Errors = list[FieldError]


def _error(reason: str, title: str, field: str, detail: str) -> FieldError:
    return FieldError(reason, field, f"{title}: {detail}" if detail else title)


def required(field: str, detail: str = "") -> FieldError:
    return _error("FieldValueRequired", "Required value", field, detail)


def bad_value(field: str, value: Any, detail: str) -> FieldError:
    """Make upstream's field.Invalid."""
    return _error("FieldValueInvalid", f"Invalid value: {shown(value)}", field, detail)


def bad_values(field: str, value: Any, details: Iterable[str]) -> Errors:
    return [bad_value(field, value, detail) for detail in details]


def not_supported(field: str, value: Any, supported: Sequence[str]) -> FieldError:
    detail = "supported values: " + ", ".join(f'"{one}"' for one in supported)
    return _error("FieldValueNotSupported", f"Unsupported value: {shown(value)}", field, detail)


def forbidden(field: str, detail: str) -> FieldError:
    return _error("FieldValueForbidden", "Forbidden", field, detail)


def duplicate(field: str, value: Any) -> FieldError:
    return _error("FieldValueDuplicate", f"Duplicate value: {shown(value)}", field, "")


def not_found(field: str, value: Any) -> FieldError:
    return _error("FieldValueNotFound", f"Not found: {shown(value)}", field, "")


def too_long(field: str, limit: int) -> FieldError:
    return _error("FieldValueTooLong", "Too long", field, f"may not be more than {limit} bytes")


def too_many(field: str, count: int, limit: int) -> FieldError:
    detail = f"must have at most {limit} items"
    return _error("FieldValueTooMany", f"Too many: {count}", field, detail)


def shown(value: Any) -> str:
    """Write a value as messages show it: strings quoted, maps of strings as Go writes them."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, dict) and value and all(isinstance(one, str) for one in value.values()):
        pairs = ", ".join(f"{json.dumps(key)}:{json.dumps(value[key])}" for key in sorted(value))
        return clipped(f"map[string]string{{{pairs}}}")
    return clipped(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def clipped(text: str) -> str:
    """Return as much of a value as one message may show."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def non_negative(field: str, value: Any) -> Errors:
    if isinstance(value, int) and value < 0:
        return [bad_value(field, value, "must be greater than or equal to 0")]
    return []


def positive(field: str, value: Any) -> Errors:
    if isinstance(value, int) and value <= 0:
        return [bad_value(field, value, "must be greater than zero")]
    return []


def one_of(field: str, value: Any, supported: Sequence[str]) -> Errors:
    """Check a field that defaulting has filled: anything else, also an empty string, is refused."""
    return [] if value in supported else [not_supported(field, value or "", supported)]


def immutable(field: str, new: Any, old: Any) -> Errors:
    return [] if new == old else [bad_value(field, new, IMMUTABLE)]


def invalid(kind: Kind, name: str, errors: Sequence[FieldError]) -> Invalid:
    """Make the answer to an object with these errors, or the first of them."""
    if len(errors) > _MOST_TOLD:
        left = len(errors) - _MOST_TOLD
        more = FieldError("FieldValueInvalid", "", f"and {left} more errors")
        errors = [*errors[:_MOST_TOLD], more]
    title = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    texts = list(dict.fromkeys(str(error) for error in errors))
    text = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    details: Obj = {"name": name, "group": kind.group, "kind": kind.kind}
    details["causes"] = [error.cause() for error in errors]
    if not kind.group:
        del details["group"]
    return Invalid(f'{title} "{name}" is invalid: {text}', details=details)
