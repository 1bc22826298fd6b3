"""Makes the kubelet of a control plane, with the files that its jobs start on their nodes.

Called when the API server listens, because programs in pods are told its URL. The agent's file is
written here; the compiled parts may come later.
"""

from __future__ import annotations

import hashlib
import ssl
from pathlib import Path

from ...agent.build import build as build_agent
from ...agent.compiling import STARTER, helper_file
from ...client.informer import Informers
from ...kubelet import (
    Kubelet,
    KubeletConfiguration,
    KubeletCredentials,
    KubeletDependencies,
    NodePrograms,
    wire,
)
from ...kubelet.server.mirror_logs import Outputs
from ...runtime.images import Images
from ...settings import Paths, Settings
from ..doctor_checks import addresses
from .base import Base, Server, client_of


def make_kubelet(
    base: Base,
    server: Server,
    informers: Informers,
    api_url: str,
    tls: ssl.SSLContext,
    outputs: Outputs,
) -> Kubelet:
    """Return the kubelet; `outputs` says where mirror pods print to."""
    settings, paths = base.settings, base.paths
    configuration = KubeletConfiguration(settings, paths, addresses.addresses(), api_url)
    images = Images(paths.images, settings.images)
    api = client_of(server, "system:kubelet")
    dependencies = KubeletDependencies(api, informers, base.engine, images, outputs)
    credentials = KubeletCredentials(tls, base.pki.token_key)
    parts = wire(dependencies, configuration, credentials, _programs(settings, paths))
    return Kubelet(parts, configuration, tls)


def _programs(settings: Settings, paths: Paths) -> NodePrograms:
    """Return the agent, and the compiled parts, which may not be there yet, or ever."""
    helper = helper_file(paths.run) if settings.network.compile else None
    return NodePrograms(agent_file(paths.run), helper, helper_file(paths.run, STARTER))


def agent_file(folder: Path) -> Path:
    """Return the agent, named by its contents: waiting jobs keep the one they were made with."""
    fresh = build_agent(folder / "agent.pyz")
    digest = hashlib.sha256(fresh.read_bytes()).hexdigest()[:12]
    return fresh.replace(folder / f"agent-{digest}.pyz")
