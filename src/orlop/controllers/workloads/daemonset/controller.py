"""Keeps one pod of a DaemonSet on each node that it fits.

Called by the controller manager with the key of a DaemonSet whenever it or one of its pods changes,
and with all of them when a node comes, goes or changes its labels or taints. Each pod names its
node and is bound by the scheduler. As pkg/controller/daemon; whether there is room is left to the
scheduler.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .... import errors
from ....api import selectors
from ....api.kinds import DAEMON_SET, NODE, POD
from ....api.objects import Key, Obj, is_deleting, is_ready, key_of, labels_of, meta, uid_of
from ....client.api import Api, WatchEvent
from ....client.clock import Clock
from ....client.informer import Informers
from ....client.workqueue import Backoff
from ...framework.controller import BY_CONTROLLER, Controller, Result
from ..controller_ref import Claims
from ..controller_revisions import History, Revisions, revision_name, template_of
from ..pod_control import BURST, PodControl, is_available, seconds_until_available, watched_fields
from .plan import Step, belongs, by_node, plan, pod_for, probe_of

_FAILED_BACKOFF = Backoff(first=1.0, longest=900.0)


class DaemonSets(Controller):
    name = "daemonset-controller"
    kind = DAEMON_SET
    owns = (POD,)
    adopts = True
    face = watched_fields

    def __init__(self, api: Api, informers: Informers, *, clock: Clock | None = None) -> None:
        super().__init__(api, informers, clock=clock)
        self.pods = informers.informer(POD)
        self.nodes = informers.informer(NODE)
        self.watch(self.nodes, self._node_changed)
        self._claims = Claims(api, self.pods, DAEMON_SET)
        self._control = PodControl(api, self.pods, self.recorder)
        self._history = History(api, informers, DAEMON_SET)
        # (daemon set, node) -> failures, and when the last failed pod may go
        self._failures: dict[tuple[str, str], tuple[int, float]] = {}

    def _node_changed(self, event: WatchEvent, previous: Obj | None) -> Iterable[Key]:
        """Queue all DaemonSets when a node changes in more than its heartbeat."""
        if event.type == "MODIFIED" and previous and _face(event.object) == _face(previous):
            return []
        return [key_of(daemon_set) for daemon_set in self.objects.list()]

    async def reconcile(self, key: Key) -> Result:
        """Make, end and roll the daemons of all nodes, one step at a time."""
        daemon_set = self.objects.get(key)
        if daemon_set is None:
            return Result.done()
        selector = selectors.from_structure(daemon_set["spec"].get("selector"))
        if selector.is_empty:
            message = "This daemon set is selecting all pods. A non-empty selector is required."
            await self.recorder.event(daemon_set, "Warning", "SelectingAll", message)
            return Result.done()
        pods = await self._claims.claim(daemon_set, selector)
        revisions = await self._revisions(daemon_set)
        result = Result.done()
        if not is_deleting(daemon_set):
            update = meta(revisions.update)["name"]
            step = plan(daemon_set, self.nodes.list(), pods, update, self.clock.now())
            result = await self._carry_out(daemon_set, step, revisions)
        return result.sooner(await self._finish(daemon_set, revisions))

    async def _revisions(self, daemon_set: Obj) -> Revisions:
        status = daemon_set.get("status") or {}
        collisions = status.get("collisionCount", 0)
        try:
            return await self._history.sync(daemon_set, collisions)
        except errors.AlreadyExists:
            await self.write_status(daemon_set, {**status, "collisionCount": collisions + 1})
            raise

    async def _carry_out(self, daemon_set: Obj, step: Step, revisions: Revisions) -> Result:
        due, result = await self._failed(daemon_set, step)
        delete = [*step.delete, *due]
        await self._control.delete(daemon_set, delete[:BURST])
        template, name = template_of(revisions.update), meta(revisions.update)["name"]
        made = [pod_for(daemon_set, node, template, name) for node in step.create[:BURST]]
        await self._control.create(daemon_set, made)
        is_partial = max(len(delete), len(step.create)) > BURST
        return Result.again(0) if is_partial else result

    async def _failed(self, daemon_set: Obj, step: Step) -> tuple[list[Obj], Result]:
        """Return the failed daemons that may be replaced now, and when to look at the others."""
        due: list[Obj] = []
        result = Result.done()
        now, owner = self.clock.now(), uid_of(daemon_set)
        for node, pod in step.failed:
            failures, until = self._failures.get((owner, node), (0, now))
            if until > now:
                result = result.sooner(Result.again(until - now))
                continue
            self._failures[owner, node] = (failures + 1, now + _FAILED_BACKOFF.delay(failures))
            message = f"Found failed daemon pod {key_of(pod)} on node {node}, will try to kill it"
            await self.recorder.event(daemon_set, "Warning", "FailedDaemonPod", message)
            due.append(pod)
        return due, result

    async def _finish(self, daemon_set: Obj, revisions: Revisions) -> Result:
        now = self.clock.now()
        pods = self.pods.by_index(BY_CONTROLLER, uid_of(daemon_set))
        update = meta(revisions.update)["name"]
        await self.write_status(
            daemon_set, status_of(daemon_set, self.nodes.list(), pods, update, now)
        )
        await self._history.trim(daemon_set, revisions, {update, *map(revision_name, pods)})
        min_ready = daemon_set["spec"].get("minReadySeconds", 0)
        waits = [
            seconds_until_available(pod, min_ready, now)
            for pod in pods
            if is_ready(pod) and not is_available(pod, min_ready, now)
        ]
        return Result(min(waits, default=None))


def _face(node: Obj) -> tuple[object, ...]:
    return (
        labels_of(node),
        (node.get("spec") or {}).get("taints"),
        (node.get("spec") or {}).get("unschedulable"),
    )


def status_of(
    daemon_set: Obj, nodes: Sequence[Obj], pods: Sequence[Obj], update: str, now: float
) -> Obj:
    """Return the status, as updateDaemonSetStatus."""
    probe, placed = probe_of(daemon_set), by_node(pods)
    min_ready = daemon_set["spec"].get("minReadySeconds", 0)
    desired = scheduled = misscheduled = ready = updated = available = 0
    for node in nodes:
        mine = placed.get(meta(node)["name"], [])
        should_run, _ = belongs(probe, node)
        if not should_run:
            misscheduled += bool(mine)
            continue
        desired += 1
        scheduled += bool(mine)
        # A new daemon beside an old one speaks for the node as soon as it is there.
        best = max(
            mine, key=lambda pod: (is_ready(pod), revision_name(pod) == update), default=None
        )
        if best is not None:
            ready += is_ready(best)
            available += is_available(best, min_ready, now)
            updated += any(revision_name(pod) == update for pod in mine)
    status: Obj = {
        "currentNumberScheduled": scheduled,
        "numberMisscheduled": misscheduled,
        "desiredNumberScheduled": desired,
        "numberReady": ready,
        "observedGeneration": meta(daemon_set).get("generation", 0),
    }
    counts = {
        "updatedNumberScheduled": updated,
        "numberAvailable": available,
        "numberUnavailable": desired - available,
        "collisionCount": (daemon_set.get("status") or {}).get("collisionCount", 0),
    }
    return {**status, **{name: count for name, count in counts.items() if count}}
