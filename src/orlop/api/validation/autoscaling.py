"""The rules for HorizontalPodAutoscalers: bounds, metrics, behavior.

Called by the dispatch. As pkg/apis/autoscaling/validation; objects of version 1 have bounds and a
target, and what else they say is looked at as version 2.
"""

from __future__ import annotations

from ..names import path_segment
from ..objects import Obj
from .errors import (
    Errors,
    bad_value,
    bad_values,
    forbidden,
    not_supported,
    one_of,
    positive,
    required,
)
from .selectors import label_selector

SOURCES = ("ContainerResource", "External", "Object", "Pods", "Resource")
_FIELDS = {source: source[0].lower() + source[1:] for source in SOURCES}
_MAX_WINDOW = 3600  # seconds
_MAX_PERIOD = 1800


def horizontal_pod_autoscaler(obj: Obj) -> Errors:
    spec = obj.get("spec") or {}
    low, high = spec.get("minReplicas", 1), spec.get("maxReplicas", 0)
    errors: Errors = []
    if low < 1:  # upstream's HPAScaleToZero is off by default
        detail = "must be greater than or equal to 1"
        errors.append(bad_value("spec.minReplicas", low, detail))
    if high < 1:
        errors.append(bad_value("spec.maxReplicas", high, "must be greater than 0"))
    elif high < low:
        detail = "must be greater than or equal to `minReplicas`"
        errors.append(bad_value("spec.maxReplicas", high, detail))
    target = spec.get("scaleTargetRef") or {}
    errors += _reference("spec.scaleTargetRef", target)
    for index, metric in enumerate(spec.get("metrics") or ()):
        errors += _metric(f"spec.metrics[{index}]", metric)
    return errors + _behavior(spec.get("behavior") or {})


def _metric(at: str, metric: Obj) -> Errors:
    source = metric.get("type")
    if not source:
        return [required(f"{at}.type", "must specify a metric source type")]
    if source not in SOURCES:
        return [not_supported(f"{at}.type", source, SOURCES)]
    field = _FIELDS[source]
    found = metric.get(field)
    if found is None:
        detail = "must populate information for the given metric source"
        return [required(f"{at}.{field}", detail)]
    errors: Errors = []
    for other in _FIELDS.values():
        if other != field and metric.get(other) is not None:
            errors.append(forbidden(f"{at}.{other}", "must populate the given metric source only"))
    here = f"{at}.{field}"
    if source in ("Resource", "ContainerResource"):
        errors += _named(here, found)
        if source == "ContainerResource" and not found.get("container"):
            errors.append(required(f"{here}.container", "must specify a container"))
        return errors + _resource_target(f"{here}.target", found.get("target"))
    errors += _segment(f"{here}.metric.name", found.get("metric") or {})
    errors += _named(f"{here}.metric", found.get("metric") or {})
    errors += label_selector(f"{here}.metric.selector", (found.get("metric") or {}).get("selector"))
    if source == "Object":
        errors += _reference(f"{here}.describedObject", found.get("describedObject") or {})
    return errors + _value_target(f"{here}.target", found.get("target"), source)


def _reference(at: str, target: Obj) -> Errors:
    errors: Errors = []
    for key in ("kind", "name"):
        if not target.get(key):
            errors.append(required(f"{at}.{key}"))
        errors += bad_values(f"{at}.{key}", target.get(key), path_segment(target.get(key) or ""))
    return errors


def _segment(at: str, metric: Obj) -> Errors:
    """Check a name that becomes part of a path.

    A controller asks for that path, with rights of its own.
    """
    return bad_values(at, metric.get("name"), path_segment(metric.get("name") or ""))


def _named(at: str, named: Obj) -> Errors:
    return [] if named.get("name") else [required(f"{at}.name", "must specify a metric name")]


def _resource_target(at: str, target: Obj | None) -> Errors:
    if not target:
        return [required(at, "must specify a metric target")]
    utilization, average = target.get("averageUtilization"), target.get("averageValue")
    if utilization is None and average is None:
        detail = "must set either a target raw value or a target utilization"
        return [required(f"{at}.averageUtilization", detail)]
    if utilization is not None and average is not None:
        detail = "may not set both a target raw value and a target utilization"
        return [forbidden(f"{at}.averageValue", detail)]
    errors = one_of(f"{at}.type", target.get("type"), ("AverageValue", "Utilization"))
    if isinstance(utilization, int) and utilization < 1:
        detail = "must be greater than 0"
        errors.append(bad_value(f"{at}.averageUtilization", utilization, detail))
    return errors


def _value_target(at: str, target: Obj | None, source: str) -> Errors:
    if not target:
        return [required(at, "must specify a metric target")]
    if target.get("averageUtilization") is not None:
        return [forbidden(f"{at}.averageUtilization", "may be set for resource metrics only")]
    if target.get("value") is None and target.get("averageValue") is None:
        name = "averageValue" if source == "Pods" else "value"
        detail = "must specify a positive target" + (" averageValue" if source == "Pods" else "")
        return [required(f"{at}.{name}", detail)]
    if source == "Pods" and target.get("averageValue") is None:
        return [required(f"{at}.averageValue", "must specify a positive target averageValue")]
    return []


def _behavior(behavior: Obj) -> Errors:
    errors: Errors = []
    for name in ("scaleUp", "scaleDown"):
        rules = behavior.get(name)
        if rules:
            errors += _rules(f"spec.behavior.{name}", rules)
    return errors


def _rules(at: str, rules: Obj) -> Errors:
    errors: Errors = []
    window = rules.get("stabilizationWindowSeconds")
    if window is not None and not 0 <= window <= _MAX_WINDOW:
        detail = f"must be greater than or equal to zero and less than or equal to {_MAX_WINDOW}"
        errors.append(bad_value(f"{at}.stabilizationWindowSeconds", window, detail))
    select = rules.get("selectPolicy")
    if select is not None:
        errors += one_of(f"{at}.selectPolicy", select, ("Disabled", "Max", "Min"))
    policies = rules.get("policies")
    if not policies:
        return [*errors, required(f"{at}.policies", "must specify at least one Policy")]
    for index, policy in enumerate(policies):
        here = f"{at}.policies[{index}]"
        errors += one_of(f"{here}.type", policy.get("type"), ("Percent", "Pods"))
        errors += positive(f"{here}.value", policy.get("value"))
        period = policy.get("periodSeconds") or 0
        errors += positive(f"{here}.periodSeconds", period)
        if period > _MAX_PERIOD:
            detail = f"must be less than or equal to {_MAX_PERIOD}"
            errors.append(bad_value(f"{here}.periodSeconds", period, detail))
    return errors
