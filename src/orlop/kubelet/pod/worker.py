"""Works on a pod from bound to gone: looks at everything known of it and does the next thing.

Called by the kubelet with a pod's uid whenever something about it changed: its object, its agent's
reports, the engine's answer, time. Level-based: what is to be done follows from what is so now, not
from what happened, so that a control plane killed anywhere goes on where it was. Nothing about a
pod is written before its job is asked for, unless preparing it takes long.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...api.objects import is_deleting, is_terminal
from ..start.starter import PodStarter
from .cache import PodCache
from .ephemeral_containers import EphemeralContainers
from .reporter import PodReporter
from .requeue import Requeues
from .termination import Termination

TOGETHER = 2.0  # seconds in which the engine's or the agent's first word on one of many comes


@dataclass(frozen=True, slots=True)
class PodWorker:
    cache: PodCache
    reporter: PodReporter
    starter: PodStarter
    ephemeral: EphemeralContainers
    requeues: Requeues
    termination: Termination

    async def reconcile(self, uid: str) -> None:
        """Do the next thing for a pod.

        1. Without an object: end what is left of it.
        2. Read what its agent wrote and nobody told us.
        3. Over: see that its job is too. Being deleted: end it. New: start it.
        4. Write the status where it differs.
        """
        state = self.cache.pods.get(uid)
        if state is None:
            return
        pod = self.cache.newest(state)
        if pod is None:  # 1
            await self.termination.reap(state)
            return
        self.reporter.catch_up(pod, state)  # 2
        if is_terminal(pod):  # 3
            await self.termination.after_end(pod, state)
        elif is_deleting(pod):
            await self.termination.delete(pod, state)
        else:
            if state.job_id is None:
                await self.starter.start(pod, state)
                if self.starter.is_one_of_many(state):
                    # One write then tells of its job and of what is first heard of that.
                    self.reporter.later(state, TOGETHER)
                    return
                # Where that took long, the pod may be over by now.
                self.reporter.catch_up(pod, state)
            self.ephemeral.sync(pod, state)
            if self.reporter.awaits_last_word(state):
                return
            if not await self.requeues.keeps(pod, state):
                await self.reporter.write(pod, state)  # 4
