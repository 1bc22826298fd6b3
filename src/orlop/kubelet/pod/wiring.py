"""Puts together the worker of pods, from the parts that the kubelet's wiring has made before.

Called once for a kubelet. The order is that of what is handed on; nothing runs yet.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..configuration import KubeletConfiguration, KubeletDependencies
from ..node.wiring import EngineParts
from ..shared import Shared
from ..start.backoff import PodBackoff
from ..start.dependencies import Dependencies
from ..start.gangs import Gangs
from ..start.job_submission import JobSubmitter, Submissions
from ..start.preparation import Preparation
from ..start.preparer import PodPreparer
from ..start.slurm_policy import PolicySources
from ..start.starter import PodStarter
from .dependants import Dependants
from .ephemeral_containers import EphemeralContainers
from .folder import PodFolder
from .job_ending import JobEnding
from .reporter import PodReporter
from .requeue import Requeues
from .termination import Termination
from .worker import PodWorker


@dataclass(frozen=True, slots=True)
class PodWiring:
    given: KubeletDependencies
    configuration: KubeletConfiguration
    shared: Shared
    engine: EngineParts
    preparation: Preparation
    dependants: Dependants

    def worker(
        self, follow: Callable[[str], None], command: Callable[[PodFolder], tuple[str, ...]]
    ) -> PodWorker:
        """Return the worker; `follow` is told of pods whose job is asked for, `command` is how a
        job starts its agent.
        """
        shared, clock = self.shared, self.given.clock
        reporter = PodReporter(shared.writer, shared.events, shared.queue, clock)
        return PodWorker(
            shared.cache,
            reporter,
            self._starter(reporter, self._jobs(follow, command)),
            EphemeralContainers(
                self.preparation, shared.events, shared.queue, shared.tasks.spawn, clock
            ),
            Requeues(
                self.given.engine, shared.events, shared.health, shared.queue, self.engine.poller
            ),
            self._termination(),
        )

    def _starter(self, reporter: PodReporter, jobs: JobSubmitter) -> PodStarter:
        shared, clock = self.shared, self.given.clock
        backoff = PodBackoff(shared.events, shared.queue, clock, self.configuration.backoffs)
        preparer = PodPreparer(
            self.preparation, reporter, shared.events, backoff, shared.tasks.spawn, clock
        )
        dependencies = Dependencies(self.given.api)
        return PodStarter(dependencies, self.dependants, preparer, jobs, backoff, shared.health)

    def _jobs(
        self, follow: Callable[[str], None], command: Callable[[PodFolder], tuple[str, ...]]
    ) -> JobSubmitter:
        given, events = self.given, self.shared.events
        gangs = Gangs(given.api, self.shared.cache.informer)
        policy = PolicySources(given.informers)
        submissions = Submissions(self.engine.nodes, gangs, policy, events, command)
        poller = self.engine.poller
        return JobSubmitter(given.engine, submissions, poller, events, follow, given.clock)

    def _termination(self) -> Termination:
        given, shared, poller = self.given, self.shared, self.engine.poller
        jobs = JobEnding(given.engine, shared.queue, poller, shared.health, given.clock)
        ended = self.engine.accounts.add
        return Termination(given.api, shared.cache.pods, jobs, shared.writer, shared.queue, ended)
