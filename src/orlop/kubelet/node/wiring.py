"""Puts together what a kubelet asks of its engine for all pods together: nodes, jobs, accounts.

Called by the kubelet's wiring. What is heard goes into the work queue by handlers that know of no
node and no poller; nothing is asked yet.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...api.kinds import NODE
from ...client.informer import Informer
from ...engine.pace import Pace
from ...settings import SlurmSettings
from ..configuration import KubeletDependencies
from ..pod.event_handlers import JobEvents, NodeEvents
from ..pod.job_poller import JobPoller
from ..shared import Shared
from ..status.job_usage import PodAccounts
from .registration import Nodes


@dataclass(frozen=True, slots=True)
class EngineParts:
    nodes: Nodes
    node_cache: Informer
    poller: JobPoller
    accounts: PodAccounts


def wire_engine(given: KubeletDependencies, settings: SlurmSettings, shared: Shared) -> EngineParts:
    engine, health, clock = given.engine, shared.health, given.clock
    node_cache = given.informers.informer(NODE)
    bound = NodeEvents(shared.cache, shared.queue)
    nodes = Nodes(given.api, engine, node_cache, health, bound, clock)
    jobs = JobEvents(shared.cache, shared.queue)
    pace = Pace(settings.busy_tick, settings.idle_tick)
    poller = JobPoller(engine, shared.cache.pods, health, pace, jobs, clock)
    health.subscribe(jobs.on_health)
    health.subscribe(poller.ask)
    return EngineParts(nodes, node_cache, poller, PodAccounts(given.api, engine, clock))
