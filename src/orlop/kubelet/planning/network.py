"""Plans a pod's network: its address, the cluster's ranges, how it finds names.

Used by `plan`; pure. A pod on its node's network has none of this but its resolver, unless it wants
the cluster's names (ClusterFirstWithHostNet). What the node's own resolv.conf adds is merged there,
by the agent.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ...api.objects import Obj, meta
from ...errors import ConfigError
from ...network.ranges import Ranges
from ...slurm.translate.ranks import rank_set

NDOTS = [["ndots", "5"]]  # as pkg/kubelet/network/dns has it for names of the cluster


@dataclass(frozen=True, slots=True)
class ClusterNetwork:
    """The facts that all pods of the cluster share; `key` proves to a pod that a peer is of the
    cluster.
    """

    ranges: Ranges
    key: str
    allow_outside: bool = False
    upstream: tuple[str, ...] = ()
    stub_domains: Mapping[str, list[str]] = field(default_factory=dict)
    helper: str = ""  # the compiled part of the network, used by agents where they can


def network_key(token_key: bytes) -> str:
    """Return the cluster's own secret of its pods' network, in hexadecimal."""
    return hmac.new(token_key, b"network", hashlib.sha256).hexdigest()


WITH_HOST_NET = "ClusterFirstWithHostNet"


def has_own_network(pod: Obj) -> bool:
    return not pod["spec"].get("hostNetwork")


def knows_cluster(pod: Obj) -> bool:
    """Return whether names and services of the cluster lead anywhere for its programs."""
    return has_own_network(pod) or pod["spec"].get("dnsPolicy") == WITH_HOST_NET


def planned_network(
    pod: Obj, network: ClusterNetwork | None, pod_ip: str, policy: Obj | None = None
) -> Obj | None:
    """Return `network` of the plan; None for a pod that has its node's, and nothing of the cluster.

    `policy` is that of now, for a job that starts while the control plane is away.
    """
    if network is None or not knows_cluster(pod):
        return None
    if not has_own_network(pod):
        return {**_shared(pod, network), "podIP": "", "onNode": True}
    if not pod_ip:
        return None
    return {
        **_shared(pod, network),
        "podIP": pod_ip,
        "helper": network.helper,
        "policy": policy,
        "host": {"allowOutside": network.allow_outside},
        "hostPorts": list(host_ports(pod)),
    }


def planned_rank_network(
    pod: Obj, network: ClusterNetwork | None, pod_ip: str, policy: Obj | None = None
) -> Obj | None:
    """Return `network` for ranks, which are on their nodes' networks; None unless they want the
    cluster's names.

    Like a pod with hostNetwork they say so by their dnsPolicy: who asks for names is asked about
    every connection, and MPI makes many.
    """
    if network is None or not ranks_know_cluster(pod):
        return None
    return {**_shared(pod, network), "podIP": pod_ip, "onNode": True, "policy": policy}


def ranks_know_cluster(pod: Obj) -> bool:
    return bool(pod["spec"].get("dnsPolicy") == WITH_HOST_NET)


def host_ports(pod: Obj) -> Iterator[Obj]:
    """Yield the ports of the node that its containers ask for."""
    spec = pod["spec"]
    for container in [*(spec.get("initContainers") or []), *spec["containers"]]:
        for port in container.get("ports") or []:
            protocol = str(port.get("protocol", "TCP")).lower()
            if port.get("hostPort") and protocol in ("tcp", "udp"):
                yield {
                    "protocol": protocol,
                    "port": port["containerPort"],
                    "hostPort": port["hostPort"],
                    "hostIP": port.get("hostIP") or "",
                }


def rank_ports(pod: Obj) -> dict[str, dict[str, int]]:
    """Return ports of the first node that its ranks say they have, by protocol and the pod's own
    port.
    """
    try:
        found = rank_set(pod)
    except ConfigError:  # annotated anew while it runs, with what makes no sense
        found = None
    if found is None:
        return {}
    rank = next(one for one in pod["spec"]["containers"] if one["name"] == found.container)
    ports: dict[str, dict[str, int]] = {}
    for port in rank.get("ports") or []:
        protocol = str(port.get("protocol", "TCP")).lower()
        ports.setdefault(protocol, {})[str(port["containerPort"])] = port["containerPort"]
    return ports


def _shared(pod: Obj, network: ClusterNetwork) -> Obj:
    """Return what a pod knows of the cluster's network, wherever it is itself."""
    ranges = network.ranges
    return {
        "podCIDR": str(ranges.pods),
        "serviceCIDR": str(ranges.services),
        "key": network.key,
        "dns": {
            "nameserver": ranges.dns,
            "domain": ranges.domain,
            "searches": searches(pod, ranges.domain),
            "options": NDOTS,
            "upstream": list(network.upstream),
            "stubs": dict(network.stub_domains),
        },
    }


def planned_resolver(pod: Obj, network: ClusterNetwork | None) -> Obj:
    """Return what goes into the pod's resolv.conf, by its dnsPolicy. As pkg/kubelet/network/dns."""
    spec = pod["spec"]
    policy, config = spec.get("dnsPolicy") or "ClusterFirst", spec.get("dnsConfig") or {}
    # As upstream: ClusterFirst is Default for a pod on its node's network.
    is_cluster = policy.startswith("ClusterFirst") and knows_cluster(pod)
    if is_cluster and network is not None:
        domain = network.ranges.domain
        found: Obj = {"policy": "ClusterFirst", "nameservers": [network.ranges.dns]}
        found |= {"searches": searches(pod, domain), "options": NDOTS}
    else:
        known = "None" if policy == "None" else "Default"
        found = {"policy": known, "nameservers": [], "searches": [], "options": []}
    options = [[one["name"], one.get("value") or ""] for one in config.get("options") or []]
    more = {name: list(config.get(name) or []) for name in ("nameservers", "searches")}
    return {**found, "more": {**more, "options": options}}


def searches(pod: Obj, domain: str) -> list[str]:
    """Return the domains in which a short name is looked for."""
    return [f"{meta(pod)['namespace']}.svc.{domain}", f"svc.{domain}", domain]
