"""Serves exec and attach: a client's streams joined to a session with the pod's agent.

Called by the server for an authenticated request. The client may speak WebSocket channels or
SPDY; the agent's session is the same. When either side goes, the other is let go, and a command
whose client is gone is ended. As k8s.io/cri-streaming's remotecommand.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiohttp import web

from ...errors import BadRequest, Forbidden
from ...log import logger
from ...upgrade import Taken, is_upgrade, take_over
from ..agents.sessions import AgentSession, SessionFailed
from .streaming import status
from .streaming.channels import COMMAND_PROTOCOLS, MAX_MESSAGE, ChannelClient
from .streaming.client import (
    SPDY_PROTOCOLS,
    STDERR,
    STDOUT,
    Client,
    ClientGone,
    SpdyClient,
    Wanted,
)
from .streaming.spdy import SpdyError
from .streaming.transports import RawTransport

FAREWELL = 2.0  # seconds a client has to take the last of it and close
STREAM_PROTOCOL = "X-Stream-Protocol-Version"
_ON = ("1", "true")

log = logger(__name__)


def wanted_of(request: web.BaseRequest) -> Wanted:
    """Return what the kubelet's own parameters ask for; a terminal has no standard error of its
    own.
    """
    flags = {
        name: request.query.get(name, "") in _ON for name in ("input", "output", "error", "tty")
    }
    is_tty = flags["tty"]
    wanted = Wanted(flags["input"], flags["output"], flags["error"] and not is_tty, is_tty)
    if not (wanted.stdin or wanted.stdout or wanted.stderr):
        raise BadRequest("you must specify at least 1 of stdin, stdout, stderr")
    return wanted


async def serve(
    request: web.BaseRequest, wanted: Wanted, open_session: Callable[[], AgentSession]
) -> web.StreamResponse:
    """Upgrade the request and relay until the command is over or the client has gone."""
    if request.headers.get("Upgrade", "").lower() == "websocket":
        socket = web.WebSocketResponse(
            protocols=COMMAND_PROTOCOLS, max_msg_size=MAX_MESSAGE, compress=False, timeout=FAREWELL
        )
        await socket.prepare(request)
        await converse(ChannelClient(socket, wanted), open_session())
        return socket
    protocol = negotiate(request, SPDY_PROTOCOLS)
    transport = upgrade_to_spdy(request, protocol)
    try:
        client = SpdyClient(transport, wanted, protocol or SPDY_PROTOCOLS[-1])
        await converse(client, open_session())
    finally:
        await transport.close()
    return Taken()


def negotiate(request: web.BaseRequest, served: tuple[str, ...]) -> str:
    """Return the first of the client's protocols that we serve; empty for one that names none."""
    if not is_upgrade(request) or request.headers.get("Upgrade", "").lower() != "spdy/3.1":
        raise BadRequest("Upgrade request required")
    lines = request.headers.getall(STREAM_PROTOCOL, [])
    offered = [word.strip() for line in lines for word in line.split(",")]
    for protocol in offered:
        if protocol in served:
            return protocol
    if offered:
        raise Forbidden(
            f"unable to upgrade: unable to negotiate protocol: client supports {offered}, "
            f"server accepts {list(served)}"
        )
    return ""


def upgrade_to_spdy(request: web.BaseRequest, protocol: str) -> RawTransport:
    reader, writer = take_over(request)
    lines = ["HTTP/1.1 101 Switching Protocols", "Connection: Upgrade", "Upgrade: SPDY/3.1"]
    if protocol:
        lines.append(f"{STREAM_PROTOCOL}: {protocol}")
    writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
    return RawTransport(reader, writer)


async def converse(client: Client, session: AgentSession) -> None:
    """Run the command for the client.

    1. Take in what the client says. 2. Relay. 3. Let the client close.
    """
    try:
        async with asyncio.TaskGroup() as tasks:
            listening = tasks.create_task(client.listen(), name="what a client says")  # 1
            relaying = tasks.create_task(_relay(client, session), name="a remote command")  # 2
            await asyncio.wait((listening, relaying), return_when=asyncio.FIRST_COMPLETED)
            if not relaying.done():
                relaying.cancel()
            await asyncio.wait((listening,), timeout=FAREWELL)  # 3
            listening.cancel()
    except* (OSError, ClientGone, SpdyError) as gone:
        log.debug("a client went away", error=gone.exceptions[0])
    finally:
        session.close()


async def _relay(client: Client, session: AgentSession) -> None:
    await client.ready()
    try:
        await session.opened()
        code = await _run(client, session)
    except SessionFailed as failed:
        words = f"error executing command in container: {failed}"
        await client.finish(status.of_error(words))
        return
    await client.finish(status.of_exit(code))


async def _run(client: Client, session: AgentSession) -> int:
    """Relay both ways until the output has ended; what is left of the input is of no use then."""
    async with asyncio.TaskGroup() as tasks:
        inputs = [
            tasks.create_task(_copy_input(client, session), name="a command's input"),
            tasks.create_task(_copy_sizes(client, session), name="a terminal's sizes"),
        ]
        async with asyncio.TaskGroup() as outputs:
            outputs.create_task(_copy_output(client, session, STDOUT), name="a command's output")
            outputs.create_task(_copy_output(client, session, STDERR), name="a command's errors")
        for task in inputs:
            task.cancel()
    return await session.exit_code()


async def _copy_input(client: Client, session: AgentSession) -> None:
    while data := await client.read_input():
        await session.main.write(data)
    session.main.end()


async def _copy_sizes(client: Client, session: AgentSession) -> None:
    while size := await client.read_size():
        session.resize(*size)


async def _copy_output(client: Client, session: AgentSession, name: str) -> None:
    stream = session.main if name == STDOUT else session.errors
    while data := await stream.read():
        await client.write(name, data)
