"""Puts a kubelet together: makes its parts in order and hands each what it needs.

Called by the control plane. A part is made after those that it is handed; what would go the other
way goes over the work queue or a callable, and none is handed the kubelet. Nothing runs before
`Kubelet.run`.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..network.ranges import Ranges
from .configuration import (
    KubeletConfiguration,
    KubeletCredentials,
    KubeletDependencies,
    NodePrograms,
)
from .network.wiring import NetworkParts, wire_network
from .node.wiring import EngineParts, wire_engine
from .planning.live_updates import LiveSources
from .planning.site import plan_site
from .planning.wiring import cluster_facts, wire_live_plans, wire_live_sources, wire_preparation
from .pod.dependants import Dependants
from .pod.event_handlers import PodEvents
from .pod.wiring import PodWiring
from .pod.worker import PodWorker
from .server.wiring import ServerParts, ServerWiring
from .shared import Shared
from .start.job_submission import agent_command


@dataclass(frozen=True, slots=True)
class PodParts:
    """What is done for pods: by the worker, while they run, and when the API's pods change."""

    worker: PodWorker
    live: LiveSources
    changes: PodEvents


@dataclass(frozen=True, slots=True)
class Parts:
    """All parts of a kubelet."""

    shared: Shared
    network: NetworkParts
    engine: EngineParts
    pods: PodParts
    serving: ServerParts


def wire(
    given: KubeletDependencies,
    configuration: KubeletConfiguration,
    credentials: KubeletCredentials,
    programs: NodePrograms,
) -> Parts:
    """Make all parts.

    1. What most of them share, and the network.
    2. What is asked of the engine.
    3. What makes plans.
    4. What works on pods.
    5. What listens.
    """
    settings, token_key = configuration.settings, credentials.token_key
    ranges = Ranges.of(settings.network)
    shared = Shared.of(given, configuration.paths, ranges)  # 1
    network = wire_network(given, shared, ranges, token_key)
    engine = wire_engine(given, settings.slurm, shared)  # 2
    nodes, dependants = engine.nodes, Dependants(shared.cache.pods, shared.queue)
    site = plan_site(configuration, programs, ranges, token_key)  # 3
    facts = cluster_facts(site, token_key, settings.slurm.command_timeout)
    preparation = wire_preparation(given, shared, network, nodes, facts)
    plans = wire_live_plans(given, shared, network, nodes, site, configuration.renewal)
    live = wire_live_sources(given, shared, plans, dependants)
    pods = PodWiring(given, configuration, shared, engine, preparation, dependants)  # 4
    worker = pods.worker(live.follow, agent_command(settings, programs.agent))
    changes = PodEvents(shared.cache, nodes, dependants, shared.queue)
    listening = ServerWiring(given, shared, network, engine)  # 5
    serving = listening.parts(live, token_key, settings.autoscaling.metric_resolution)
    return Parts(shared, network, engine, PodParts(worker, live, changes), serving)
