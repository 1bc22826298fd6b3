"""Starts a bound pod: waits for what it depends on, has it prepared, and has its job submitted.

Called by the pod's worker until the pod has a job. Each way in which that can fail becomes what the
pod says of itself and a time of the next try.
"""

from __future__ import annotations

from ... import errors
from ...api.objects import Obj
from ..node.health import EngineHealth
from ..pod.dependants import Dependants
from ..pod.pods import PodState
from ..status.pod_status import PendingReason
from .backoff import PodBackoff
from .dependencies import Dependencies
from .job_submission import JobSubmitter
from .preparer import PodPreparer

CROWD = 20  # pods that are being started at once, from which on their news are told together


class PodStarter:
    def __init__(
        self,
        dependencies: Dependencies,
        dependants: Dependants,
        preparer: PodPreparer,
        jobs: JobSubmitter,
        backoff: PodBackoff,
        health: EngineHealth,
    ) -> None:
        self._dependencies = dependencies
        self._dependants = dependants
        self._preparer = preparer
        self._jobs = jobs
        self._backoff = backoff
        self._health = health
        self._starting = 0  # pods that are being prepared or submitted now

    def is_one_of_many(self, state: PodState) -> bool:
        """Return whether a pod was just submitted as one of many, and its agent has said nothing
        yet.
        """
        return state.job_id is not None and not state.journal.seq and self._starting >= CROWD

    async def start(self, pod: Obj, state: PodState) -> None:
        """Go as far as it goes now: afterwards the pod has a job, or says what it waits for."""
        self._starting += 1
        try:
            await self._try(pod, state)
        finally:
            self._starting -= 1

    async def _try(self, pod: Obj, state: PodState) -> None:
        if self._backoff.is_early(state):
            return
        if self._health.is_down:
            state.trouble = _unreachable(self._health.last)
            return
        refuse, delays = self._backoff.refuse_job, self._backoff.delays
        try:
            wanted = await self._depending(pod, state)
            if not state.folder.was_submitted and not await self._prepare(pod, state):
                return
            self._dependants.wake(await self._jobs.submit(wanted, state))
        except errors.EngineUnavailable as error:
            state.trouble = _unreachable(str(error))
        except errors.WaitingForGang as error:
            self._backoff.await_others(pod, state, "WaitingForGang", str(error))
        except errors.WaitingForDependency as error:
            self._dependants.add(state)
            self._backoff.await_others(pod, state, "Dependency", str(error))
        except errors.DependencyNeverSatisfied as error:
            refuse(pod, state, "DependencyNeverSatisfied", error, delays.rejected)
        except errors.SubmitDeferred as error:
            refuse(pod, state, "SubmitDeferred", error, delays.deferred)
        except (errors.SubmitRejected, errors.ConfigError) as error:
            refuse(pod, state, "SubmitRejected", error, delays.rejected)
        except errors.EngineError as error:  # an answer, but to a question on the way to sbatch
            refuse(pod, state, "SubmitDeferred", error, delays.deferred)

    async def _prepare(self, pod: Obj, state: PodState) -> bool:
        return await self._preparer.prepare(pod, state, lambda: self._starting)

    async def _depending(self, pod: Obj, state: PodState) -> Obj:
        """Return the pod with what Slurm is told that it waits for."""
        try:
            return await self._dependencies.met(pod)
        except (errors.WaitingForDependency, errors.DependencyNeverSatisfied):
            if not state.folder.was_submitted:
                raise
            # Its sbatch was begun when they were met: its job is only to be found again.
            return self._dependencies.without_names(pod)


def _unreachable(message: str) -> PendingReason:
    return PendingReason("EngineUnavailable", message, by_engine=True)
