"""The rules for Jobs and CronJobs.

Called by the dispatch. A Job's selector is generated, and must stay so unless the user took it
over; nearly all of its spec is fixed. As pkg/apis/batch/validation.
"""

from __future__ import annotations

from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from .. import cron, selectors
from ..objects import Obj, meta
from . import pods
from .errors import (
    Errors,
    bad_value,
    immutable,
    non_negative,
    not_supported,
    one_of,
    required,
)
from .selectors import label_selector

_POLICIES = ("Allow", "Forbid", "Replace")
_RESTART = ("OnFailure", "Never")
_COUNTS = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)
_FIXED = ("selector", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")
MAX_INDEXED_PARALLELISM = 100_000
MAX_CRON_NAME = 52  # leaves room for what its jobs' names add


def job(obj: Obj) -> Errors:
    spec = obj.get("spec") or {}
    errors = _spec("spec", spec)
    selector = spec.get("selector")
    if selector is None:
        return [*errors, required("spec.selector")]
    errors += label_selector("spec.selector", selector)
    labels = meta(spec.get("template") or {}).get("labels") or {}
    if not errors and not selectors.from_structure(selector).matches(labels):
        detail = "`selector` does not match template `labels`"
        errors.append(bad_value("spec.template.metadata.labels", labels, detail))
    if not spec.get("manualSelector"):
        errors += _generated_labels(obj, spec, labels)
    return errors


def _generated_labels(obj: Obj, spec: Obj, labels: Obj) -> Errors:
    uid, name = meta(obj).get("uid", ""), meta(obj).get("name", "")
    key = "batch.kubernetes.io/controller-uid"
    errors: Errors = []
    if labels.get(key) != uid:
        errors.append(bad_value("spec.template.metadata.labels", labels, f"must be '{uid}'"))
    if labels.get("batch.kubernetes.io/job-name") != name:
        errors.append(bad_value("spec.template.metadata.labels", labels, f"must be '{name}'"))
    selector = spec.get("selector") or {}
    if (selector.get("matchLabels") or {}).get(key) != uid:
        errors.append(bad_value("spec.selector", selector, "`selector` not auto-generated"))
    return errors


def _spec(field: str, spec: Obj) -> Errors:
    errors: Errors = []
    for key in _COUNTS:
        errors += non_negative(f"{field}.{key}", spec.get(key))
    errors += _completion(field, spec)
    template = spec.get("template") or {}
    errors += pods.template(f"{field}.template", template)
    policy = (template.get("spec") or {}).get("restartPolicy", "")
    at = f"{field}.template.spec.restartPolicy"
    if policy == "Always":
        errors.append(required(at, 'valid values: "OnFailure", "Never"'))
    elif policy not in _RESTART:
        errors.append(not_supported(at, policy, _RESTART))
    elif "podFailurePolicy" in spec and policy != "Never":
        detail = 'only "Never" is supported when podFailurePolicy is specified'
        errors.append(bad_value(at, policy, detail))
    return errors


def _completion(field: str, spec: Obj) -> Errors:
    mode = spec.get("completionMode")
    if mode is None:  # inside a CronJob, where it is defaulted once the job is made
        return []
    if mode not in ("NonIndexed", "Indexed"):
        return [not_supported(f"{field}.completionMode", mode, ("NonIndexed", "Indexed"))]
    if mode == "NonIndexed":
        if "backoffLimitPerIndex" in spec:
            detail = "requires indexed completion mode"
            value = spec["backoffLimitPerIndex"]
            return [bad_value(f"{field}.backoffLimitPerIndex", value, detail)]
        return []
    if spec.get("completions") is None:
        return [required(f"{field}.completions", "when completion mode is Indexed")]
    if spec.get("parallelism", 1) > MAX_INDEXED_PARALLELISM:
        detail = "must be less than or equal to 100000 when completion mode is Indexed"
        return [bad_value(f"{field}.parallelism", spec["parallelism"], detail)]
    return []


def job_update(new: Obj, old: Obj) -> Errors:
    spec, former = new.get("spec") or {}, old.get("spec") or {}
    errors: Errors = []
    for key in _FIXED:
        errors += immutable(f"spec.{key}", spec.get(key), former.get(key))
    errors += _completions_update(spec, former)
    errors += immutable(
        "spec.completionMode", spec.get("completionMode"), former.get("completionMode")
    )
    if not _may_change_template(new, old):
        errors += immutable("spec.template", spec.get("template"), former.get("template"))
    return errors


def _completions_update(spec: Obj, former: Obj) -> Errors:
    """Check that an indexed job grows and shrinks together with its parallelism."""
    new, old = spec.get("completions"), former.get("completions")
    is_elastic = spec.get("completionMode") == "Indexed" and new == spec.get("parallelism")
    if new == old or is_elastic:
        return []
    if spec.get("completionMode") == "Indexed":
        detail = "can only be modified in tandem with parallelism"
        return [bad_value("spec.completions", new, f"field is immutable: {detail}")]
    return immutable("spec.completions", new, old)


def _may_change_template(new: Obj, old: Obj) -> bool:
    """Return whether the template may change.

    Before a suspended job starts, a queueing system may still say where its pods go.
    """
    spec = old.get("spec") or {}
    if not spec.get("suspend") or (old.get("status") or {}).get("startTime"):
        return False
    return _fixed_template(new) == _fixed_template(old)


def _fixed_template(obj: Obj) -> Obj:
    template = (obj.get("spec") or {}).get("template") or {}
    spec = {
        key: value
        for key, value in (template.get("spec") or {}).items()
        if key not in ("affinity", "nodeSelector", "tolerations", "schedulingGates")
    }
    metadata = {
        key: value for key, value in meta(template).items() if key not in ("annotations", "labels")
    }
    return {"metadata": metadata, "spec": spec}


def cron_job(obj: Obj) -> Errors:
    spec = obj.get("spec") or {}
    errors: Errors = []
    name = meta(obj).get("name", "")
    if len(name) > MAX_CRON_NAME:
        detail = f"must be no more than {MAX_CRON_NAME} characters"
        errors.append(bad_value("metadata.name", name, detail))
    errors += _schedule(spec.get("schedule", ""))
    errors += _time_zone(spec.get("timeZone"))
    for key in ("startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
        errors += non_negative(f"spec.{key}", spec.get(key))
    errors += one_of("spec.concurrencyPolicy", spec.get("concurrencyPolicy"), _POLICIES)
    template = (spec.get("jobTemplate") or {}).get("spec") or {}
    errors += _spec("spec.jobTemplate.spec", template)
    if template.get("manualSelector"):
        supported = ("nil", "false")
        errors.append(not_supported("spec.jobTemplate.spec.manualSelector", True, supported))
    if "selector" in template:
        detail = "`selector` will be auto-generated"
        errors.append(bad_value("spec.jobTemplate.spec.selector", template["selector"], detail))
    return errors


def _schedule(text: str) -> Errors:
    if not text:
        return [required("spec.schedule")]
    if "TZ" in text:
        detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        return [bad_value("spec.schedule", text, detail)]
    try:
        cron.parse(text)
    except cron.CronError as error:
        return [bad_value("spec.schedule", text, str(error))]
    return []


def _time_zone(zone: str | None) -> Errors:
    if zone is None:
        return []
    if not zone:
        return [bad_value("spec.timeZone", zone, "timeZone must be nil or non-empty string")]
    if zone.lower() == "local":
        detail = (
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        )
        return [bad_value("spec.timeZone", zone, detail)]
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        # A machine without any time zones cannot tell a wrong one.
        if available_timezones():
            return [bad_value("spec.timeZone", zone, f"unknown time zone {zone}")]
    return []
