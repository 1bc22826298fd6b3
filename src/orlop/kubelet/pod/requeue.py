"""Has a job that met its time limit run again, where its pod asks for that.

Used by the pod's worker before it writes how the pod ended: a phase that is final is not left
again, so the engine is asked first. The pod keeps its folder, its volumes and its restart counts,
and is Pending until the engine runs it again. An engine that refuses is told, and the pod ends.
"""

from __future__ import annotations

from dataclasses import dataclass

from ... import errors
from ...api.objects import Obj, annotations_of
from ...client.workqueue import WorkQueue
from ...engine import Engine, JobState
from ...wellknown import ON_TIMEOUT
from ..node.health import EngineHealth
from ..status.termination_reason import failed_when_warned, is_requeued, may_be_limit
from .events import Events
from .job_poller import JobPoller
from .pods import PodState

RETRY = 5.0


@dataclass(slots=True)
class Requeues:
    engine: Engine
    events: Events
    health: EngineHealth
    queue: WorkQueue[str]
    poller: JobPoller

    async def keeps(self, pod: Obj, state: PodState) -> bool:
        """Return whether the pod goes on although its job has ended; the status is then left
        alone.
        """
        job = state.job
        if annotations_of(pod).get(ON_TIMEOUT) != "requeue" or state.requeue_refused:
            return False
        if _awaits_engine(state):
            self.poller.ask()
            return True
        if job is None or job.state is not JobState.TIMEOUT or state.job_id is None:
            return False
        if _ended_otherwise(state):
            return False
        if state.requeued == job.restarts:  # the engine's answer is from before
            self.poller.ask()
            return True
        try:
            await self.engine.requeue(state.job_id)
        except errors.EngineUnavailable as error:
            self.health.silent(error)
            self.queue.add_after(state.uid, RETRY)
            return True
        except errors.WaitingForGang:
            self.queue.add_after(state.uid, RETRY)
            return True
        except errors.EngineError as error:
            state.requeue_refused = True
            message = f"job {state.job_id} met its time limit and was not requeued: {error}"
            self.events.tell(pod, "Warning", "RequeueFailed", message)
            return False
        state.requeued = job.restarts
        message = f"Job {state.job_id} met its time limit and was requeued, as {ON_TIMEOUT} asks"
        self.events.tell(pod, "Normal", "Requeued", message)
        self.poller.ask()
        return True


def _awaits_engine(state: PodState) -> bool:
    """Return whether its agent's last word may mean the limit, and the engine has not said so
    yet.
    """
    job = state.job
    if state.job_id is None or state.has_vanished or is_requeued(state.journal, job):
        return False
    return failed_when_warned(state.journal) and (job is None or not job.state.has_ended)


def _ended_otherwise(state: PodState) -> bool:
    """Return whether it ended for a reason of its own, just when its limit was near."""
    journal = state.journal
    is_over = journal.finished is not None and not is_requeued(journal, state.job)
    return is_over and not may_be_limit(journal)
