"""Puts together what makes the plans of pods: before their jobs, and while these run.

Called by the kubelet's wiring, once what the plans have in common is known. Nothing is read or
pulled yet.
"""

from __future__ import annotations

from ...slurm.commands import Commands
from ..configuration import KubeletDependencies
from ..network.wiring import NetworkParts
from ..node.registration import Nodes
from ..pod.dependants import Dependants
from ..shared import Shared
from ..start.image_puller import ImagePuller
from ..start.preparation import ClusterFacts, PodNetwork, Preparation
from .live_plan import TokenRenewal
from .live_updates import LivePlans, LiveSources
from .plan import Site
from .pmi import Pmi


def wire_preparation(
    given: KubeletDependencies,
    shared: Shared,
    network: NetworkParts,
    nodes: Nodes,
    cluster: ClusterFacts,
) -> Preparation:
    puller = ImagePuller(given.api, given.images, shared.events)
    pod_network = PodNetwork(shared.cache.pods.addresses, network.network.view)
    return Preparation(given.api, puller, nodes, shared.events, cluster, pod_network)


def cluster_facts(site: Site, token_key: bytes, command_timeout: float) -> ClusterFacts:
    commands = Commands.of_process(command_timeout)
    return ClusterFacts(site, token_key, Pmi(lambda: commands.run("srun", "--mpi=list")))


def wire_live_plans(
    given: KubeletDependencies,
    shared: Shared,
    network: NetworkParts,
    nodes: Nodes,
    site: Site,
    renewal: TokenRenewal,
) -> LivePlans:
    services_for = network.network.view.services_for
    return LivePlans(given.api, nodes, shared.events, site, services_for, renewal)


def wire_live_sources(
    given: KubeletDependencies, shared: Shared, plans: LivePlans, dependants: Dependants
) -> LiveSources:
    cache, wake = shared.cache, dependants.wake
    return LiveSources(given.informers, cache.pods, cache.informer, plans, wake, given.clock)
