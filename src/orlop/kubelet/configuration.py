"""Groups what a kubelet is made of: its dependencies, configuration, credentials and programs.

Filled by the control plane, read by `wiring.py`. As upstream's kubelet.Dependencies and
KubeletConfiguration, these are values: they do nothing.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..client.api import Api
from ..client.clock import Clock, SystemClock
from ..client.informer import Informers
from ..engine import Engine
from ..settings import Paths, Settings
from .planning.live_plan import TokenRenewal
from .server.mirror_logs import Outputs, no_outputs
from .start.backoff import Backoffs
from .start.image_puller import ImageStore


@dataclass(frozen=True, slots=True)
class KubeletDependencies:
    """The parts of the control plane that the kubelet works with.

    `outputs` returns where the output of a mirror pod is.
    """

    api: Api
    informers: Informers
    engine: Engine
    images: ImageStore
    outputs: Outputs = no_outputs
    clock: Clock = field(default_factory=SystemClock)


@dataclass(frozen=True, slots=True)
class KubeletConfiguration:
    """`addresses` are those of this host that compute nodes may reach; `api_server` is the URL at
    which programs in pods reach the API server.
    """

    settings: Settings
    paths: Paths
    addresses: Sequence[str] = ()
    api_server: str = ""
    backoffs: Backoffs = field(default_factory=Backoffs)
    renewal: TokenRenewal = field(default_factory=TokenRenewal)


@dataclass(frozen=True, slots=True)
class KubeletCredentials:
    """`tls` is the listener's; of the `token_key` the tokens of agents are made."""

    tls: ssl.SSLContext
    token_key: bytes


@dataclass(frozen=True, slots=True)
class NodePrograms:
    """Files that jobs start on their nodes; the compiled ones may be missing, or come later."""

    agent: Path
    helper: Path | None = None  # netd's
    starter: Path | None = None  # of ranks
