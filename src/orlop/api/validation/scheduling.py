"""The rules for where a pod may run: node selectors, affinity, tolerations, spreading.

Called by pods; the node selector terms also by persistent volumes. As the scheduling half of
pkg/apis/core/validation.
"""

from __future__ import annotations

from .. import names
from ..objects import Obj
from .errors import (
    Errors,
    bad_value,
    bad_values,
    duplicate,
    forbidden,
    not_supported,
    positive,
    required,
)
from .metadata import check_labels
from .selectors import label_selector

TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_NODE_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def placement(field: str, spec: Obj) -> Errors:
    """Check all placement fields of one pod spec."""
    errors: Errors = []
    if spec.get("nodeSelector"):
        errors += check_labels(f"{field}.nodeSelector", spec["nodeSelector"])
    if spec.get("affinity"):
        errors += _affinity(f"{field}.affinity", spec["affinity"])
    for index, toleration in enumerate(spec.get("tolerations") or ()):
        errors += _toleration(f"{field}.tolerations[{index}]", toleration)
    if spec.get("topologySpreadConstraints"):
        errors += _spreading(
            f"{field}.topologySpreadConstraints", spec["topologySpreadConstraints"]
        )
    return errors


def _affinity(field: str, affinity: Obj) -> Errors:
    errors: Errors = []
    node = affinity.get("nodeAffinity") or {}
    if _REQUIRED in node:
        errors += node_selector(f"{field}.nodeAffinity.{_REQUIRED}", node[_REQUIRED])
    for index, term in enumerate(node.get(_PREFERRED) or ()):
        at = f"{field}.nodeAffinity.{_PREFERRED}[{index}]"
        errors += _weight(at, term)
        errors += node_selector_term(f"{at}.preference", term.get("preference") or {})
    for kind in ("podAffinity", "podAntiAffinity"):
        pods = affinity.get(kind) or {}
        for index, term in enumerate(pods.get(_REQUIRED) or ()):
            errors += _pod_term(f"{field}.{kind}.{_REQUIRED}[{index}]", term)
        for index, term in enumerate(pods.get(_PREFERRED) or ()):
            at = f"{field}.{kind}.{_PREFERRED}[{index}]"
            errors += _weight(at, term)
            errors += _pod_term(f"{at}.podAffinityTerm", term.get("podAffinityTerm") or {})
    return errors


def _weight(field: str, term: Obj) -> Errors:
    weight = term.get("weight", 0)
    if 1 <= weight <= 100:
        return []
    return [bad_value(f"{field}.weight", weight, "must be in the range 1-100")]


def node_selector(field: str, selector: Obj) -> Errors:
    terms = selector.get("nodeSelectorTerms")
    if not terms:
        detail = "must have at least one node selector term"
        return [required(f"{field}.nodeSelectorTerms", detail)]
    errors: Errors = []
    for index, term in enumerate(terms):
        errors += node_selector_term(f"{field}.nodeSelectorTerms[{index}]", term)
    return errors


def node_selector_term(field: str, term: Obj) -> Errors:
    errors: Errors = []
    for index, expression in enumerate(term.get("matchExpressions") or ()):
        errors += _node_expression(f"{field}.matchExpressions[{index}]", expression)
    for index, expression in enumerate(term.get("matchFields") or ()):
        at = f"{field}.matchFields[{index}]"
        key = expression.get("key", "")
        if key != "metadata.name":
            detail = "not a valid field selector key"
            errors.append(bad_value(f"{at}.key", key, detail))
        if len(expression.get("values") or ()) != 1:
            detail = (
                "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
            )
            errors.append(required(f"{at}.values", detail))
    return errors


def _node_expression(field: str, expression: Obj) -> Errors:
    operator, values = expression.get("operator", ""), expression.get("values") or ()
    key = expression.get("key", "")
    errors: Errors = []
    if operator in ("In", "NotIn") and not values:
        detail = "must be specified when `operator` is 'In' or 'NotIn'"
        errors.append(required(f"{field}.values", detail))
    elif operator in ("Exists", "DoesNotExist") and values:
        detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        errors.append(forbidden(f"{field}.values", detail))
    elif operator in ("Gt", "Lt") and len(values) != 1:
        detail = "must be specified single value when `operator` is 'Lt' or 'Gt'"
        errors.append(required(f"{field}.values", detail))
    elif operator not in _NODE_OPERATORS:
        errors.append(bad_value(f"{field}.operator", operator, "not a valid selector operator"))
    return errors + bad_values(f"{field}.key", key, names.qualified_name(key))


def _pod_term(field: str, term: Obj) -> Errors:
    errors = label_selector(f"{field}.labelSelector", term.get("labelSelector"))
    errors += label_selector(f"{field}.namespaceSelector", term.get("namespaceSelector"))
    for namespace in term.get("namespaces") or ():
        errors += bad_values(f"{field}.namespace", namespace, names.dns1123_label(namespace))
    key = term.get("topologyKey", "")
    if not key:
        errors.append(required(f"{field}.topologyKey", "can not be empty"))
    else:
        errors += bad_values(f"{field}.topologyKey", key, names.qualified_name(key))
    return errors


def _toleration(field: str, toleration: Obj) -> Errors:
    errors: Errors = []
    key, operator = toleration.get("key", ""), toleration.get("operator", "")
    if key:
        errors += bad_values(f"{field}.key", key, names.qualified_name(key))
    elif operator != "Exists":
        detail = (
            "operator must be Exists when `key` is empty, "
            'which means "match all values and all keys"'
        )
        errors.append(bad_value(f"{field}.operator", operator, detail))
    effect = toleration.get("effect", "")
    if "tolerationSeconds" in toleration and effect != "NoExecute":
        detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        errors.append(bad_value(f"{field}.effect", effect, detail))
    if operator in ("Equal", ""):
        value = toleration.get("value", "")
        errors += bad_values(f"{field}.operator", value, names.label_value(value))
    elif operator == "Exists" and toleration.get("value"):
        detail = "value must be empty when `operator` is 'Exists'"
        errors.append(bad_value(f"{field}.operator", operator, detail))
    elif operator not in ("Equal", "Exists", ""):
        errors.append(not_supported(f"{field}.operator", operator, ("Equal", "Exists")))
    if effect and effect not in TAINT_EFFECTS:
        errors.append(not_supported(f"{field}.effect", effect, TAINT_EFFECTS))
    return errors


def _spreading(field: str, constraints: list[Obj]) -> Errors:
    errors: Errors = []
    seen: set[tuple[str, str]] = set()
    for index, constraint in enumerate(constraints):
        at = f"{field}[{index}]"
        errors += positive(f"{at}.maxSkew", constraint.get("maxSkew", 0))
        key, action = constraint.get("topologyKey", ""), constraint.get("whenUnsatisfiable", "")
        if not key:
            errors.append(required(f"{at}.topologyKey", "can not be empty"))
        else:
            errors += bad_values(f"{at}.topologyKey", key, names.qualified_name(key))
        actions = ("DoNotSchedule", "ScheduleAnyway")
        if action not in actions:
            errors.append(not_supported(f"{at}.whenUnsatisfiable", action, actions))
        if (key, action) in seen:
            errors.append(
                duplicate(f"{at}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}")
            )
        seen.add((key, action))
        errors += label_selector(f"{at}.labelSelector", constraint.get("labelSelector"))
    return errors


def taints(field: str, items: list[Obj]) -> Errors:
    """Check the taints of a node."""
    errors: Errors = []
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(items):
        at = f"{field}[{index}]"
        key, effect = taint.get("key", ""), taint.get("effect", "")
        errors += bad_values(f"{at}.key", key, names.qualified_name(key))
        value = taint.get("value", "")
        errors += bad_values(f"{at}.value", value, names.label_value(value))
        if not effect:
            errors.append(required(f"{at}.effect"))
        elif effect not in TAINT_EFFECTS:
            errors.append(not_supported(f"{at}.effect", effect, TAINT_EFFECTS))
        if (key, effect) in seen:
            errors.append(duplicate(at, taint))
        seen.add((key, effect))
    return errors
