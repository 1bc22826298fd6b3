"""One port of this host that leads to a service, as TCP and UDP have it in common.

Opened and closed by `service_ports`, which runs `serve` as a task of its own.
"""

from __future__ import annotations

import asyncio
import socket

from ..api.objects import Key
from .backends import Backends


class ServicePort:
    def __init__(self, sock: socket.socket, key: Key, port: int, backends: Backends) -> None:
        self._sock, self._key, self.port, self._backends = sock, key, port, backends
        self.task: asyncio.Task[None] | None = None

    def close(self) -> None:
        """Take no more, and end what is joined: the service does not offer it any more."""
        if self.task is not None:
            self.task.cancel()

    async def serve(self) -> None:
        """Pass on what comes until cancelled, then close the socket."""
        raise NotImplementedError
