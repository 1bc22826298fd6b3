"""The rules for what makes pods: Deployments, ReplicaSets, StatefulSets, DaemonSets.

Called by the dispatch. Each also checks the pod template inside it. As pkg/apis/apps/validation
and, for ReplicationControllers, pkg/apis/core/validation.
"""

from __future__ import annotations

import re
from typing import Any

from .. import names, selectors
from ..objects import Obj, meta
from . import pods
from .errors import (
    Errors,
    bad_value,
    forbidden,
    immutable,
    non_negative,
    not_supported,
    one_of,
    required,
)
from .selectors import label_selector

_STATEFUL_FIXED = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
    "'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and "
    "'minReadySeconds' are forbidden"
)
_STATEFUL_MUTABLE = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)
_PERCENT = re.compile(r"[0-9]+%")


def deployment(obj: Obj) -> Errors:
    spec = obj.get("spec") or {}
    errors = _scaled(spec)
    errors += _selected_template(spec, "deployment")
    errors += _always_restarted(spec, "ReplicaSet")
    errors += _strategy("spec.strategy", spec.get("strategy") or {})
    errors += non_negative("spec.revisionHistoryLimit", spec.get("revisionHistoryLimit"))
    deadline = spec.get("progressDeadlineSeconds")
    errors += non_negative("spec.progressDeadlineSeconds", deadline)
    if deadline is not None and deadline <= spec.get("minReadySeconds", 0):
        detail = "must be greater than minReadySeconds"
        errors.append(bad_value("spec.progressDeadlineSeconds", deadline, detail))
    return errors


def replica_set(obj: Obj) -> Errors:
    spec = obj.get("spec") or {}
    errors = _scaled(spec)
    return errors + _selected_template(spec, "deployment") + _always_restarted(spec, "ReplicaSet")


def selector_update(new: Obj, old: Obj) -> Errors:
    """Check that Deployments, ReplicaSets and DaemonSets keep the selector they were made with."""
    field, key = "spec.selector", "selector"
    return immutable(field, (new.get("spec") or {}).get(key), (old.get("spec") or {}).get(key))


def replication_controller(obj: Obj) -> Errors:
    spec = obj.get("spec") or {}
    errors = _scaled(spec)
    selector = spec.get("selector")
    if not selector:
        errors.append(required("spec.selector"))
    template = spec.get("template")
    if template is None:
        return [*errors, required("spec.template")]
    labels = meta(template).get("labels") or {}
    if selector and not selectors.from_labels(selector).matches(labels):
        errors.append(_mismatch(labels))
    errors += pods.template("spec.template", template)
    return errors + _always_restarted(spec, "ReplicationController")


def stateful_set(obj: Obj) -> Errors:
    spec = obj.get("spec") or {}
    policies = ("OrderedReady", "Parallel")
    errors = one_of("spec.podManagementPolicy", spec.get("podManagementPolicy"), policies)
    strategy = spec.get("updateStrategy") or {}
    kinds = ("RollingUpdate", "OnDelete")
    errors += one_of("spec.updateStrategy.type", strategy.get("type"), kinds)
    rolling = strategy.get("rollingUpdate")
    at = "spec.updateStrategy.rollingUpdate"
    if rolling is not None and strategy.get("type") == "OnDelete":
        detail = "only allowed for updateStrategy 'RollingUpdate'"
        errors.append(bad_value(at, rolling, detail))
    elif rolling is not None:
        errors += non_negative(f"{at}.partition", rolling.get("partition"))
    retention = spec.get("persistentVolumeClaimRetentionPolicy") or {}
    for key in ("whenDeleted", "whenScaled"):
        field = f"spec.persistentVolumeClaimRetentionPolicy.{key}"
        errors += one_of(field, retention.get(key), ("Retain", "Delete"))
    errors += _scaled(spec)
    errors += _selected_template(_with_claims(spec), "statefulset")
    return errors + _always_restarted(spec, "StatefulSet")


def _with_claims(spec: Obj) -> Obj:
    """Return the spec as its pods will have it.

    Containers may mount what volumeClaimTemplates name, too.
    """
    template = spec.get("template") or {}
    pod = template.get("spec") or {}
    own = pod.get("volumes") or []
    names = [meta(claim).get("name", "") for claim in spec.get("volumeClaimTemplates") or []]
    claims = [
        {"name": name, "persistentVolumeClaim": {"claimName": name}}
        for name in names
        if name not in {volume.get("name") for volume in own}
    ]
    if not claims:
        return spec
    return {**spec, "template": {**template, "spec": {**pod, "volumes": [*own, *claims]}}}


def stateful_set_update(new: Obj, old: Obj) -> Errors:
    def fixed(obj: Obj) -> Obj:
        spec = obj.get("spec") or {}
        return {key: value for key, value in spec.items() if key not in _STATEFUL_MUTABLE}

    return [] if fixed(new) == fixed(old) else [forbidden("spec", _STATEFUL_FIXED)]


def daemon_set(obj: Obj) -> Errors:
    spec = obj.get("spec") or {}
    errors = _selected_template(spec, "daemonset") + _always_restarted(spec, "DaemonSet")
    errors += non_negative("spec.minReadySeconds", spec.get("minReadySeconds"))
    errors += non_negative("spec.revisionHistoryLimit", spec.get("revisionHistoryLimit"))
    strategy = spec.get("updateStrategy") or {}
    kinds = ("OnDelete", "RollingUpdate")
    errors += one_of("spec.updateStrategy.type", strategy.get("type"), kinds)
    if strategy.get("type") == "RollingUpdate":
        errors += _surge_and_unavailable(
            "spec.updateStrategy.rollingUpdate", strategy.get("rollingUpdate") or {}, exclusive=True
        )
    return errors


def _scaled(spec: Obj) -> Errors:
    errors = non_negative("spec.replicas", spec.get("replicas"))
    return errors + non_negative("spec.minReadySeconds", spec.get("minReadySeconds"))


def _selected_template(spec: Obj, owner: str) -> Errors:
    """Check the selector, the template, and that the one selects the other."""
    selector = spec.get("selector")
    errors: Errors = []
    if selector is None:
        errors.append(required("spec.selector"))
    else:
        errors += label_selector("spec.selector", selector)
        if not selector.get("matchLabels") and not selector.get("matchExpressions"):
            detail = f"empty selector is invalid for {owner}"
            errors.append(bad_value("spec.selector", selector, detail))
    template = spec.get("template") or {}
    labels = meta(template).get("labels") or {}
    if selector and not errors and not selectors.from_structure(selector).matches(labels):
        errors.append(_mismatch(labels))
    return errors + pods.template("spec.template", template)


def _mismatch(labels: dict[str, str]) -> Any:
    detail = "`selector` does not match template `labels`"
    return bad_value("spec.template.metadata.labels", labels, detail)


def _always_restarted(spec: Obj, owner: str) -> Errors:
    pod = (spec.get("template") or {}).get("spec") or {}
    errors = pods.restart_policy("spec.template.spec.restartPolicy", pod, ("Always",))
    if pod.get("activeDeadlineSeconds") is not None:
        detail = f"activeDeadlineSeconds in {owner} is not Supported"
        errors.append(forbidden("spec.template.spec.activeDeadlineSeconds", detail))
    return errors


def _strategy(field: str, strategy: Obj) -> Errors:
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
    if kind == "Recreate":
        if rolling is None:
            return []
        detail = "may not be specified when strategy `type` is 'Recreate'"
        return [forbidden(f"{field}.rollingUpdate", detail)]
    if kind != "RollingUpdate":
        return [not_supported(f"{field}.type", kind or "", ("Recreate", "RollingUpdate"))]
    return _surge_and_unavailable(f"{field}.rollingUpdate", rolling or {}, exclusive=False)


def _surge_and_unavailable(field: str, rolling: Obj, *, exclusive: bool) -> Errors:
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    errors = int_or_percent(f"{field}.maxUnavailable", unavailable)
    errors += int_or_percent(f"{field}.maxSurge", surge)
    has_unavailable, has_surge = _is_some(unavailable), _is_some(surge)
    if not has_unavailable and not has_surge:
        if exclusive:
            errors.append(required(f"{field}.maxUnavailable", "cannot be 0 when maxSurge is 0"))
        else:
            detail = "may not be 0 when `maxSurge` is 0"
            errors.append(bad_value(f"{field}.maxUnavailable", unavailable, detail))
    if exclusive and has_unavailable and has_surge:
        detail = "may not be set when maxUnavailable is non-zero"
        errors.append(bad_value(f"{field}.maxSurge", surge, detail))
    return errors + _at_most_all(f"{field}.maxUnavailable", unavailable)


def _is_some(value: Any) -> bool:
    return value not in (0, "0%", None)


def int_or_percent(field: str, value: Any) -> Errors:
    """Check a count, or a share such as 25%."""
    if isinstance(value, int):
        return non_negative(field, value)
    if isinstance(value, str) and _PERCENT.fullmatch(value):
        return []
    text = "a valid percent string must be a numeric string followed by an ending '%'"
    detail = names.regex_error(text, _PERCENT.pattern, "1%", "93%")
    return [bad_value(field, value, detail)]


def _at_most_all(field: str, value: Any) -> Errors:
    is_percent = isinstance(value, str) and _PERCENT.fullmatch(value)
    if is_percent and int(value[:-1]) > 100:
        return [bad_value(field, value, "must not be greater than 100%")]
    return []
