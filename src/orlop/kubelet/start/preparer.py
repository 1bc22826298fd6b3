"""Runs the preparation of a pod as a task that can be ended, and says on the pod why it failed.

Called by what starts pods. A preparation that takes long is shown on the pod; one that fails is
tried again by the back-off of what went wrong. What is prepared is `preparation.py`'s.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from ... import errors
from ...api.objects import Obj
from ...client.clock import Clock
from ...log import logger
from ..planning.refusal import Refusal
from ..pod.events import Events
from ..pod.pods import PodState
from ..pod.reporter import PodReporter
from ..status.pod_status import PendingReason
from ..tasks import Spawn
from .backoff import PodBackoff
from .image_puller import PullFailure
from .preparation import Preparation

SLOW = 0.1  # preparing that takes longer is shown on the pod
# Of many pods that start together each waits for all others: nothing of it is worth a write.
SLOW_EACH = 0.02

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class PodPreparer:
    preparation: Preparation
    reporter: PodReporter
    events: Events
    backoff: PodBackoff
    spawn: Spawn
    clock: Clock

    async def prepare(self, pod: Obj, state: PodState, crowd: Callable[[], int]) -> bool:
        """Make the folder ready; return False where that failed, or the pod is not wanted any
        more.

        `crowd` returns how many pods are being started at this moment.
        """
        task = self.spawn(self._try(pod, state), f"prepare {state.key}")
        state.preparing = task
        try:
            if await self._is_slow(task, crowd):
                await self.reporter.write(pod, state)
                await asyncio.wait({task})
        finally:
            state.preparing = None
            task.cancel()
        return not task.cancelled() and task.result()

    async def _is_slow(self, task: asyncio.Task[bool], crowd: Callable[[], int]) -> bool:
        """Return whether preparing takes longer than it must; the crowd may grow while it is waited
        for.
        """
        began = self.clock.now()
        while not task.done():
            left = began + max(SLOW, SLOW_EACH * crowd()) - self.clock.now()
            if left <= 0:
                return True
            await asyncio.wait({task}, timeout=left)
        return False

    async def _try(self, pod: Obj, state: PodState) -> bool:
        refuse, delays = self.backoff.refuse, self.backoff.delays
        try:
            await self.preparation.prepare(pod, state)
        except PullFailure as failure:
            self._not_pulled(pod, state, failure)
        except Refusal as refusal:
            trouble = PendingReason(refusal.reason, refusal.message, refusal.container)
            event = (refusal.event, refusal.event_message)
            refuse(pod, state, trouble, event, delays.config)
        except errors.Error as error:
            trouble = PendingReason("CreateContainerConfigError", str(error))
            refuse(pod, state, trouble, ("Failed", f"Error: {error}"), delays.config)
        except OSError as error:
            text = f"{state.folder.path}: {error.strerror or error}; check space, quota and rights"
            trouble = PendingReason("CreateContainerError", text)
            refuse(pod, state, trouble, ("Failed", f"Error: {text}"), delays.rejected)
        except Exception as error:
            # A bug of ours, or a pod that nobody thought of: it must not end the kubelet.
            log.error("pod not prepared", pod=str(state.key), exc_info=True)
            trouble = PendingReason("CreateContainerError", f"{type(error).__name__}: {error}")
            refuse(pod, state, trouble, ("Failed", trouble.message), delays.rejected)
        else:
            return True
        return False

    def _not_pulled(self, pod: Obj, state: PodState, failure: PullFailure) -> None:
        reason, message = failure.reason, failure.message
        told = f'Failed to pull image "{failure.image}": {message}'
        if reason == "ErrImagePull" and state.failures:
            reason = "ImagePullBackOff"
            message = f'Back-off pulling image "{failure.image}": ErrImagePull: {message}'
        self.events.tell(pod, "Warning", "Failed", told)
        trouble = PendingReason(reason, message, failure.container)
        event = ("Failed", f"Error: {reason}")
        self.backoff.refuse(pod, state, trouble, event, self.backoff.delays.image)
