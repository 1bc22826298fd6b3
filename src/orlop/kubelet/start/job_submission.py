"""Asks the engine for a pod's job, once the pod's folder is ready.

Called by what starts pods. An engine that does not answer is told as such to whoever polls it; what
a refusal means for the pod is for the caller, who gets it as an error.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ... import errors
from ...api.objects import Obj
from ...client.clock import Clock
from ...engine import Engine, Submission
from ...log import logger
from ...settings import Settings
from ...wellknown import AGENT_LAUNCH
from ..node.registration import Nodes
from ..pod.events import Events
from ..pod.folder import PodFolder
from ..pod.job_poller import JobPoller
from ..pod.pods import PodState
from .gangs import Gangs
from .slurm_policy import PolicySources

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class Submissions:
    """Makes the submission of a pod; `command` is how its job starts the agent."""

    nodes: Nodes
    gangs: Gangs
    policy: PolicySources
    events: Events
    command: Callable[[PodFolder], tuple[str, ...]]

    async def of(self, pod: Obj, state: PodState) -> Submission:
        machine = self.nodes.machine_of(pod["spec"]["nodeName"])
        gang = await self.gangs.of(pod)
        command = self.command(state.folder)
        around = await self.policy.around(pod)
        warn = partial(self.events.tell, pod, "Warning", "SubmitWarning")
        return Submission(pod, state.folder.path, command, machine, gang, around, warn)


@dataclass(frozen=True, slots=True)
class JobSubmitter:
    """`follow` is told, by uid, of each pod whose job is asked for."""

    engine: Engine
    submissions: Submissions
    poller: JobPoller
    events: Events
    follow: Callable[[str], None]
    clock: Clock

    async def submit(self, pod: Obj, state: PodState) -> frozenset[str]:
        """Submit the pod; return the others of its gang, by uid, who need wait no more."""
        began = self.clock.now()
        submission = await self.submissions.of(pod, state)
        try:
            state.job_id = await self.engine.submit(submission)
        except errors.EngineUnavailable as error:
            self.poller.missed(error)
            raise
        state.submitted = self.clock.now()
        state.trouble, state.failures, state.retry_at = None, 0, 0.0
        took, machine = round(state.submitted - began, 4), submission.machine
        log.info("submitted job", pod=str(state.key), job=state.job_id, on=machine, seconds=took)
        self.follow(state.uid)
        message = f"Submitted job {state.job_id} to {machine}"
        self.events.tell(pod, "Normal", "Submitted", message)
        self.poller.heard()
        gang = submission.gang
        return gang.peers - {state.uid} if gang is not None else frozenset()


def agent_command(settings: Settings, agent_file: Path) -> Callable[[PodFolder], tuple[str, ...]]:
    """Return how a job starts the agent; a virtual environment's Python by its own path."""
    python = settings.agent.python or os.path.realpath(sys.executable)
    launch = (python, "-I", "-S", "-c", AGENT_LAUNCH, str(agent_file))
    return lambda folder: (*launch, str(folder.path))
