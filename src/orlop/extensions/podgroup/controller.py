"""Writes the status of each PodGroup: that of scheduling.x-k8s.io, and the built-in one.

Each runs while its kind's definition is the one that comes with Orlop. Called with the key of a
PodGroup whenever it, or a pod that names it, changes. Starting is not their work: the kubelet reads
the least number of members itself. As pkg/controllers/podgroup_controller.go of scheduler-plugins,
and KEP 4671.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...api import times
from ...api.kinds import NODE, POD
from ...api.objects import Key, Obj, condition_of, controller_of, key_of, labels_of, meta, phase_of
from ...client.api import Api, WatchEvent
from ...client.clock import Clock
from ...client.informer import Informers
from ...controllers.framework.controller import Controller, Result
from ...controllers.framework.status import condition, with_condition
from ...controllers.workloads.min_resources import REASON, lacking
from .groups import BUILT_IN, POD_GROUP, pod_group_of, scheduling_group_of

BY_GROUP, BY_BUILT_IN = "pod group", "built-in pod group"
INITIALLY_SCHEDULED = "PodGroupInitiallyScheduled"


class PodGroups(Controller):
    name = "pod-group"
    kind = POD_GROUP

    def __init__(self, api: Api, informers: Informers, *, clock: Clock | None = None) -> None:
        super().__init__(api, informers, clock=clock)
        self._pods, self._nodes = informers.informer(POD), informers.informer(NODE)
        self._pods.add_index(BY_GROUP, _groups)
        self.watch(self._pods, self._pod_changed)

    def _pod_changed(self, event: WatchEvent, previous: Obj | None) -> Iterator[Key]:
        pod = event.object
        is_news = previous is None or event.type == "DELETED" or phase_of(previous) != phase_of(pod)
        if not is_news and labels_of(previous or pod) == labels_of(pod):
            return
        for name in {pod_group_of(pod), pod_group_of(previous) if previous is not None else ""}:
            if name:
                yield Key(meta(pod)["namespace"], name)

    async def reconcile(self, key: Key) -> Result:
        group = self.objects.get(key)
        if group is None or (group.get("status") or {}).get("phase") == "Finished":
            return Result.done()
        members = self._pods.by_index(BY_GROUP, str(key))
        status = status_of(group, members, self.clock.now())
        await self.write_status(group, status)
        if status["phase"] not in ("Pending", "Scheduling"):
            return Result.done()
        short = lacking((group.get("spec") or {}).get("minResources"), self._nodes.list())
        if short:
            await self.recorder.event(group, "Warning", REASON, short)
        return await self._tell_late(group, status)

    async def _tell_late(self, group: Obj, status: Obj) -> Result:
        """Tell of members that have waited for longer than the group says."""
        limit = (group.get("spec") or {}).get("scheduleTimeoutSeconds")
        if not limit:
            return Result.done()
        since = status.get("scheduleStartTime") or meta(group)["creationTimestamp"]
        left = times.parse(since) + limit - self.clock.now()
        if left > 0:
            return Result.again(left)
        least = (group.get("spec") or {}).get("minMember") or 1
        words = f"fewer than {least} members run after {limit} s; they hold nothing while they wait"
        await self.recorder.event(group, "Warning", "Timeout", words)
        return Result.done()


class BuiltInPodGroups(Controller):
    """Writes whether a built-in group was ever scheduled; once so, it stays so."""

    name = "built-in-pod-group"
    kind = BUILT_IN

    def __init__(self, api: Api, informers: Informers, *, clock: Clock | None = None) -> None:
        super().__init__(api, informers, clock=clock)
        self._pods = informers.informer(POD)
        self._pods.add_index(BY_BUILT_IN, _built_in_groups)
        self.watch(self._pods, self._pod_changed)

    def _pod_changed(self, event: WatchEvent, previous: Obj | None) -> Iterator[Key]:
        pod = event.object
        if previous is not None and _has_started(pod) == _has_started(previous):
            return
        name = scheduling_group_of(pod)
        if name:
            yield Key(meta(pod)["namespace"], name)

    async def reconcile(self, key: Key) -> Result:
        group = self.objects.get(key)
        if group is None:
            return Result.done()
        former = condition_of(group, INITIALLY_SCHEDULED)
        if former is not None and former["status"] == "True":
            return Result.done()
        members = self._pods.by_index(BY_BUILT_IN, str(key))
        started = sum(_has_started(pod) for pod in members)
        policy = (group.get("spec") or {}).get("schedulingPolicy") or {}
        least = int((policy.get("gang") or {}).get("minCount") or 1)
        is_so = started >= least
        reason = "Scheduled" if is_so else "Unschedulable"
        words = f"{started} of {least} members have been given their machines"
        status = dict(group.get("status") or {})
        found = condition(INITIALLY_SCHEDULED, str(is_so), reason, words, self.clock.now())
        status["conditions"] = with_condition(status.get("conditions") or [], found)
        await self.write_status(group, status)
        return Result.done()


def _has_started(pod: Obj) -> bool:
    return phase_of(pod) in ("Running", "Succeeded", "Failed")


def status_of(group: Obj, members: Sequence[Obj], now: float) -> Obj:
    """Return what the group's status should be, from its members."""
    least = int((group.get("spec") or {}).get("minMember") or 1)
    counts = {
        name: sum(phase_of(pod) == phase for pod in members)
        for name, phase in (
            ("running", "Running"),
            ("succeeded", "Succeeded"),
            ("failed", "Failed"),
        )
    }
    status = {**(group.get("status") or {}), **counts, "phase": _phase(len(members), least, counts)}
    if status["phase"] != "Pending":
        status.setdefault("scheduleStartTime", times.rfc3339(now))
        if not status.get("occupiedBy"):
            status["occupiedBy"] = _owner(members[0])
    return status


def _phase(there: int, least: int, counts: dict[str, int]) -> str:
    running, succeeded, failed = counts["running"], counts["succeeded"], counts["failed"]
    if succeeded >= least:
        return "Finished"
    if there < least:
        return "Pending"
    if succeeded + running >= least:
        return "Running"  # upstream's never leaves Failed; here one that was replaced is made good
    return "Failed" if failed and failed + running + succeeded >= least else "Scheduling"


def _owner(pod: Obj) -> str:
    owner = controller_of(pod)
    key = key_of(pod)
    return f"{key.namespace}/{owner['name']}" if owner is not None else str(key)


def _groups(pod: Obj) -> tuple[str, ...]:
    """Index: the key of its group."""
    return _keys(pod, pod_group_of(pod))


def _built_in_groups(pod: Obj) -> tuple[str, ...]:
    """Index: the key of its built-in group, also where that is no gang."""
    return _keys(pod, scheduling_group_of(pod))


def _keys(pod: Obj, name: str) -> tuple[str, ...]:
    return (str(Key(meta(pod)["namespace"], name)),) if name else ()
