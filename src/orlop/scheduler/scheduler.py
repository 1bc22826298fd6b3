"""Binds pods that name no node to one, or says in an Event and on the pod why it cannot.

Started by the composition; it looks after the pods whose schedulerName is its own, the most
important first, each when it appears and again when something happens that may help it. In a
partition Slurm does the placing: the scheduler chooses the partition, passes on what Slurm can be
told, and does not count what is free there. A pod that has a node is deleted where a more important
one needs its place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from .. import errors
from ..api.gangs import BY_GANG, keys_of
from ..api.kinds import NAMESPACE, NODE, POD, POD_DISRUPTION_BUDGET
from ..api.objects import (
    Key,
    Obj,
    annotations_of,
    condition_of,
    is_deleting,
    is_terminal,
    key_of,
    labels_of,
    meta,
    uid_of,
)
from ..client.api import Api, WatchEvent
from ..client.clock import Clock, SystemClock
from ..client.informer import Informers
from ..client.leader_election import LeaderElection
from ..client.recorder import Recorder
from ..client.workqueue import Backoff, WorkQueue
from ..log import logger
from ..settings import SlurmSettings
from ..slurm.translate.policy import Policy
from ..wellknown import NODE_LIST
from . import decision
from .bind import bind, evict, mark_unschedulable
from .capacity import priority_of
from .decision import Decision, decide
from .preemption import Plan
from .slurm_placement import handover
from .snapshot import BY_NODE, BY_TERM, Snapshot, node_of, terms_of
from .volumes import PodVolumes, View
from .waiting import Waiting

DEFAULT_SCHEDULER = "default-scheduler"
# As upstream's scheduling queue: up to 10 s after a failure; ours begins sooner.
_BACKOFF = Backoff(first=0.1, longest=10.0)
_LOOK_AGAIN = 300.0  # seconds until a pod without a node is tried although nothing changed
_WORKERS = 32  # bindings under way at once: the store commits them together

log = logger(__name__)


class Scheduler:
    """One scheduler; several of different names live side by side.

    With an `election`, it works in the one process that leads.
    """

    def __init__(
        self,
        api: Api,
        informers: Informers,
        *,
        name: str = DEFAULT_SCHEDULER,
        election: LeaderElection | None = None,
        slurm: SlurmSettings | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._slurm = slurm or SlurmSettings()
        self._api = api
        self._name = name
        self._election = election
        self._clock = clock or SystemClock()
        self._pods = informers.informer(POD)
        self._pods.add_index(BY_NODE, node_of)
        self._pods.add_index(BY_TERM, terms_of)
        self._pods.add_index(BY_GANG, keys_of)
        self._nodes = informers.informer(NODE)
        self._namespaces = informers.informer(NAMESPACE)
        self._budgets = informers.informer(POD_DISRUPTION_BUDGET)
        self._queue: WorkQueue[Key] = WorkQueue(
            backoff=_BACKOFF, clock=self._clock, name="scheduler", rank=self._rank
        )
        self._recorder = Recorder(api, name, clock=self._clock)
        self._waiting = Waiting()
        self._assumed: dict[Key, tuple[Obj, str]] = {}  # decided, and not yet in the cache
        self._nominated: dict[Key, tuple[Obj, str]] = {}  # room is being made for them
        self._volumes = PodVolumes(api, informers, on_change=self._look_again)

    async def run(self) -> None:
        """Schedule until cancelled, or until another process leads; no pod's failure ends it."""
        if self._election is not None:
            await self._election.lead(self._run)
        else:
            await self._run()

    async def _run(self) -> None:
        for informer in (self._nodes, self._namespaces, self._budgets):
            await informer.synced()
        try:
            self._nodes.subscribe(self._node_changed)
            self._pods.subscribe(self._pod_changed)
            await self._pods.synced()
            await self._volumes.start()
            async with asyncio.TaskGroup() as group:
                for number in range(_WORKERS):
                    group.create_task(self._work(), name=f"scheduler {number}")
        finally:
            self._nodes.unsubscribe(self._node_changed)
            self._pods.unsubscribe(self._pod_changed)
            self._volumes.stop()
            self._queue.close()

    def _rank(self, key: Key) -> int:
        pod = self._pods.get(key)
        return -priority_of(pod) if pod is not None else 0

    # What happens

    def _pod_changed(self, event: WatchEvent, previous: Obj | None) -> None:
        pod = event.object
        key = key_of(pod)
        if pod["spec"].get("nodeName") or event.type == "DELETED":
            self._placed_changed(event, previous)
        if event.type == "DELETED" or not self._is_waiting(pod):
            self._waiting.discard(key)
            self._nominated.pop(key, None)
            self._queue.forget(key)
            return
        self._remember_nomination(pod)
        if previous is None or not _is_same_wish(pod, previous):
            self._queue.add(key)

    def _placed_changed(self, event: WatchEvent, previous: Obj | None) -> None:
        """Queue pods that a pod with a node may help, by what it is or by going."""
        self._assumed.pop(key_of(event.object), None)
        if not self._waiting:
            return
        if event.type == "DELETED" or _leaves(event.object, previous):
            self._wake(decision.GONE)
        if event.type != "DELETED" and (
            previous is None or _neighbour(event.object) != _neighbour(previous)
        ):
            self._wake(decision.PLACED)

    def _remember_nomination(self, pod: Obj) -> None:
        node = (pod.get("status") or {}).get("nominatedNodeName")
        if node:
            self._nominated[key_of(pod)] = pod, node

    def _node_changed(self, event: WatchEvent, previous: Obj | None) -> None:
        """Queue waiting pods when a node changes in more than its heartbeat."""
        if (
            event.type != "DELETED"
            and previous is not None
            and _face(event.object) == _face(previous)
        ):
            return
        self._wake(decision.NODE)

    def _wake(self, event: str) -> None:
        self._look_again(self._waiting.helped_by(event))

    def _look_again(self, keys: Iterable[Key]) -> None:
        """Queue pods again; one tried in vain often waits a little longer each time."""
        for key in keys:
            if key in self._waiting:
                failures = self._queue.failures(key)
                self._queue.add_after(key, _BACKOFF.delay(failures - 1) if failures > 1 else 0)

    # What is done

    def _is_waiting(self, pod: Obj) -> bool:
        spec = pod["spec"]
        return (
            not spec.get("nodeName")
            and (spec.get("schedulerName") or DEFAULT_SCHEDULER) == self._name
            and not spec.get("schedulingGates")
            and not is_terminal(pod)
            and not is_deleting(pod)
        )

    async def _work(self) -> None:
        while True:
            key = await self._queue.get()
            try:
                await self._try(key)
                await asyncio.sleep(0)  # a thousand pods must not have the loop for themselves
            finally:
                self._queue.done(key)

    async def _try(self, key: Key) -> None:
        try:
            await self._schedule(key)
        except (errors.NotFound, errors.Conflict) as error:
            # Gone, bound by another, or changed just now: the cache will tell.
            log.debug("pod changed meanwhile", pod=key, error=error)
            self._queue.add_rate_limited(key)
        except errors.Error as error:
            delay = self._queue.add_rate_limited(key)
            log.warning("scheduling failed", pod=key, error=error, again_in=f"{delay:.0f}s")
        except Exception:
            self._queue.add_rate_limited(key)
            log.error("scheduling broke", pod=key, exc_info=True)

    async def _schedule(self, key: Key) -> None:
        pod = self._pods.get(key)
        if pod is None or not self._is_waiting(pod):
            self._queue.forget(key)
            return
        self._waiting.discard(key)
        nodes = self._nodes.list()
        snapshot = Snapshot.of(nodes, self._pods, self._namespaces, self._assumed, self._nominated)
        view = self._volumes.view(pod)
        decided = decide(pod, snapshot, view, self._budgets.list, self._partition(pod))
        if decided.node is None:
            await self._give_up(pod, decided)
            return
        # From here to the cache's news of it, whoever decides must know.
        self._assumed[key] = pod, meta(decided.node)["name"]
        try:
            await self._bind(pod, decided.node, decided, view)
        except BaseException:
            self._assumed.pop(key, None)
            raise

    def _partition(self, pod: Obj) -> str:
        """Return where its namespace belongs; one that cannot be read leaves it to the kubelet."""
        name = key_of(pod).namespace
        annotations = annotations_of(self._namespaces.get(Key("", name)) or {})
        try:
            return Policy(self._slurm, name, annotations).partition()
        except errors.ConfigError:
            return ""

    async def _bind(self, pod: Obj, node: Obj, decided: Decision, view: View) -> None:
        key, name = key_of(pod), meta(node)["name"]
        if not await self._volumes.bind(view, node):
            self._assumed.pop(key, None)
            self._waiting.park(key, {decision.NODE})  # until its claims are bound
            return
        told = handover(pod, node, decided.affinity)
        await bind(self._api, pod, node, told.annotations)
        self._nominated.pop(key, None)
        self._queue.forget(key)
        log.debug("bound", pod=key, node=name)
        message = f"Successfully assigned {key} to {name}"
        await self._recorder.event(pod, "Normal", "Scheduled", message)
        if told.passed:
            words = "passed on to Slurm: " + "; ".join(told.passed)
            await self._recorder.event(pod, "Normal", "PlacementPassedOn", words)
        if told.lost:
            words = "; ".join(told.lost)
            await self._recorder.event(pod, "Warning", "PlacementNotPassedOn", words)

    async def _give_up(self, pod: Obj, decided: Decision) -> None:
        """Set the pod aside until something happens that may help, or for a while."""
        key, plan = key_of(pod), decided.plan
        self._waiting.park(key, decided.helps)
        self._queue.failed(key)
        self._queue.add_after(key, _LOOK_AGAIN)
        nominated = meta(plan.node)["name"] if plan is not None else ""
        if nominated:
            self._nominated[key] = pod, nominated
        now = self._clock.now()
        await mark_unschedulable(self._api, pod, decided.message, now, nominated=nominated)
        await self._recorder.event(pod, "Warning", "FailedScheduling", decided.message)
        if plan is not None:
            await self._preempt(pod, plan)

    async def _preempt(self, pod: Obj, plan: Plan) -> None:
        node = meta(plan.node)["name"]
        for victim in plan.victims:
            try:
                await evict(self._api, victim, self._name, self._clock.now())
            except (errors.NotFound, errors.Conflict):
                continue  # gone already
            words = f"Preempted by pod {uid_of(pod)} on node {node}"
            await self._recorder.event(victim, "Normal", "Preempted", words)
            log.info("preempted", pod=key_of(victim), node=node, by=key_of(pod))


def _leaves(pod: Obj, previous: Obj | None) -> bool:
    """Return whether it has just begun to go, or ended; changes in between help no pod."""
    begins = is_deleting(pod) and not (previous is not None and is_deleting(previous))
    ends = is_terminal(pod) and not (previous is not None and is_terminal(previous))
    return begins or ends


def _neighbour(pod: Obj) -> tuple[object, ...]:
    """Return the fields of a placed pod that other pods' affinity depends on."""
    hosts = annotations_of(pod).get(NODE_LIST)
    return pod["spec"].get("nodeName"), labels_of(pod), hosts


def _is_same_wish(pod: Obj, previous: Obj) -> bool:
    """Return whether the pod asks for the same: a new status is no reason to try again."""
    return bool(
        pod["spec"] == previous["spec"]
        and labels_of(pod) == labels_of(previous)
        and annotations_of(pod) == annotations_of(previous)
    )


def _face(node: Obj) -> tuple[object, ...]:
    """Return the fields of a node that filters and scores depend on."""
    ready = condition_of(node, "Ready") or {}
    allocatable = (node.get("status") or {}).get("allocatable")
    return node.get("spec"), labels_of(node), allocatable, ready.get("status")
