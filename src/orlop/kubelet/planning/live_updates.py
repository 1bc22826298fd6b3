"""Brings what changes to pods that have their job: ConfigMaps, Secrets, labels, trust, new tokens.

Run by the kubelet beside its workers. A change makes the plan anew and raises its revision; an
agent that has an older one is told over its own connection, at once or when it is back. Upstream
looks every minute; here a change arrives as it happens, and costs nothing while there is none.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from ... import errors
from ...api.kinds import CLUSTER_TRUST_BUNDLE, CONFIG_MAP, PERSISTENT_VOLUME_CLAIM, SECRET
from ...api.objects import Obj, annotations_of, is_terminal, key_of, labels_of, meta, uid_of
from ...client.api import Api, WatchEvent
from ...client.clock import Clock
from ...client.informer import Handler, Informer, Informers
from ...client.storage import claim_keys
from ...client.workqueue import Backoff, WorkQueue
from ...log import logger
from ..node.registration import Nodes
from ..pod.events import Events
from ..pod.pods import Pods, PodState
from .live_plan import TokenRenewal, messages, revision_of, tokens_in, updated
from .plan import Inputs, Site
from .refusal import Refusal
from .source_reader import SourceReader
from .sources import references, wants_trust_bundles

_RETRY = Backoff(first=1.0, longest=60.0)
_WORKERS = 4
_CHANGING = ("metadata.labels", "metadata.annotations")
_NOT_YET = 2.0  # until a pod whose sources changed while it was prepared is looked at again

log = logger(__name__)


def _sources_of(pod: Obj) -> tuple[str, ...]:
    """Return the ConfigMaps, Secrets and claims that a pod names: the same for as long as it lives.

    Trust bundles are all one: a pod may choose them by signer and labels.
    """
    named, namespace = references(pod), meta(pod).get("namespace")
    return (
        *((CLUSTER_TRUST_BUNDLE.kind,) if wants_trust_bundles(pod) else ()),
        *(f"ConfigMap {namespace}/{name}" for name in named.config_maps),
        *(f"Secret {namespace}/{name}" for name in named.secrets),
        *(f"PersistentVolumeClaim {key}" for key in claim_keys(pod)),
    )


@dataclass(frozen=True, slots=True)
class LivePlans:
    """Makes plans anew; `services_for` returns the services that a pod's variables name."""

    api: Api
    nodes: Nodes
    events: Events
    site: Site
    services_for: Callable[[Obj], Sequence[Obj]]
    renewal: TokenRenewal

    async def renewed(self, pod: Obj, state: PodState, now: float) -> Obj | None:
        """Return the pod's plan as it should be now, and keep it; None where it has none.

        1. The plan as it was written.
        2. What the pod names, as it is now; tokens that are good still are kept.
        3. The plan anew, if that makes a difference.
        """
        plan = await asyncio.to_thread(state.folder.plan)  # 1
        if plan is None:
            return None
        tokens, due = tokens_in(plan, pod), self.renewal.due
        kept = {wish: token for wish, token in tokens.items() if due(token) > now}
        sources = await SourceReader(self.api).sources(pod, kept, has_claims=False)  # 2
        inputs = Inputs(
            {},
            self.nodes.allocatable(pod["spec"]["nodeName"]),
            sources,
            pod_ip=state.pod_ip,
            services=self.services_for(pod),
        )
        new = updated(plan, pod, self.site, inputs, lambda refusal: self._tell(pod, refusal))
        if new is not plan and new != plan:
            await asyncio.to_thread(state.folder.replace_plan, new)  # 3
            return new
        return plan

    def _tell(self, pod: Obj, refusal: Refusal) -> None:
        self.events.tell(pod, "Warning", refusal.event, refusal.event_message)


class LiveSources:
    """Keeps the sources of all pods that have a plan."""

    def __init__(
        self,
        informers: Informers,
        pods: Pods,
        cached: Informer,
        plans: LivePlans,
        wake: Callable[[Iterable[str]], None],
        clock: Clock,
    ) -> None:
        """Take the parts it needs; `wake` is told the pods, by uid, that may have waited for what
        has changed.
        """
        self._informers = informers
        self._follows_trust = False
        self._pods = pods
        self._cached = cached
        self._sources: list[tuple[Informer, Handler]] = [
            (informers.metadata(kind), partial(self._source_changed, kind.kind))
            for kind in (CONFIG_MAP, SECRET)
        ]
        claims = informers.informer(PERSISTENT_VOLUME_CLAIM)
        self._sources.append((claims, partial(self._source_changed, claims.kind.kind)))
        self._live_plans, self._wake, self._clock = plans, wake, clock
        self._queue: WorkQueue[str] = WorkQueue(backoff=_RETRY, clock=clock, name="live sources")
        self._has_begun = False
        self._users: dict[str, set[str]] = {}  # source -> uids of the pods that name it
        self._agents: dict[str, int] = {}  # uid -> the revision that its agent has
        self._plans: dict[str, int] = {}  # uid -> that of its plan, where we know it

    async def run(self) -> None:
        """Run until cancelled; what there is already is looked at once, for tokens and changes."""
        try:
            for informer, handler in self._sources:
                await informer.synced()
                informer.subscribe(handler)
            self._cached.subscribe(self._pod_changed)
            self._has_begun = True
            for state in self._pods:
                self._queue.add(state.uid)
            async with asyncio.TaskGroup() as group:
                for number in range(_WORKERS):
                    group.create_task(self._work(), name=f"live sources {number}")
        finally:
            for informer, handler in self._sources:
                informer.unsubscribe(handler)
            self._cached.unsubscribe(self._pod_changed)
            self._queue.close()

    # What changes

    def follow(self, uid: str) -> None:
        """Follow a pod whose plan was just made: nothing is to be done before its first token is
        old.
        """
        self._plans[uid] = 0
        self._queue.add_after(uid, self._live_plans.renewal.first_look)

    def on_hello(self, state: PodState, revision: int | None) -> None:
        """Handle an agent's hello; one that says no revision is of an earlier version and cannot be
        told.
        """
        self._agents.pop(state.uid, None)
        if revision is None:
            return
        self._agents[state.uid] = revision
        if self._plans.get(state.uid, revision + 1) > revision:
            self._queue.add(state.uid)

    def on_silence(self, state: PodState) -> None:
        self._agents.pop(state.uid, None)

    def _source_changed(self, kind: str, event: WatchEvent, former: Obj | None) -> None:
        if not self._has_begun:
            return
        is_trust = kind == CLUSTER_TRUST_BUNDLE.kind
        for uid in self._users.get(kind if is_trust else f"{kind} {key_of(event.object)}", ()):
            if kind != PERSISTENT_VOLUME_CLAIM.kind:  # a claim only lets pods begin
                self._queue.add(uid)
            self._wake((uid,))

    def _pod_changed(self, event: WatchEvent, former: Obj | None) -> None:
        pod = event.object
        if event.type == "DELETED":
            self._forget(pod)
        elif former is None:
            for source in _sources_of(pod):
                self._users.setdefault(source, set()).add(uid_of(pod))
            if wants_trust_bundles(pod):
                self._follow_trust()
        elif _face(pod) != _face(former) and _knows_itself(pod):
            self._queue.add(uid_of(pod))

    def _follow_trust(self) -> None:
        """Follow trust bundles once a pod wants them: an API server of upstream's may not have the
        kind.
        """
        if not self._follows_trust:
            self._follows_trust = True
            bundles = self._informers.metadata(CLUSTER_TRUST_BUNDLE)
            handler = partial(self._source_changed, bundles.kind.kind)
            self._sources.append((bundles, handler))
            bundles.subscribe(handler)

    def _forget(self, pod: Obj) -> None:
        uid = uid_of(pod)
        for source in _sources_of(pod):
            users = self._users.get(source, set())
            users.discard(uid)
            if not users:
                self._users.pop(source, None)
        self._agents.pop(uid, None)
        self._plans.pop(uid, None)
        self._queue.forget(uid)

    # The work

    async def _work(self) -> None:
        while True:
            uid = await self._queue.get()
            try:
                await self._refresh(uid)
                self._queue.forget(uid)
            except (errors.Error, OSError) as error:
                delay = self._queue.add_rate_limited(uid)
                log.warning("pod not brought up to date", pod=uid, error=error, again_in=delay)
            except Exception:
                self._queue.add_rate_limited(uid)
                log.error("pod not brought up to date", pod=uid, exc_info=True)
            finally:
                self._queue.done(uid)

    async def _refresh(self, uid: str) -> None:
        """Refresh one pod.

        1. Its plan, if it has one: there is none before its job is asked for.
        2. Its agent, if it has an older plan; and when to look again at its tokens.
        """
        state = self._pods.get(uid)
        pod = self._cached.get(state.key) if state is not None else None
        if state is None or pod is None or uid_of(pod) != uid or is_terminal(pod):
            return
        if state.journal.finished is not None:
            return
        if not state.folder.was_submitted:
            if state.trouble is None:  # else it is prepared anew anyway
                self._queue.add_after(uid, _NOT_YET)
            return
        now = self._clock.now()
        plan = await self._live_plans.renewed(pod, state, now)  # 1
        if plan is None:
            return
        self._plans[uid] = revision_of(plan)
        await self._push(state, plan)  # 2
        renewal = self._live_plans.renewal
        dues = [renewal.due(token) for token in tokens_in(plan, pod).values()]
        if dues:
            self._queue.add_after(uid, max(min(dues) - now, 1.0))

    async def _push(self, state: PodState, plan: Obj) -> None:
        connection, revision = state.connection, revision_of(plan)
        if connection is None or self._agents.get(state.uid, revision) >= revision:
            return
        for message in messages(plan):
            # Not msgspec: a variable may hold bytes that are no text, as surrogates.
            await connection.send(0, json.dumps(message, separators=(",", ":")).encode())
        if state.connection is connection:
            self._agents[state.uid] = revision
            log.debug("told agent of changes", pod=str(state.key), revision=revision)


def _face(pod: Obj) -> tuple[Obj, Obj]:
    return labels_of(pod), annotations_of(pod)


def _knows_itself(pod: Obj) -> bool:
    """Return whether anything in the pod holds its labels or annotations."""
    return any(path.startswith(_CHANGING) for path in _field_paths(pod["spec"]))


def _field_paths(spec: Obj) -> Iterator[str]:
    volumes = spec.get("volumes") or []
    projected = [one["projected"].get("sources") or [] for one in volumes if one.get("projected")]
    for one in [*volumes, *(source for sources in projected for source in sources)]:
        for item in (one.get("downwardAPI") or {}).get("items") or []:
            yield (item.get("fieldRef") or {}).get("fieldPath", "")
    for container in [*spec["containers"], *(spec.get("initContainers") or [])]:
        for variable in container.get("env") or []:
            source = variable.get("valueFrom") or {}
            yield (source.get("fieldRef") or {}).get("fieldPath", "")
