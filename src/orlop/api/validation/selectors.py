"""The rules for label selectors inside objects.

Called for every `selector` of a workload, policy or affinity term. As
apimachinery/pkg/apis/meta/v1/validation.
"""

from __future__ import annotations

from .. import names
from ..objects import Obj
from .errors import Errors, bad_value, bad_values, forbidden, required
from .metadata import check_labels

_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


def label_selector(field: str, selector: Obj | None) -> Errors:
    if selector is None:
        return []
    errors = check_labels(f"{field}.matchLabels", selector.get("matchLabels"))
    for index, expression in enumerate(selector.get("matchExpressions") or ()):
        errors += _expression(f"{field}.matchExpressions[{index}]", expression)
    return errors


def _expression(field: str, expression: Obj) -> Errors:
    errors: Errors = []
    operator, values = expression.get("operator"), expression.get("values")
    if operator in ("In", "NotIn") and not values:
        detail = "must be specified when `operator` is 'In' or 'NotIn'"
        errors.append(required(f"{field}.values", detail))
    elif operator in ("Exists", "DoesNotExist") and values:
        detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        errors.append(forbidden(f"{field}.values", detail))
    elif operator not in _OPERATORS:
        detail = "not a valid selector operator"
        errors.append(bad_value(f"{field}.operator", operator or "", detail))
    key = expression.get("key", "")
    errors += bad_values(f"{field}.key", key, names.qualified_name(key))
    for index, value in enumerate(values or ()):
        errors += bad_values(f"{field}.values[{index}]", value, names.label_value(value))
    return errors
