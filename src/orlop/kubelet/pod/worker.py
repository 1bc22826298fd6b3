"""Works on a pod from bound to gone: looks at everything known of it and does the next thing.

Called by the kubelet with a pod's uid whenever something about it changed: its object, its agent's
reports, the engine's answer, time. Level-based: what is to be done follows from what is so now, not
from what happened, so that a control plane killed anywhere goes on where it was. Nothing about a
pod is written before its job is asked for, unless preparing it takes long.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from functools import partial

from ... import errors
from ...api.objects import Obj, controller_of, is_deleting, is_terminal, key_of, uid_of
from ...client.clock import Clock
from ...client.informer import Informer, revision_of
from ...client.recorder import EventType
from ...client.workqueue import Backoff
from ...engine import Engine, JobState, Submission
from ...log import logger
from ..node.health import EngineHealth
from ..node.registration import Nodes
from ..planning.refusal import Refusal
from ..status.pod_status import PendingReason
from ..status.status_writer import StatusWriter
from .dependencies import Dependencies
from .ephemeral_containers import EphemeralContainers
from .events import Events
from .folder import PodFolder
from .gangs import Gangs
from .pods import Pods, PodState
from .preparation import Preparation, PullFailure
from .requeue import Requeues
from .slurm_policy import PolicySources
from .termination import Requeuer, Termination

LAST_WORD = 1.0  # seconds in which the end of a journal may still arrive over a shared file system
OLD = 5.0  # seconds; nodes' clocks may not agree with ours about less
SLOW = 0.1  # preparing that takes longer is shown on the pod
# Of many pods that start together each waits for all others: nothing of it is worth a write.
SLOW_EACH = 0.02
CROWD = 20  # pods that are being started at once, from which on their news are told together
TOGETHER = 2.0  # seconds in which the engine's or the agent's first word on one of them comes
_IMAGE_RETRY = Backoff(first=10.0, longest=300.0)  # as upstream's image back-off
_CONFIG_RETRY = Backoff(first=1.0, longest=30.0)
_REJECTED_RETRY = Backoff(first=5.0, longest=300.0)
_DEFERRED_RETRY = Backoff(first=2.0, longest=60.0)
_OTHERS_RETRY = Backoff(first=0.5, longest=15.0)  # who waits for others is woken by them

log = logger(__name__)


@dataclass(slots=True)
class PodWorker:
    """`spawn` starts a preparation, so that one that is not wanted any more can be ended."""

    engine: Engine
    cached: Informer
    pods: Pods
    nodes: Nodes
    gangs: Gangs
    dependencies: Dependencies
    preparation: Preparation
    termination: Termination
    ephemeral: EphemeralContainers
    requeues: Requeues
    policy: PolicySources
    writer: StatusWriter
    events: Events
    health: EngineHealth
    later: Requeuer
    spawn: Callable[[Coroutine[None, None, bool], str], asyncio.Task[bool]]
    command: Callable[[PodFolder], tuple[str, ...]]
    clock: Clock
    starting: int = 0  # pods that are being prepared or submitted now
    # Pods that wait for what they depend on, by namespace.
    dependants: dict[str, set[str]] = field(default_factory=dict)

    async def reconcile(self, uid: str) -> None:
        """Do the next thing for a pod.

        1. Without an object: end what is left of it.
        2. Read what its agent wrote and nobody told us.
        3. Over: see that its job is too. Being deleted: end it. New: start it.
        4. Write the status where it differs.
        """
        state = self.pods.get(uid)
        if state is None:
            return
        pod = self.pod_of(state)
        if pod is None:  # 1
            await self.termination.reap(state)
            return
        self._catch_up(pod, state)  # 2
        if is_terminal(pod):  # 3
            await self.termination.after_end(pod, state)
        elif is_deleting(pod):
            await self.termination.delete(pod, state)
        else:
            if state.job_id is None:
                await self._start(pod, state)
                if self._is_told_later(state):
                    return
                self._catch_up(pod, state)  # where that took long, the pod may be over by now
            self.ephemeral.sync(pod, state)
            if not self._awaits_last_word(state) and not await self.requeues.keeps(pod, state):
                await self._write(pod, state)  # 4

    def pod_of(self, state: PodState) -> Obj | None:
        """Return the pod's object, as new as we know it; None once it is gone."""
        cached = self.cached.get(state.key)
        if cached is None or uid_of(cached) != state.uid:
            return None
        written = state.written
        if written is not None and revision_of(written) > revision_of(cached):
            return written
        state.written = None
        return cached

    async def _write(self, pod: Obj, state: PodState) -> None:
        written = await self.writer.write(pod, state)
        if written is None:
            self.later.again(state.uid, 1.0)
        elif is_terminal(written):
            self.later.again(state.uid, 0.0)

    def _catch_up(self, pod: Obj, state: PodState) -> None:
        """Read the journal file where no agent speaks, or has just ceased to: there the file
        counts.
        """
        if state.connection is None or state.has_ended:
            state.read_journal()
        for record in state.take_untold():
            kind: EventType = "Warning" if record.kind == "Warning" else "Normal"
            then = _remember_told(state, record.seq)
            is_old = self.clock.now() - record.time > OLD  # of while no kubelet was there
            when = record.time if is_old else None
            self.events.tell(pod, kind, record.reason, record.message, then, when)

    def _awaits_last_word(self, state: PodState) -> bool:
        """Return whether the job is over, as the engine says, and the journal's end is not here
        yet.
        """
        journal, job = state.journal, state.job
        if job is None or job.state not in (JobState.COMPLETED, JobState.FAILED):
            return False
        left = state.ended_seen + LAST_WORD - self.clock.now()
        if journal.finished is not None or left <= 0:
            return False
        self.later.again(state.uid, min(left, 0.25))
        return True

    # Starting

    def _is_told_later(self, state: PodState) -> bool:
        """Return whether a pod was just submitted as one of many: the queue's word on it, or its
        agent's, is near, and one write tells of both.
        """
        if state.job_id is None or state.journal.seq or self.starting < CROWD:
            return False
        self.later.again(state.uid, TOGETHER)
        return True

    async def _start(self, pod: Obj, state: PodState) -> None:
        self.starting += 1
        try:
            await self._try_start(pod, state)
        finally:
            self.starting -= 1

    async def _try_start(self, pod: Obj, state: PodState) -> None:
        left = state.retry_at - self.clock.now()
        if left > 0:
            self.later.again(state.uid, left)  # what woke it may have taken that timer's place
            return
        if self.health.is_down:
            state.trouble = _unreachable(self.health.last)
            return
        try:
            wanted = await self._depending(pod, state)
            if not state.folder.was_submitted and not await self._prepare(pod, state):
                return
            await self._submit(wanted, state)
        except errors.EngineUnavailable as error:
            state.trouble = _unreachable(str(error))
            self.health.silent(error)
            self.later.ask_engine()
        except errors.WaitingForGang as error:
            self._await_others(pod, state, "WaitingForGang", str(error))
        except errors.WaitingForDependency as error:
            self.dependants.setdefault(state.key.namespace, set()).add(state.uid)
            self._await_others(pod, state, "Dependency", str(error))
        except errors.DependencyNeverSatisfied as error:
            self._refuse_submit(pod, state, "DependencyNeverSatisfied", error, _REJECTED_RETRY)
        except errors.SubmitDeferred as error:
            self._refuse_submit(pod, state, "SubmitDeferred", error, _DEFERRED_RETRY)
        except (errors.SubmitRejected, errors.ConfigError) as error:
            self._refuse_submit(pod, state, "SubmitRejected", error, _REJECTED_RETRY)
        except errors.EngineError as error:  # an answer, but to a question on the way to sbatch
            self._refuse_submit(pod, state, "SubmitDeferred", error, _DEFERRED_RETRY)

    async def _depending(self, pod: Obj, state: PodState) -> Obj:
        """Return the pod with what Slurm is told that it waits for."""
        try:
            return await self.dependencies.met(pod)
        except (errors.WaitingForDependency, errors.DependencyNeverSatisfied):
            if not state.folder.was_submitted:
                raise
            # Its sbatch was begun when they were met: its job is only to be found again.
            return self.dependencies.without_names(pod)

    async def _submit(self, pod: Obj, state: PodState) -> None:
        began = self.clock.now()
        machine = self.nodes.machine_of(pod["spec"]["nodeName"])
        gang = await self.gangs.of(pod)
        command = self.command(state.folder)
        around = await self.policy.around(pod)
        warn = partial(self.events.tell, pod, "Warning", "SubmitWarning")
        submission = Submission(pod, state.folder.path, command, machine, gang, around, warn)
        state.job_id = await self.engine.submit(submission)
        state.submitted = self.clock.now()
        state.trouble, state.failures, state.retry_at = None, 0, 0.0
        took = round(state.submitted - began, 4)
        log.info("submitted job", pod=str(state.key), job=state.job_id, on=machine, seconds=took)
        self.later.follow(state.uid)
        words = f"Submitted job {state.job_id} to {machine}"
        self.events.tell(pod, "Normal", "Submitted", words)
        self.health.answered()
        self.later.expect_engine()
        if gang is not None:
            self._wake(gang.peers - {state.uid})

    def _await_others(self, pod: Obj, state: PodState, reason: str, words: str) -> None:
        """Wait for others: said once, and looked at again when the last member of a gang comes, or
        a pod ends.
        """
        trouble = PendingReason(reason, words, by_engine=True)
        if state.trouble != trouble:
            self.events.tell(pod, "Normal", trouble.reason, words)
        delay = _OTHERS_RETRY.delay(state.failures)
        state.trouble = trouble
        state.failures += 1
        state.retry_at = self.clock.now() + delay
        self.later.again(state.uid, delay)

    def on_end(self, namespace: str) -> None:
        """Look again at what depends on a pod that has ended, or soon on its Job."""
        self._wake(self.dependants.pop(namespace, set()))

    def _wake(self, uids: Iterable[str]) -> None:
        """Wake those who have waited for others, as the members of a gang that is complete."""
        for uid in uids:
            peer = self.pods.get(uid)
            if peer is not None and peer.job_id is None and peer.trouble is not None:
                peer.failures, peer.retry_at = 0, 0.0
                self.later.again(uid, 0.0)

    async def _prepare(self, pod: Obj, state: PodState) -> bool:
        """Make the folder ready; return False where that failed, or the pod is not wanted any
        more.
        """
        task = self.spawn(self._try_prepare(pod, state), f"prepare {state.key}")
        state.preparing = task
        try:
            if await self._is_slow(task):
                await self._write(pod, state)
                await asyncio.wait({task})
        finally:
            state.preparing = None
            task.cancel()
        return not task.cancelled() and task.result()

    async def _is_slow(self, task: asyncio.Task[bool]) -> bool:
        """Return whether preparing takes longer than it must; the crowd may grow while it is waited
        for.
        """
        began = self.clock.now()
        while not task.done():
            left = began + max(SLOW, SLOW_EACH * self.starting) - self.clock.now()
            if left <= 0:
                return True
            await asyncio.wait({task}, timeout=left)
        return False

    async def _try_prepare(self, pod: Obj, state: PodState) -> bool:
        try:
            await self.preparation.prepare(pod, state)
        except PullFailure as failure:
            self._not_pulled(pod, state, failure)
        except Refusal as refusal:
            trouble = PendingReason(refusal.reason, refusal.message, refusal.container)
            words = (refusal.event, refusal.event_message)
            self._refuse(pod, state, trouble, words, _CONFIG_RETRY)
        except errors.Error as error:
            trouble = PendingReason("CreateContainerConfigError", str(error))
            self._refuse(pod, state, trouble, ("Failed", f"Error: {error}"), _CONFIG_RETRY)
        except OSError as error:
            text = f"{state.folder.path}: {error.strerror or error}; check space, quota and rights"
            trouble = PendingReason("CreateContainerError", text)
            self._refuse(pod, state, trouble, ("Failed", f"Error: {text}"), _REJECTED_RETRY)
        except Exception as error:
            # A bug of ours, or a pod that nobody thought of: it must not end the kubelet.
            log.error("pod not prepared", pod=str(state.key), exc_info=True)
            trouble = PendingReason("CreateContainerError", f"{type(error).__name__}: {error}")
            self._refuse(pod, state, trouble, ("Failed", trouble.message), _REJECTED_RETRY)
        else:
            return True
        return False

    def _not_pulled(self, pod: Obj, state: PodState, failure: PullFailure) -> None:
        reason, message = failure.reason, failure.message
        words = f'Failed to pull image "{failure.image}": {message}'
        if reason == "ErrImagePull" and state.failures:
            reason = "ImagePullBackOff"
            message = f'Back-off pulling image "{failure.image}": ErrImagePull: {message}'
        self.events.tell(pod, "Warning", "Failed", words)
        trouble = PendingReason(reason, message, failure.container)
        self._refuse(pod, state, trouble, ("Failed", f"Error: {reason}"), _IMAGE_RETRY)

    def _refuse_submit(
        self, pod: Obj, state: PodState, reason: str, error: errors.Error, retry: Backoff
    ) -> None:
        trouble = PendingReason(reason, str(error), by_engine=True)
        self._refuse(pod, state, trouble, (reason, str(error)), retry)

    def _refuse(
        self,
        pod: Obj,
        state: PodState,
        trouble: PendingReason,
        event: tuple[str, str],
        retry: Backoff,
    ) -> None:
        """Keep what went wrong, tell it, and try again after a while that grows."""
        self.events.tell(pod, "Warning", *event)
        delay = retry.delay(state.failures)
        if trouble.by_engine:
            delay *= _spread(pod, state.failures)
        state.trouble = trouble
        state.failures += 1
        state.retry_at = self.clock.now() + delay
        self.later.again(state.uid, delay)


def _spread(pod: Obj, failures: int) -> float:
    """Return a factor from 1 to 1.5: pods of one owner, or of none, come back together, to be one
    array.
    """
    owner = controller_of(pod)
    whose = owner["uid"] if owner is not None else key_of(pod).namespace
    return 1.0 + random.Random(f"{whose} {failures}").random() / 2


def _unreachable(words: str) -> PendingReason:
    return PendingReason("EngineUnavailable", words, by_engine=True)


def _remember_told(state: PodState, seq: int) -> Callable[[], None]:
    return lambda: state.folder.remember_told(seq)
