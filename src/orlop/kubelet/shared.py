"""Holds what most parts of a kubelet share: its pods, its work queue, and who hears of them.

Made first by the kubelet's wiring. A part that is handed these needs nothing of the kubelet itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..api.kinds import POD
from ..client.recorder import Recorder
from ..client.workqueue import Backoff, WorkQueue
from ..network.addresses import PodAddresses
from ..network.ranges import Ranges
from ..settings import Paths
from .configuration import KubeletDependencies
from .node.health import EngineHealth
from .pod.cache import PodCache
from .pod.events import Events
from .pod.pods import Pods
from .status.status_writer import StatusWriter
from .tasks import Tasks

_RETRY = Backoff(first=0.1, longest=30.0)


@dataclass(frozen=True, slots=True)
class Shared:
    cache: PodCache
    queue: WorkQueue[str]  # uids of pods of which there is news
    tasks: Tasks
    events: Events
    health: EngineHealth
    writer: StatusWriter

    @classmethod
    def of(cls, given: KubeletDependencies, paths: Paths, ranges: Ranges) -> Shared:
        clock = given.clock
        health = EngineHealth(clock)
        events = Events(Recorder(given.api, "kubelet", clock=clock))
        return cls(
            PodCache(given.informers.informer(POD), Pods(paths, PodAddresses(ranges.pods))),
            WorkQueue(backoff=_RETRY, clock=clock, name="kubelet"),
            Tasks(),
            events,
            health,
            StatusWriter(given.api, events, health, clock),
        )
