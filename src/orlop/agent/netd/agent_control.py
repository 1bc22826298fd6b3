"""Tells the agent what it keeps for the next netd, and the kubelet what others may hear of that.

Used by `bind` and `listen`, and by netd when it is ready. The agent reads the other end in
`netd_supervisor`.
"""

from __future__ import annotations

from ..linux.fast_imports import dumps
from .endpoint_cache import EndpointCache
from .netd_supervisor import send

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Any


class AgentControl:
    def __init__(self, control: socket.socket, endpoints: EndpointCache) -> None:
        self._control, self._endpoints = control, endpoints

    def ready(self) -> None:
        self._send({"type": "ready"}, [])

    def bound(self, message: dict[str, Any], fds: list[int]) -> None:
        """Tell of a port, with what holds it."""
        self._send(message, fds)
        if message["published"]:
            self._endpoints.opened()
        self.publish(message)

    def lost(self, protocol: str, port: int) -> None:
        """Tell of a hostPort that was the pod's when it started, and is somebody else's now."""
        words = f"hostPort {port} ({protocol.upper()}): another program on this node has it by now"
        self._send({"type": "lost", "words": words}, [])

    def publish(self, message: dict[str, Any]) -> None:
        """Let others know of a port that they may reach."""
        if message["published"]:
            words = (message["protocol"], message["port"], message["real"], message["address"])
            self._endpoints.published(*words)

    def _send(self, message: dict[str, Any], fds: list[int]) -> None:
        send(self._control, dumps(message).encode(), fds)
