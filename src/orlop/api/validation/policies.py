"""The rules for admission policies and their bindings.

Called by the dispatch. As pkg/apis/admissionregistration/validation/validation.go: expressions must
compile; whether their fields are there is said in a policy's status, as it is no error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from .. import names
from ..cel import CelSyntaxError
from ..cel.compiling import compile_expression
from ..cel.lexing import error
from ..cel.parsing import Expr, Ident, Select, children, parse
from ..objects import Obj
from .errors import (
    Errors,
    bad_value,
    bad_values,
    duplicate,
    forbidden,
    not_supported,
    required,
)
from .selectors import label_selector
from .webhooks import REQUEST_VARIABLES, conditions, rule_errors

_ACTIONS = ("Audit", "Deny", "Warn")
_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BOTH = (
    "must not contain both Deny and Warn (repeating the same validation failure information in "
    "the API response and headers serves no purpose)"
)


def validating(obj: Obj) -> Errors:
    spec = obj.get("spec") or {}
    errors, variables = _policy(spec)
    validations, annotations = spec.get("validations") or (), spec.get("auditAnnotations") or ()
    if not validations and not annotations:
        why = "validations or auditAnnotations must contain at least one item"
        errors.append(required("spec.validations", why))
    for index, validation in enumerate(validations):
        field = f"spec.validations[{index}]"
        errors += _expression(f"{field}.expression", validation.get("expression"), variables)
        if validation.get("messageExpression"):
            text = validation["messageExpression"]
            errors += _expression(f"{field}.messageExpression", text, variables)
        if validation.get("reason") not in (None, *_REASONS):
            errors.append(not_supported(f"{field}.reason", validation["reason"], _REASONS))
        if "\n" in (validation.get("message") or "").strip():
            why = "message must not contain line breaks"
            errors.append(bad_value(f"{field}.message", validation["message"], why))
    seen: set[str] = set()
    for index, annotation in enumerate(annotations):
        field, key = f"spec.auditAnnotations[{index}]", annotation.get("key") or ""
        if not key:
            errors.append(required(f"{field}.key", ""))
        errors += bad_values(f"{field}.key", key, names.qualified_name(key) if key else ())
        errors += [duplicate(f"{field}.key", key)] if key in seen else []
        seen.add(key)
        text = annotation.get("valueExpression")
        errors += _expression(f"{field}.valueExpression", text, variables)
    return errors


def mutating(obj: Obj) -> Errors:
    spec = obj.get("spec") or {}
    errors, variables = _policy(spec)
    if not spec.get("mutations"):
        errors.append(required("spec.mutations", "mutations must contain at least one item"))
    for index, mutation in enumerate(spec.get("mutations") or ()):
        field, kind = f"spec.mutations[{index}]", mutation.get("patchType") or ""
        by_type = {"ApplyConfiguration": "applyConfiguration", "JSONPatch": "jsonPatch"}
        if kind not in by_type:
            errors.append(not_supported(f"{field}.patchType", kind, list(by_type)))
            continue
        for other, name in by_type.items():
            if other != kind and mutation.get(name) is not None:
                why = f"must not be specified when patchType is {kind}"
                errors.append(forbidden(f"{field}.{name}", why))
        inner = f"{field}.{by_type[kind]}"
        text = (mutation.get(by_type[kind]) or {}).get("expression")
        errors += _expression(f"{inner}.expression", text, variables, ("Object", "JSONPatch"))
    if spec.get("reinvocationPolicy") not in ("Never", "IfNeeded"):
        policy = spec.get("reinvocationPolicy")
        errors.append(not_supported("spec.reinvocationPolicy", policy, ["IfNeeded", "Never"]))
    return errors


def _policy(spec: Obj) -> tuple[Errors, tuple[Sequence[str], frozenset[str]]]:
    """Check what both kinds have; return also the names that their expressions may use."""
    errors: Errors = []
    if spec.get("failurePolicy") not in ("Fail", "Ignore"):
        policy = spec.get("failurePolicy")
        errors.append(not_supported("spec.failurePolicy", policy, ["Fail", "Ignore"]))
    kind = spec.get("paramKind")
    if kind is not None:
        for name in ("apiVersion", "kind"):
            if not kind.get(name):
                errors.append(required(f"spec.paramKind.{name}", ""))
    constraints = spec.get("matchConstraints")
    if constraints is None:
        errors.append(required("spec.matchConstraints", ""))
    else:
        errors += _resources("spec.matchConstraints", constraints)
        if not constraints.get("resourceRules"):
            errors.append(required("spec.matchConstraints.resourceRules", ""))
    declared = [*REQUEST_VARIABLES, "namespaceObject", "variables"]
    declared += ["params"] if kind is not None else []
    known: set[str] = set()
    for index, variable in enumerate(spec.get("variables") or ()):
        field, name = f"spec.variables[{index}]", variable.get("name") or ""
        if not name:
            errors.append(required(f"{field}.name", "name is not specified"))
        elif not _IDENTIFIER.fullmatch(name):
            errors.append(bad_value(f"{field}.name", name, "name is not a valid CEL identifier"))
        errors += [duplicate(f"{field}.name", name)] if name in known else []
        usable = (declared, frozenset(known))  # those before it
        errors += _expression(f"{field}.expression", variable.get("expression"), usable)
        known.add(name)
    each = spec.get("matchConditions") or ()
    errors += conditions("spec.matchConditions", each, declared)
    return errors, (declared, frozenset(known))


def _expression(
    field: str,
    text: str | None,
    usable: tuple[Sequence[str], frozenset[str]],
    structs: Sequence[str] = (),
) -> Errors:
    if not (text or "").strip():
        return [required(field, "expression is not specified")]
    assert text is not None, "an empty one was refused"
    try:
        compile_expression(text, usable[0], structs)
        for unknown in _unknown(parse(text), usable[1]):
            raise error(text, unknown.at, f"undefined field '{unknown.field}'")
    except CelSyntaxError as problem:
        return [bad_value(field, text, f"compilation failed: {problem}")]
    return []


def _unknown(expr: Expr, known: frozenset[str]) -> Iterator[Select]:
    """Yield the uses of variables that the policy does not have, or not yet."""
    match expr:
        case Select(operand=Ident(name="variables"), field=name) if name not in known:
            yield expr
    for one in children(expr):
        yield from _unknown(one, known)


def _resources(field: str, resources: Obj) -> Errors:
    errors: Errors = []
    for name in ("namespaceSelector", "objectSelector"):
        errors += label_selector(f"{field}.{name}", resources.get(name))
    for name in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(resources.get(name) or ()):
            errors += rule_errors(f"{field}.{name}[{index}]", rule)
    if resources.get("matchPolicy") not in ("Equivalent", "Exact"):
        policy = resources.get("matchPolicy")
        errors.append(not_supported(f"{field}.matchPolicy", policy, ["Equivalent", "Exact"]))
    return errors


def validating_binding(obj: Obj) -> Errors:
    actions = (obj.get("spec") or {}).get("validationActions") or ()
    errors = mutating_binding(obj)
    if not actions:
        why = "at least one validation action is required"
        errors.append(required("spec.validationActions", why))
    for index, action in enumerate(actions):
        if action not in _ACTIONS:
            errors.append(not_supported(f"spec.validationActions[{index}]", action, _ACTIONS))
        if action in actions[:index]:
            errors.append(duplicate(f"spec.validationActions[{index}]", action))
    if {"Deny", "Warn"} <= set(actions):
        errors.append(bad_value("spec.validationActions", list(actions), _BOTH))
    return errors


def mutating_binding(obj: Obj) -> Errors:
    spec = obj.get("spec") or {}
    errors: Errors = []
    if not spec.get("policyName"):
        errors.append(required("spec.policyName", ""))
    if spec.get("matchResources") is not None:
        errors += _resources("spec.matchResources", spec["matchResources"])
    reference = spec.get("paramRef")
    return errors + _reference("spec.paramRef", reference) if reference is not None else errors


def _reference(field: str, reference: Obj) -> Errors:
    errors: Errors = []
    if bool(reference.get("name")) == (reference.get("selector") is not None):
        if reference.get("name"):
            why = "name and selector are mutually exclusive"
            errors.append(forbidden(f"{field}.name", why))
        else:
            errors.append(required(field, "one of name or selector must be specified"))
    errors += label_selector(f"{field}.selector", reference.get("selector"))
    action = reference.get("parameterNotFoundAction")
    if action is None:
        errors.append(required(f"{field}.parameterNotFoundAction", ""))
    elif action not in ("Allow", "Deny"):
        errors.append(not_supported(f"{field}.parameterNotFoundAction", action, ["Deny", "Allow"]))
    return errors
