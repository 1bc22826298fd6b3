"""Collects what the plans of all pods of this cluster have in common.

Called once, when the kubelet is put together; the values go into every plan as they are.
"""

from __future__ import annotations

from ...api.quantity import to_bytes
from ...network.ranges import Ranges
from ..configuration import KubeletConfiguration, NodePrograms
from .network import ClusterNetwork, network_key
from .plan import RUNTIMES, Site


def plan_site(
    configuration: KubeletConfiguration, programs: NodePrograms, ranges: Ranges, token_key: bytes
) -> Site:
    settings, paths = configuration.settings, configuration.paths
    agent, network = settings.agent, settings.network
    return Site(
        cluster=paths.cluster_uid.read_text().strip(),
        endpoint_file=paths.endpoint,
        ca=paths.pki / "ca.crt",
        runtimes=(agent.runtime,) if agent.runtime else RUNTIMES,
        runtime=agent.runtime,
        scratch=agent.scratch,
        log_size=to_bytes(agent.log_max_size) if agent.log_max_size else 0,
        log_files=agent.log_max_files,
        pids=agent.pod_pids_limit,
        seccomp=paths.seccomp,
        starter=str(programs.starter or ""),
        api_server=configuration.api_server,
        network=ClusterNetwork(
            ranges,
            network_key(token_key),
            network.allow_outside,
            tuple(network.upstream),
            network.stub_domains,
            str(programs.helper or ""),
        ),
    )
