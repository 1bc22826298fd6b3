"""Puts the controllers of Slurm's own jobs together, for the control plane to run.

Made where the engine is Slurm. Each controller runs while its kinds are ours; the queue is asked
for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ...api.objects import Obj
from ...client.api import Api
from ...client.clock import Clock, SystemClock
from ...client.informer import Informers
from ...controllers.framework.controller import Runnable
from ...destinations import Destinations
from ...settings import Paths, Settings
from ...slurm.submit.user_slurm import UserSlurm
from ..bridgejob.controller import BridgeJobs
from ..bundled import RunWhileInstalled
from ..wlmjob.controller import WlmJobs, WlmSlurmJobs
from .adapter import Adapter
from .controller import Site, SlurmJobs
from .kinds import BRIDGE_JOB, SITE_KINDS, SLURM_JOB, WLM_JOB, WLM_SLURM_JOB
from .queue import Queue
from .queue_mirror import ShownJobs
from .site_objects import SiteObjects

ADAPTERS: tuple[type[Adapter], ...] = (WlmSlurmJobs, WlmJobs, BridgeJobs)
# Definitions that mean nothing without Slurm.
DEFINITIONS = tuple(
    kind.resource for kind in (SLURM_JOB, WLM_SLURM_JOB, WLM_JOB, BRIDGE_JOB, *SITE_KINDS)
)


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
        self._slurm = slurm
        self._every = ticks.idle_tick
        self._destinations = Destinations.of(settings.network.allow_destinations)
        self._is_shown = settings.slurm.show_queue
        self._site = Site(slurm, self.queue, paths, settings.slurm)
        self._jobs: SlurmJobs | None = None

    def controllers(self) -> list[Runnable]:
        """Return the controllers, to be run side by side as long as the control plane runs."""
        jobs = SLURM_JOB.resource
        found: list[Runnable] = [
            self.queue,
            RunWhileInstalled(self._informers, [jobs], self._make_jobs),
        ]
        found += [
            RunWhileInstalled(self._informers, [jobs, adapter.kind.resource], self._maker(adapter))
            for adapter in ADAPTERS
        ]
        if self._is_shown:
            found.append(RunWhileInstalled(self._informers, [jobs], self._make_shown))
            site = [kind.resource for kind in SITE_KINDS]
            found.append(RunWhileInstalled(self._informers, site, self._make_site))
        return found

    def _make_jobs(self) -> list[Runnable]:
        self._jobs = SlurmJobs(self._api, self._informers, self._site, clock=self._clock)
        return [self._jobs]

    def _maker(self, adapter: type[Adapter]) -> Callable[[], list[Runnable]]:
        def make() -> list[Runnable]:
            made = adapter(self._api, self._informers, clock=self._clock)
            made.destinations = self._destinations
            return [made]

        return make

    def _make_shown(self) -> list[Runnable]:
        return [ShownJobs(self._api, self._informers, self._slurm, self.queue, clock=self._clock)]

    def _make_site(self) -> list[Runnable]:
        commands = self._slurm.commands
        return [
            SiteObjects(self._api, self._informers, commands, every=self._every, clock=self._clock)
        ]

    def output_of(self, pod: Obj, container: str) -> Path | None:
        """Return where a container's output lies; see kubelet.server.mirror_logs.Outputs."""
        return self._jobs.output_of(pod, container) if self._jobs is not None else None
