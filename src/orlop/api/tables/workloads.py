"""The tables of Deployments, ReplicaSets, StatefulSets, DaemonSets, Jobs and CronJobs.

Called by the dispatch. As pkg/printers/internalversion/printers.go.
"""

from __future__ import annotations

from ..objects import Obj, condition_of, is_deleting
from .cells import (
    AGE,
    NAME,
    NONE,
    TEMPLATE,
    Cells,
    Printer,
    age,
    between,
    boolean,
    column,
    label_text,
    name_of,
    selector_text,
    since,
    template_cells,
    wide,
)


def _parts(obj: Obj) -> tuple[Obj, Obj]:
    return obj.get("spec") or {}, obj.get("status") or {}


def _deployment(obj: Obj, now: float) -> Cells:
    spec, status = _parts(obj)
    return [
        name_of(obj),
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        age(obj, now),
        *template_cells(spec.get("template")),
        selector_text(spec.get("selector")),
    ]


def _replica_set(obj: Obj, now: float) -> Cells:
    spec, status = _parts(obj)
    selector = spec.get("selector")
    is_structured = obj.get("kind") != "ReplicationController"
    return [
        name_of(obj),
        spec.get("replicas", 0),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        age(obj, now),
        *template_cells(spec.get("template")),
        selector_text(selector) if is_structured else label_text(selector),
    ]


def _stateful_set(obj: Obj, now: float) -> Cells:
    spec, status = _parts(obj)
    return [
        name_of(obj),
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}",
        age(obj, now),
        *template_cells(spec.get("template")),
    ]


def _daemon_set(obj: Obj, now: float) -> Cells:
    spec, status = _parts(obj)
    pod = (spec.get("template") or {}).get("spec") or {}
    return [
        name_of(obj),
        status.get("desiredNumberScheduled", 0),
        status.get("currentNumberScheduled", 0),
        status.get("numberReady", 0),
        status.get("updatedNumberScheduled", 0),
        status.get("numberAvailable", 0),
        label_text(pod.get("nodeSelector")),
        age(obj, now),
        *template_cells(spec.get("template")),
        selector_text(spec.get("selector")),
    ]


def _job(obj: Obj, now: float) -> Cells:
    spec, status = _parts(obj)
    return [
        name_of(obj),
        _job_status(obj),
        _completions(spec, status),
        _duration(status, now),
        age(obj, now),
        *template_cells(spec.get("template")),
        selector_text(spec.get("selector")),
    ]


def _job_status(obj: Obj) -> str:
    def holds(kind: str) -> bool:
        condition = condition_of(obj, kind)
        return condition is not None and condition.get("status") == "True"

    for kind in ("Complete", "Failed"):
        if holds(kind):
            return kind
    if is_deleting(obj):
        return "Terminating"
    for kind in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if holds(kind):
            return kind
    return "Running"


def _completions(spec: Obj, status: Obj) -> str:
    succeeded = status.get("succeeded", 0)
    if spec.get("completions") is not None:
        return f"{succeeded}/{spec['completions']}"
    parallelism = spec.get("parallelism", 0)
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _duration(status: Obj, now: float) -> str:
    if not status.get("startTime"):
        return ""
    if not status.get("completionTime"):
        return since(status["startTime"], now)
    return between(status["startTime"], status["completionTime"])


def _cron_job(obj: Obj, now: float) -> Cells:
    spec, status = _parts(obj)
    last = status.get("lastScheduleTime")
    job = (spec.get("jobTemplate") or {}).get("spec") or {}
    return [
        name_of(obj),
        spec.get("schedule", ""),
        spec.get("timeZone") or NONE,
        boolean(spec.get("suspend")),
        len(status.get("active") or ()),
        since(last, now) if last else NONE,
        age(obj, now),
        *template_cells(job.get("template")),
        selector_text(job.get("selector")),
    ]


DEPLOYMENT = Printer(
    (
        NAME,
        column("Ready", about="Pods that are ready, of those wanted."),
        column("Up-to-date", about="Pods of the newest template."),
        column("Available", about="Pods ready for long enough."),
        AGE,
        *TEMPLATE,
        wide("Selector"),
    ),
    _deployment,
)
REPLICA_SET = Printer(
    (
        NAME,
        column("Desired", "integer", about="Pods wanted."),
        column("Current", "integer", about="Pods there are."),
        column("Ready", "integer", about="Pods that are ready."),
        AGE,
        *TEMPLATE,
        wide("Selector"),
    ),
    _replica_set,
)
STATEFUL_SET = Printer(
    (NAME, column("Ready", about="Pods that are ready, of those wanted."), AGE, *TEMPLATE),
    _stateful_set,
)
DAEMON_SET = Printer(
    (
        NAME,
        column("Desired", "integer", about="Nodes that should run a pod."),
        column("Current", "integer", about="Nodes that have one."),
        column("Ready", "integer", about="Nodes whose pod is ready."),
        column("Up-to-date", "integer", about="Nodes whose pod has the newest template."),
        column("Available", "integer", about="Nodes whose pod was ready for long enough."),
        column("Node Selector", about="The labels of the nodes it is for."),
        AGE,
        *TEMPLATE,
        wide("Selector"),
    ),
    _daemon_set,
)
JOB = Printer(
    (
        NAME,
        column("Status", about="What the job is doing, in a word."),
        column("Completions", about="Pods that succeeded, of those wanted."),
        column("Duration", about="How long it has run, or ran."),
        AGE,
        *TEMPLATE,
        wide("Selector"),
    ),
    _job,
)
CRON_JOB = Printer(
    (
        NAME,
        column("Schedule", about="When it starts jobs, as cron writes it."),
        column("Timezone", about="The time zone of the schedule."),
        column("Suspend", "boolean", about="Whether it starts no more jobs."),
        column("Active", "integer", about="Jobs that run now."),
        column("Last Schedule", about="When it last started one."),
        AGE,
        *TEMPLATE,
        wide("Selector"),
    ),
    _cron_job,
)
