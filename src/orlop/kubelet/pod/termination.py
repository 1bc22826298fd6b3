"""Ends pods: those being deleted, those whose object is gone, and jobs that outlive their pod.

Used by the pod's worker. An object goes when nothing of it runs, a folder when its object and its
job are gone. No job is ended because a cache says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from ... import errors
from ...api.kinds import POD
from ...api.objects import Key, Obj, is_deleting, uid_of
from ...client.api import Api
from ...client.workqueue import WorkQueue
from ...engine import JobId
from ...log import logger
from ..status.status_writer import StatusWriter
from . import job_ending
from .job_ending import JobEnding
from .pods import Pods, PodState

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class Termination:
    """`ended` is told of each pod whose job is over, and whose object stays."""

    api: Api
    pods: Pods
    jobs: JobEnding
    writer: StatusWriter
    queue: WorkQueue[str]
    ended: Callable[[Key, str, JobId | None], None]

    async def delete(self, pod: Obj, state: PodState) -> None:
        """End a pod that is being deleted, and remove its object when nothing of it runs."""
        if not await self.jobs.is_known(state):
            await self.writer.say_waiting(pod, state)
            return
        if not state.has_ended:
            await self.jobs.end(pod, state)
            await self.writer.write(pod, state)
            await self.writer.say_waiting(pod, state)
            return
        if state.job_id is not None:
            await self.writer.write(pod, state)
        await self._remove_object(state)

    async def after_end(self, pod: Obj, state: PodState) -> None:
        """End the job of a pod that is over and needs none; its object may be waiting to go."""
        if not state.has_ended:
            patience = job_ending.PATIENCE if is_deleting(pod) else job_ending.AFTERLIFE
            await self.jobs.end_outliving(state, patience)
            if is_deleting(pod):
                await self.writer.say_waiting(pod, state)
        elif is_deleting(pod):
            await self._remove_object(state)
        else:
            self.ended(state.key, state.uid, state.job_id)
            self._forget(state)

    async def reap(self, state: PodState) -> None:
        """End the job, if there is one, of a pod whose object is gone, then remove the folder."""
        if not await self._is_gone(state):
            self.queue.add_after(state.uid, job_ending.RETRY)
            return
        if not await self.jobs.is_known(state):
            return
        if not state.has_ended:
            await self.jobs.end_orphaned(state)
            return
        if not await asyncio.to_thread(state.folder.remove):
            log.warning("pod folder not removed", folder=state.folder.path)
        self._forget(state)

    # Parts

    async def _remove_object(self, state: PodState) -> None:
        try:
            await self.api.delete(POD, state.key, grace=0, uid=state.uid)
        except errors.NotFound:
            return
        except errors.Conflict:  # another of its name, or somebody wrote at every try
            if not await self._is_gone(state):
                self.queue.add_after(state.uid, job_ending.RETRY)
            return
        log.info("removed pod", pod=str(state.key), job=state.job_id or "")

    async def _is_gone(self, state: PodState) -> bool:
        """Ask the API itself whether the pod is gone: a cache that is wrong must not end a healthy
        job.
        """
        try:
            pod = await self.api.get(POD, state.key)
        except errors.NotFound:
            return True
        except errors.ApiError as error:
            log.warning("cannot tell whether a pod is gone", pod=str(state.key), error=error)
            return False
        return uid_of(pod) != state.uid

    def _forget(self, state: PodState) -> None:
        if state.connection is not None:
            state.connection.close()
        self.pods.forget(state.uid)
