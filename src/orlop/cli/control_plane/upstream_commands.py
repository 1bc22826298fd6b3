"""Builds the command lines by which the original etcd and kube-apiserver are started.

Written by `upstream`, which runs them, and by the benchmark. Pure: from paths, ports and keys to
words. etcd has an authority of its own, because whoever it trusts reads everything past RBAC.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ...pki import Pki

ISSUER = "https://kubernetes.default.svc.cluster.local"


@dataclass(frozen=True, slots=True)
class Plan:
    """The paths of everything, and who trusts whom."""

    folder: Path  # of etcd's data
    keys: Pki
    etcd_keys: Pki
    listen: str
    port: int
    etcd_port: int
    peer_port: int
    advertise: str = "127.0.0.1"
    services: str = "10.96.0.0/16"
    issuer: str = ISSUER
    flags: Sequence[str] = field(default_factory=tuple)  # of the site, after ours: the last counts
    etcd: str = "etcd"
    kube_apiserver: str = "kube-apiserver"


def etcd_command(plan: Plan) -> list[str]:
    """Return the command of one member on loopback, shared with strangers: TLS on both ports."""
    keys, server = plan.etcd_keys, plan.etcd_keys.apiserver
    client, peer = f"https://127.0.0.1:{plan.etcd_port}", f"https://127.0.0.1:{plan.peer_port}"
    return [
        plan.etcd,
        "--name=orlop",
        f"--data-dir={plan.folder / 'data'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=orlop={peer}",
        f"--cert-file={server.crt}",
        f"--key-file={server.key}",
        "--client-cert-auth",
        f"--trusted-ca-file={keys.ca}",
        f"--peer-cert-file={server.crt}",
        f"--peer-key-file={server.key}",
        "--peer-client-cert-auth",
        f"--peer-trusted-ca-file={keys.ca}",
        "--auto-compaction-retention=1",
    ]


def apiserver_command(plan: Plan) -> list[str]:
    keys, own, kubelet = plan.keys, plan.keys.apiserver, plan.keys.apiserver_kubelet_client
    etcd_client, tokens = plan.etcd_keys.admin, plan.keys.folder / "sa.key"
    return [
        plan.kube_apiserver,
        f"--etcd-servers=https://127.0.0.1:{plan.etcd_port}",
        f"--etcd-cafile={plan.etcd_keys.ca}",
        f"--etcd-certfile={etcd_client.crt}",
        f"--etcd-keyfile={etcd_client.key}",
        f"--bind-address={plan.listen}",
        f"--secure-port={plan.port}",
        f"--advertise-address={plan.advertise}",
        f"--client-ca-file={keys.ca}",
        f"--tls-cert-file={own.crt}",
        f"--tls-private-key-file={own.key}",
        f"--kubelet-certificate-authority={keys.ca}",
        f"--kubelet-client-certificate={kubelet.crt}",
        f"--kubelet-client-key={kubelet.key}",
        "--kubelet-preferred-address-types=InternalIP,Hostname",
        f"--service-account-issuer={plan.issuer}",
        f"--service-account-key-file={tokens}",
        f"--service-account-signing-key-file={tokens}",
        f"--service-cluster-ip-range={plan.services}",
        "--authorization-mode=Node,RBAC",
        "--anonymous-auth=false",
        "--allow-privileged=true",
        "--profiling=false",
        *plan.flags,
    ]
