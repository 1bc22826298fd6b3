"""Puts together the kubelet's listener: for agents, the API server, and readers of usage.

Called last by the kubelet's wiring: what agents say goes to parts that are there by then. It does
not listen yet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..agents.endpoint import AgentEndpoint
from ..agents.events import AgentEvents
from ..agents.group_exec import GroupCommands
from ..configuration import KubeletDependencies
from ..network.wiring import NetworkParts
from ..node.wiring import EngineParts
from ..planning.live_updates import LiveSources
from ..shared import Shared
from .access import Access
from .measurements import Measurements
from .resource_metrics import ResourceMetrics
from .server import KubeletServer, MirrorPods
from .usage_pages import UsagePages


@dataclass(frozen=True, slots=True)
class ServerParts:
    server: KubeletServer
    agents: AgentEvents
    metrics: ResourceMetrics


@dataclass(frozen=True, slots=True)
class ServerWiring:
    given: KubeletDependencies
    shared: Shared
    network: NetworkParts
    engine: EngineParts

    def parts(self, live: LiveSources, token_key: bytes, resolution: float) -> ServerParts:
        """Return the parts; usage is measured at most once in `resolution` seconds."""
        given, shared, engine = self.given, self.shared, self.engine
        pods, cached = shared.cache.pods, shared.cache.informer
        agents = self._agents(live)
        measurements = Measurements(pods, cached, given.clock, resolution)
        server = KubeletServer(
            pods,
            cached,
            shared.writer,
            AgentEndpoint(pods, cached, agents, token_key),
            UsagePages(measurements, Access(given.api)),
            MirrorPods(self.network.mirrors, given.outputs),
        )
        metrics = ResourceMetrics(measurements, engine.nodes, engine.node_cache, given.clock)
        return ServerParts(server, agents, metrics)

    def _agents(self, live: LiveSources) -> AgentEvents:
        shared, clock, network = self.shared, self.given.clock, self.network.network
        cache, spawn = shared.cache, shared.tasks.spawn
        commands = GroupCommands(cache.pods, cache.informer, spawn, clock, self._records)
        ask_engine = self.engine.poller.ask
        return AgentEvents(shared.queue, live, network, commands, ask_engine, clock)

    def _records(self, service: str, namespace: str) -> Any:
        domain = self.network.ranges.domain
        return self.network.network.view.value(f"name/{service}.{namespace}.svc.{domain}")
