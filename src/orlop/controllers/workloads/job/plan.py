"""Decides which pods of a Job to make and which to delete, and when to look again.

Asked by the Job controller while the Job goes on. Pure. As pkg/controller/job: manageJob, with the
back-off computed from the pods themselves, so that a restart forgets nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from ....api.objects import Obj, is_deleting, meta, phase_of, uid_of
from ....wellknown import RESTART_COUNT
from ..deletion_order import cheapest_first
from ..distributed.environment import Hosts, is_wanted, place_in, with_variables
from ..pod_control import BURST, pod_from_template
from . import failure_policy as policy
from .completion import failed_indexes
from .indexes import FAILURES, IGNORED, INDEX, failures_of, ignored_of, index_of, restarts_of
from .tally import held_failures
from .view import FINALIZER, JobView

_FIRST_BACKOFF = 10.0  # seconds after the first failure, doubling with each more
_LONGEST_BACKOFF = 600.0


@dataclass(frozen=True, slots=True)
class Slot:
    """A pod to be made: for an index, with the failures it inherits."""

    index: int | None = None
    failures: int = 0
    ignored: int = 0
    restarts: int = 0  # pods before it that met their time limit


class Plan(NamedTuple):
    delete: list[Obj] = []
    create: list[Slot] = []
    wait: float | None = None  # seconds until failed pods may be replaced
    is_partial: bool = False  # more is to do than one reconcile should


def plan(view: JobView) -> Plan:
    """Return what to do next, one kind of thing at a time."""
    if view.is_suspended:
        return Plan(delete=view.active)
    wanted = _wanted(view)
    surplus = _surplus(view, len(view.active) - wanted)
    if surplus:
        return Plan(delete=surplus[:BURST], is_partial=len(surplus) > BURST)
    busy = len(view.active) + (len(view.terminating) if view.replaces_only_ended else 0)
    missing = wanted - busy
    if missing <= 0:
        return Plan()
    at_once = min(missing, BURST)
    if view.limit_per_index is not None:
        return _replace_by_index(view, at_once)
    wait = backoff_left(view)
    if wait > 0:
        return Plan(wait=wait)
    return Plan(create=_slots(view, at_once), is_partial=missing > BURST)


def _wanted(view: JobView) -> int:
    """Return how many pods should be running now."""
    if view.completions is None:
        # A work queue: once a pod has succeeded no more are made, the rest run to their end.
        return len(view.active) if view.succeeded else view.parallelism
    return max(min(view.completions - view.succeeded, view.parallelism), 0)


def _surplus(view: JobView, at_least: int) -> list[Obj]:
    """Return the pods to delete: the useless ones, then as many more as are too many.

    A Job of thousands of pods is looked at whenever one of them changes, so nothing is sorted in
    vain.
    """
    if at_least <= 0 and not (view.is_indexed and _has_useless(view)):
        return []
    ordered = cheapest_first(view.active, view.active, view.now)
    useless = _useless(view, ordered) if view.is_indexed else []
    gone = {uid_of(pod) for pod in useless}
    left = max(at_least - len(useless), 0)
    return useless + [pod for pod in ordered if uid_of(pod) not in gone][:left]


def _has_useless(view: JobView) -> bool:
    """Return whether any pod is useless; the order of looking decides which ones are."""
    return bool(_useless(view, view.active))


def _useless(view: JobView, ordered: list[Obj]) -> list[Obj]:
    """Return active pods of an index that the Job lacks, that is done, or has a better pod."""
    useless: list[Obj] = []
    done, taken = view.succeeded_indexes, set[int]()
    for pod in reversed(ordered):
        index = index_of(pod)
        if index is None or not view.is_in_range(pod) or index in done or index in taken:
            useless.append(pod)
        else:
            taken.add(index)
    return useless


def backoff_left(view: JobView) -> float:
    """Return seconds until another pod may be made: 10, 20, 40 ... since the last failure."""
    last_success = max(
        (view.finished_at(pod) for pod in view.pods if phase_of(pod) == "Succeeded"), default=0.0
    )
    failures = [
        view.finished_at(pod)
        for pod in view.pods
        if phase_of(pod) == "Failed" and not policy.is_ignored(view.job, pod)
    ]
    recent = [at for at in failures if at > last_success]
    return _left(len(recent), max(recent), view.now) if recent else 0.0


def _left(failures: int, since: float, now: float) -> float:
    delay = min(_FIRST_BACKOFF * 2.0 ** min(failures - 1, 30), _LONGEST_BACKOFF)
    return since + delay - now


def _slots(view: JobView, number: int) -> list[Slot]:
    restarts = _restarts(view)
    if not view.is_indexed:
        return [Slot(restarts=restarts.get(None, 0))] * number
    return [Slot(index, restarts=restarts.get(index, 0)) for index in _pending(view, number)]


def _restarts(view: JobView) -> dict[int | None, int]:
    """Count pods in a row that met their time limit, by index; under None without indexes."""
    found: dict[int | None, int] = {}
    for pod in view.pods:
        if policy.goes_on(pod):
            index = index_of(pod) if view.is_indexed else None
            found[index] = max(found.get(index, 0), restarts_of(pod) + 1)
    return found


def _pending(view: JobView, number: int) -> Iterable[int]:
    """Return the lowest indexes that no pod works on."""
    busy = {index_of(pod) for pod in view.active}
    if view.replaces_only_ended:
        busy |= {index_of(pod) for pod in view.terminating}
    over = view.succeeded_indexes | failed_indexes(view)
    for index in over.missing(view.completions or 0):
        if number <= 0:
            return
        if index not in busy:
            number -= 1
            yield index


def _replace_by_index(view: JobView, number: int) -> Plan:
    """Plan replacements where each index has its own failures and its own back-off."""
    held = held_failures(view)
    last = {held[uid_of(pod)]: pod for pod in view.tracked if uid_of(pod) in held}
    restarts = _restarts(view)
    create: list[Slot] = []
    waits: list[float] = []
    for index in _pending(view, view.completions or 0):
        if len(create) == number:
            break
        slot = _successor(view, index, last.get(index))
        tries = slot.failures + slot.ignored
        left = _left(tries, view.finished_at(last[index]), view.now) if tries else 0.0
        if left > 0:
            waits.append(left)
        else:
            create.append(replace(slot, restarts=restarts.get(index, 0)))
    return Plan(create=create, wait=min(waits, default=None))


def _successor(view: JobView, index: int, last: Obj | None) -> Slot:
    if last is None:
        return Slot(index)
    is_counted = not policy.is_ignored(view.job, last) or is_deleting(last)
    failures, ignored = failures_of(last), ignored_of(last)
    is_fault = is_counted or not policy.goes_on(last)  # no back-off for those whose time was over
    return Slot(index, failures + is_counted, ignored + (is_fault and not is_counted))


def pod_for(job: Obj, slot: Slot) -> Obj:
    """Return the pod of a Job, for its index if it has one."""
    pod = pod_from_template(job["spec"]["template"], job)
    metadata = pod["metadata"]
    metadata["finalizers"] = [*metadata.get("finalizers", []), FINALIZER]
    if slot.restarts:
        metadata.setdefault("annotations", {})[RESTART_COUNT] = str(slot.restarts)
    if slot.index is None:
        return pod
    name, index = meta(job)["name"], str(slot.index)
    metadata["generateName"] = f"{name}-{index}-"
    annotations = metadata.setdefault("annotations", {})
    annotations[INDEX] = index
    metadata.setdefault("labels", {})[INDEX] = index
    if job["spec"].get("backoffLimitPerIndex") is not None:
        annotations[FAILURES] = str(slot.failures)
        if slot.ignored:
            annotations[IGNORED] = str(slot.ignored)
    pod["spec"].setdefault("hostname", f"{name}-{index}")
    for part in ("initContainers", "containers"):
        for container in pod["spec"].get(part) or []:
            _name_index(container)
    if is_wanted(pod):
        domain = pod["spec"].setdefault("subdomain", name)  # `distributed` makes its Service
        spec = job["spec"]
        size = int(spec.get("completions") or spec.get("parallelism") or 1)
        hosts = Hosts(name, range(size), f".{domain}")
        with_variables(pod, place_in(pod, slot.index, hosts))
    return pod


def _name_index(container: Obj) -> None:
    env = container.setdefault("env", [])
    if not any(one["name"] == "JOB_COMPLETION_INDEX" for one in env):
        source = {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}
        env.append({"name": "JOB_COMPLETION_INDEX", "valueFrom": source})
