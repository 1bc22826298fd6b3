"""Defaults of what makes pods: Deployments, ReplicaSets, StatefulSets, DaemonSets, Jobs, CronJobs.

Called by the dispatch. Each also completes the pod template inside it. As
pkg/apis/{apps,batch,core}/v1/defaults.go.
"""

from __future__ import annotations

from ..objects import Obj
from .core import persistent_volume_claim
from .fill import fill, section
from .pods import template

_MAX_INT32 = 2**31 - 1


def deployment(obj: Obj) -> None:
    spec = section(obj, "spec")
    template(section(spec, "template"))
    spec.setdefault("replicas", 1)
    strategy = section(spec, "strategy")
    fill(strategy, "type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        rolling = section(strategy, "rollingUpdate")
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)


def replica_set(obj: Obj) -> None:
    spec = section(obj, "spec")
    spec.setdefault("replicas", 1)
    template(section(spec, "template"))


def stateful_set(obj: Obj) -> None:
    spec = section(obj, "spec")
    template(section(spec, "template"))
    fill(spec, "podManagementPolicy", "OrderedReady")
    _stateful_strategy(section(spec, "updateStrategy"))
    retention = section(spec, "persistentVolumeClaimRetentionPolicy")
    fill(retention, "whenDeleted", "Retain")
    fill(retention, "whenScaled", "Retain")
    spec.setdefault("replicas", 1)
    spec.setdefault("revisionHistoryLimit", 10)
    for claim in spec.get("volumeClaimTemplates") or ():
        claim.setdefault("apiVersion", "v1")
        claim.setdefault("kind", "PersistentVolumeClaim")
        persistent_volume_claim(claim)


def _stateful_strategy(strategy: Obj) -> None:
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
        section(strategy, "rollingUpdate")
    if strategy["type"] == "RollingUpdate" and strategy.get("rollingUpdate") is not None:
        strategy["rollingUpdate"].setdefault("partition", 0)


def daemon_set(obj: Obj) -> None:
    spec = section(obj, "spec")
    template(section(spec, "template"))
    strategy = section(spec, "updateStrategy")
    fill(strategy, "type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        rolling = section(strategy, "rollingUpdate")
        rolling.setdefault("maxUnavailable", 1)
        rolling.setdefault("maxSurge", 0)
    spec.setdefault("revisionHistoryLimit", 10)


def replication_controller(obj: Obj) -> None:
    spec = section(obj, "spec")
    spec.setdefault("replicas", 1)
    if "template" in spec:
        template(spec["template"])
        labels = (spec["template"].get("metadata") or {}).get("labels")
        if labels:
            fill(spec, "selector", dict(labels))
            fill(section(obj, "metadata"), "labels", dict(labels))


def job(obj: Obj) -> None:
    spec = section(obj, "spec")
    job_spec(spec)
    labels = (spec["template"].get("metadata") or {}).get("labels")
    if labels:
        fill(section(obj, "metadata"), "labels", dict(labels))


def job_spec(spec: Obj) -> None:
    template(section(spec, "template"))
    if "parallelism" not in spec and "completions" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", _MAX_INT32 if "backoffLimitPerIndex" in spec else 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    has_policy = bool(spec.get("podFailurePolicy"))
    spec.setdefault("podReplacementPolicy", "Failed" if has_policy else "TerminatingOrFailed")
    _pod_failure_policy(spec)


def _pod_failure_policy(spec: Obj) -> None:
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            fill(pattern, "status", "True")


def cron_job(obj: Obj) -> None:
    spec = section(obj, "spec")
    fill(spec, "concurrencyPolicy", "Allow")
    spec.setdefault("suspend", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)
    # Of its jobs only the pod template is completed here: a job is, once it is made.
    job_template = section(section(spec, "jobTemplate"), "spec")
    template(section(job_template, "template"))
    _pod_failure_policy(job_template)
