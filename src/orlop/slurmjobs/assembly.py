"""Puts the controllers of Slurm's own jobs together, for the control plane to run.

Made where the engine is Slurm. Each controller runs while its kinds are ours; the queue is asked
for all of them.
"""

from __future__ import annotations

from pathlib import Path

from ..api.objects import Obj
from ..client.api import Api
from ..client.clock import Clock, SystemClock
from ..client.informer import Informers
from ..controllers.bundled import Runnable, WhileOurs
from ..settings import Paths, Settings
from ..slurm.userslurm import UserSlurm
from .controller import Site, SlurmJobs
from .kinds import SLURM_JOB
from .queue import Queue

# Definitions that mean nothing without Slurm.
DEFINITIONS = (SLURM_JOB.resource,)


class SlurmObjects:
    def __init__(
        self,
        api: Api,
        informers: Informers,
        slurm: UserSlurm,
        settings: Settings,
        paths: Paths,
        *,
        clock: Clock | None = None,
    ) -> None:
        self._api = api
        self._informers = informers
        self._clock = clock or SystemClock()
        ticks = settings.slurm
        self.queue = Queue(slurm, busy=ticks.busy_tick, idle=ticks.idle_tick, clock=self._clock)
        self._site = Site(slurm, self.queue, paths, settings.slurm)
        self._jobs: SlurmJobs | None = None

    def controllers(self) -> list[Runnable]:
        """To be run side by side, for as long as the control plane runs."""
        return [self.queue, WhileOurs(self._informers, [SLURM_JOB.resource], self._make_jobs)]

    def _make_jobs(self) -> list[Runnable]:
        self._jobs = SlurmJobs(self._api, self._informers, self._site, clock=self._clock)
        return [self._jobs]

    def output_of(self, pod: Obj, container: str) -> Path | None:
        """See kubelet.mirror_logs.Outputs."""
        return self._jobs.output_of(pod, container) if self._jobs is not None else None
