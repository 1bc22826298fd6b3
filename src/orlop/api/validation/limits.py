"""The rules for LimitRanges and ResourceQuotas.

Called by the dispatch. As pkg/apis/core/validation: ValidateLimitRange, ValidateResourceQuota and
ValidateResourceQuotaUpdate.
"""

from __future__ import annotations

from .. import quantity
from ..objects import Obj
from . import resources
from .errors import Errors, bad_value, duplicate, forbidden, not_supported, one_of, required

_TYPES = ("Container", "PersistentVolumeClaim", "Pod")
_OPPOSITES = (("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating"))
_COMPUTE = ("cpu", "memory", "ephemeral-storage", "requests.", "limits.", "hugepages-")
# What a quota of that scope may limit.
_SCOPES: dict[str, tuple[str, ...]] = {
    "Terminating": ("pods", "count/pods", *_COMPUTE),
    "NotTerminating": ("pods", "count/pods", *_COMPUTE),
    "NotBestEffort": ("pods", "count/pods", *_COMPUTE),
    "PriorityClass": ("pods", "count/pods", *_COMPUTE),
    "BestEffort": ("pods", "count/pods"),
    "CrossNamespacePodAffinity": ("pods", "count/pods", *_COMPUTE),
    "VolumeAttributesClass": ("persistentvolumeclaims", "count/persistentvolumeclaims",
                              "requests.storage"),
}  # fmt: skip
_OPERATORS = ("DoesNotExist", "Exists", "In", "NotIn")


def limit_range(obj: Obj) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for index, item in enumerate((obj.get("spec") or {}).get("limits") or ()):
        at, kind = f"spec.limits[{index}]", str(item.get("type") or "")
        errors += one_of(f"{at}.type", kind, _TYPES)
        if kind in seen:
            errors.append(duplicate(f"{at}.type", kind))
        seen.add(kind)
        errors += _by_type(at, kind, item)
        errors += _in_order(at, item)
    return errors


def _by_type(at: str, kind: str, item: Obj) -> Errors:
    if kind == "Pod":
        return [
            forbidden(f"{at}.{field}", "may not be specified when `type` is 'Pod'")
            for field in ("default", "defaultRequest")
            if item.get(field)
        ]
    has_size = any("storage" in (item.get(field) or {}) for field in ("min", "max"))
    if kind == "PersistentVolumeClaim" and not has_size:
        detail = "either minimum or maximum storage value is required, but neither was provided"
        return [required(f"{at}.limits", detail)]
    return []


# What must not be greater than what, whose field is wrong then, and upstream's words for both.
_ORDER = (
    ("min", "max", "min", "min value", "max value"),
    ("min", "defaultRequest", "defaultRequest", "min value", "default request value"),
    ("defaultRequest", "max", "defaultRequest", "default request value", "max value"),
    ("defaultRequest", "default", "defaultRequest", "default request value", "default limit value"),
    ("min", "default", "default", "min value", "default value"),
    ("default", "max", "default", "default value", "max value"),
)


def _in_order(at: str, item: Obj) -> Errors:
    errors: Errors = []
    for low, high, field, less, more in _ORDER:
        least, most = item.get(low) or {}, item.get(high) or {}
        for name in sorted(least.keys() & most.keys()):
            if quantity.parse(least[name]) > quantity.parse(most[name]):
                detail = f"{less} {least[name]} is greater than {more} {most[name]}"
                errors.append(bad_value(f"{at}.{field}[{name}]", item[field][name], detail))
    for name, ratio in sorted((item.get("maxLimitRequestRatio") or {}).items()):
        if quantity.parse(ratio) < quantity.parse("1"):
            where = f"{at}.maxLimitRequestRatio[{name}]"
            errors.append(bad_value(where, ratio, f"ratio {ratio} is less than 1"))
    return errors


def resource_quota(obj: Obj) -> Errors:
    spec = obj.get("spec") or {}
    hard = spec.get("hard") or {}
    errors = resources.amounts("spec.hard", hard)
    scopes = spec.get("scopes") or []
    errors += _scopes("spec.scopes", scopes, scopes, hard)
    expressions = (spec.get("scopeSelector") or {}).get("matchExpressions") or []
    field = "spec.scopeSelector.matchExpressions"
    errors += _scopes(field, [one.get("scopeName") for one in expressions], expressions, hard)
    for index, one in enumerate(expressions):
        errors += _expression(f"{field}[{index}]", one)
    return errors


def _scopes(field: str, scopes: list[str], shown: object, hard: Obj) -> Errors:
    errors: Errors = []
    for scope in scopes:
        allowed = _SCOPES.get(scope)
        if allowed is None:
            errors.append(bad_value(field, shown, "unsupported scope"))
            continue
        for name in sorted(hard):
            is_fine = any(name == one or (one[-1] in ".-" and name.startswith(one))
                          for one in allowed)  # fmt: skip
            if not is_fine:
                errors.append(bad_value(field, shown, "unsupported scope applied to resource"))
    for pair in _OPPOSITES:
        if set(pair) <= set(scopes):
            errors.append(bad_value(field, shown, "conflicting scopes"))
    return errors


def _expression(at: str, one: Obj) -> Errors:
    operator, values = one.get("operator"), one.get("values") or []
    if operator not in _OPERATORS:
        return [not_supported(f"{at}.operator", operator, _OPERATORS)]
    if operator in ("In", "NotIn"):
        detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
        return [] if values else [required(f"{at}.values", detail)]
    if values:
        detail = "must be no value when `operator` is 'Exists' or 'DoesNotExist' for scope selector"
        return [bad_value(f"{at}.values", values, detail)]
    return []


def resource_quota_update(new: Obj, old: Obj) -> Errors:
    after, before = new.get("spec") or {}, old.get("spec") or {}
    if set(after.get("scopes") or ()) != set(before.get("scopes") or ()):
        return [bad_value("spec.scopes", after.get("scopes"), "field is immutable")]
    return []
