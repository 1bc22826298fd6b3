"""Takes the connections of agents, over which pods report and are spoken to.

Served by the kubelet's listener. An agent needs the token of its own pod, which opens that
pod's connection; a second one of the same pod takes the first one's place. What an agent says goes
to `AgentEventHandler`.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass

from aiohttp import web

from ...api.objects import Key, uid_of
from ...client.informer import Informer
from ...listener import Listener
from ...upgrade import Taken, take_over
from ...wellknown import AGENT_PROTOCOL
from ..pod.folder import agent_token
from ..pod.pods import Pods, PodState
from .connection import AgentConnection, AgentEventHandler


@dataclass(frozen=True, slots=True)
class AgentEndpoint:
    pods: Pods
    cached: Informer
    hears: AgentEventHandler
    token_key: bytes

    def close(self) -> None:
        """Close all connections."""
        for state in self.pods:
            for connection in (state.connection, *state.lines.values()):
                if connection is not None:
                    connection.close()

    async def serve(self, request: web.Request, listener: Listener | None) -> web.StreamResponse:
        """Check the token, then take the connection out of HTTP's hands for as long as it lasts."""
        match = request.match_info
        if not self._is_agent(request, match["uid"]):
            return web.Response(status=401, text="the token is not that of this pod\n")
        if listener is not None:
            listener.know(request.transport)
        if request.headers.get("Upgrade", "").lower() != AGENT_PROTOCOL:
            return web.Response(status=426, text=f"expected Upgrade: {AGENT_PROTOCOL}\n")
        state = self._known(Key(match["namespace"], match["pod"]), match["uid"])
        if state is None:
            return web.Response(status=404, text="no such pod\n")
        reader, writer = take_over(request)
        head = (
            f"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: {AGENT_PROTOCOL}"
        )
        writer.write(f"{head}\r\n\r\n".encode())
        line = match.get("line", "")
        connection = AgentConnection(state, reader, writer, line)
        if line:
            await self._serve_line(state, line, connection)
            return Taken()
        if state.connection is not None:
            state.connection.close()
        state.connection = connection
        try:
            await connection.serve(self.hears)
        finally:
            if state.connection is connection:
                state.connection = None
                self.hears.on_silence(state)
        return Taken()

    async def _serve_line(self, state: PodState, line: str, connection: AgentConnection) -> None:
        """Serve the ranks of one node of the pod's job, which ask for names and services."""
        former = state.lines.get(line)
        if former is not None:
            former.close()
            self.hears.on_line_end(state, line)
        state.lines[line] = connection
        try:
            await connection.serve(self.hears)
        finally:
            if state.lines.get(line) is connection:
                del state.lines[line]
                self.hears.on_line_end(state, line)

    def _is_agent(self, request: web.Request, uid: str) -> bool:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        expected = agent_token(self.token_key, uid).encode()
        return scheme == "Bearer" and hmac.compare_digest(token.strip().encode(), expected)

    def _known(self, key: Key, uid: str) -> PodState | None:
        pod = self.cached.get(key)
        if pod is not None and uid_of(pod) == uid:
            return self.pods.of(pod)
        return self.pods.get(uid)
