"""Holds what every part of a control plane starts from.

Made once the home is ours and its keys are there; read by whatever makes a part. It does nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...apiserver import ApiServer
from ...client.api import Api
from ...destinations import Destinations
from ...engine import Engine
from ...extensions.registry import Extensions
from ...jwt import SigningKey
from ...pki import Pki
from ...settings import Paths, Settings
from .upstream import UpstreamServer

Server = ApiServer | UpstreamServer


@dataclass(frozen=True, slots=True)
class Base:
    paths: Paths
    settings: Settings
    engine: Engine
    pki: Pki
    signing_key: SigningKey
    destinations: Destinations
    extensions: Extensions


def client_of(server: Server, user: str) -> Api:
    """Return the API for one component; managedFields and events have upstream's name for it."""
    return server.client(user, ["system:masters"])
