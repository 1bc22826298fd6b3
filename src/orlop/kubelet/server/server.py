"""Runs the kubelet's HTTPS listener: logs, commands and ports for the API server, agents, health.

One for all nodes of this kubelet. What is in pods needs a client certificate of the cluster's CA in
the group system:masters; an agent needs the token of its own pod, which opens the connection of
that pod. Paths are upstream's. It decides nothing about pods.
"""

from __future__ import annotations

import asyncio
import hmac
import socket
import ssl
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any

from aiohttp import web

from ... import __version__, errors
from ...api.objects import Key, Obj, is_terminal, key_of, uid_of
from ...client.informer import Informer
from ...listener import Listener, Patience
from ...log import logger
from ...metrics import MEDIA_TYPE, PROCESS
from ...upgrade import Taken, take_over
from ...wellknown import AGENT_PATH, AGENT_PROTOCOL
from ..agents.connection import AgentConnection, AgentEventHandler, LogStream
from ..network.mirror_ports import MirrorPorts
from ..pod.folder import agent_token
from ..pod.pods import Pods, PodState
from ..status.status_writer import StatusWriter
from . import exec, port_forward, stats
from .access import Access, Refused
from .logs import LogOptions, read_log, which_run
from .measurements import Measurements
from .mirror_logs import Outputs, is_mirror, no_outputs, read_plain

MASTERS = "system:masters"
SHUTDOWN = 1.0
USAGE_PATHS = ("/stats/summary", "/metrics/resource", "/metrics/cadvisor")
REACH_TIME, REACH_POLL = 3.0, 0.05  # seconds for an agent that has not dialled yet

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

log = logger(__name__)

# After a restart thousands of agents come back at once: they must not take each other's places.
PATIENCE = Patience(handshakes=4000, strangers=4000)


class KubeletServer:
    def __init__(
        self,
        pods: Pods,
        cached: Informer,
        writer: StatusWriter,
        hears: AgentEventHandler,
        *,
        token_key: bytes,
        measurements: Measurements,
        access: Access,
        mirrors: MirrorPorts,
    ) -> None:
        self._access = access
        self.mirrors = mirrors
        self._measurements = measurements
        self._writer = writer
        self._pods = pods
        self._cached = cached
        self._hears = hears
        self._token_key = token_key
        self._runner: web.AppRunner | None = None
        self._listener: Listener | None = None
        self._started = time.time()
        self.outputs: Outputs = no_outputs  # of mirror pods

    async def start(self, host: str, port: int, tls: ssl.SSLContext) -> int:
        """Listen; return the port."""
        app = web.Application()
        app.add_routes(
            [
                web.get("/healthz", self._healthz),
                *(web.get(path, self._usage) for path in USAGE_PATHS),
                web.get("/metrics", self._metrics),
                web.get("/containerLogs/{namespace}/{pod}/{container}", self._logs),
                *_both("/exec/{namespace}/{pod}/{container}", self._exec),
                *_both("/attach/{namespace}/{pod}/{container}", self._attach),
                *_both("/portForward/{namespace}/{pod}", self._port_forward),
                web.get(AGENT_PATH + "/{namespace}/{pod}/{uid}", self._agent),
                web.get(AGENT_PATH + "/{namespace}/{pod}/{uid}/lines/{line}", self._agent),
            ]
        )
        # A reader who goes away must end the reading of its log.
        runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, shutdown_timeout=SHUTDOWN
        )
        await runner.setup()
        self._runner = runner
        assert runner.server is not None, "it was set up above"
        self._listener = Listener(runner.server, tls, PATIENCE)
        return self._listener.start(host, port)

    async def stop(self) -> None:
        for state in self._pods:
            for connection in (state.connection, *state.lines.values()):
                if connection is not None:
                    connection.close()
        if self._listener is not None:
            await self._listener.close()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _healthz(self, request: web.Request) -> web.Response:
        return web.Response(text="ok")

    # What pods use

    async def _metrics(self, request: web.Request) -> web.StreamResponse:
        refused = await self._refusal(request, "")
        if refused is not None:
            return web.Response(status=refused.code, text=refused.words)
        return web.Response(body=PROCESS.text().encode(), headers={"Content-Type": MEDIA_TYPE})

    async def _refusal(self, request: web.Request, node: str) -> Refused | None:
        return None if _is_master(request) else await self._access.refusal(request, node)

    async def _usage(self, request: web.Request) -> web.StreamResponse:
        """Return usage of one of our nodes, where the API server's proxy or `?node=` names it, else
        of all.
        """
        node = request.query.get("node") or (_proxied_node(request) if _is_master(request) else "")
        refused = await self._refusal(request, node)
        if refused is not None:
            return web.Response(status=refused.code, text=refused.words)
        usages = [one for one in await self._measurements.current() if node in ("", one.node)]
        now = time.time()
        match request.path:
            case "/stats/summary":
                name = node or socket.gethostname()
                return web.json_response(stats.summary(usages, name, self._started, now))
            case "/metrics/cadvisor":
                page = stats.cadvisor_metrics(usages, __version__)
            case _:
                page = stats.resource_metrics(usages, now)
        return web.Response(body=page.encode(), headers={"Content-Type": MEDIA_TYPE})

    # Logs

    async def _logs(self, request: web.Request) -> web.StreamResponse:
        if not _is_master(request):
            return web.Response(status=401, text="Unauthorized")
        try:
            return await self._send_logs(request)
        except errors.ApiError as error:
            return web.Response(status=error.status_code, text=error.message)

    async def _send_logs(self, request: web.Request) -> web.StreamResponse:
        pod = self._cached.get(_key_of(request))
        if pod is None:
            raise errors.NotFound(f'pod "{request.match_info["pod"]}" does not exist')
        options = LogOptions.parse(request.query, time.time())
        container = request.match_info["container"]
        state = self._pods.get(uid_of(pod))
        run = which_run(pod, self._status(pod, state), container, previous=options.previous)
        if is_mirror(pod):
            log_of = self._mirrored(pod, container, options)
        else:
            path = self._pods.folder_of(pod).log(container, run)
            log_of = read_log(path, options, _Feed(state, container, run))
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        async with aclosing(log_of) as shown:
            async for data in shown:
                await response.write(data)
        await response.write_eof()
        return response

    def _mirrored(
        self, pod: Obj, container: str, options: LogOptions
    ) -> AsyncGenerator[bytes, None]:
        """Yield what a job prints that is no pod's, while the pod that shows it says that it
        runs.
        """
        path = self.outputs(pod, container)
        if path is None:
            raise errors.NotFound(f'nobody knows where "{key_of(pod)}" prints to')

        def is_over() -> bool:
            now = self._cached.get(key_of(pod))
            return now is None or uid_of(now) != uid_of(pod) or is_terminal(now)

        return read_plain(path, options, is_over)

    def _status(self, pod: Obj, state: PodState | None) -> Obj:
        """Return the status as of now: the API may not have heard yet what the agent has just
        said.
        """
        if state is None or is_terminal(pod):
            return pod.get("status") or {}
        return self._writer.status_of(pod, state)

    # Commands and ports

    async def _exec(self, request: web.Request) -> web.StreamResponse:
        async def serve() -> web.StreamResponse:
            wanted = exec.wanted_of(request)
            argv = request.query.getall("command", [])
            if not argv:
                raise errors.BadRequest("you must specify at least 1 command for the container")
            container, connection = await self._running(request)
            ask = {"container": container, "argv": argv, "stdin": wanted.stdin, "tty": wanted.tty}
            return await exec.serve(request, wanted, lambda: connection.open("exec", **ask))

        return await _guarded(request, serve)

    async def _attach(self, request: web.Request) -> web.StreamResponse:
        async def serve() -> web.StreamResponse:
            wanted = exec.wanted_of(request)
            container, connection = await self._running(request)
            ask = {"container": container, "stdin": wanted.stdin}
            return await exec.serve(request, wanted, lambda: connection.open("attach", **ask))

        return await _guarded(request, serve)

    async def _port_forward(self, request: web.Request) -> web.StreamResponse:
        async def serve() -> web.StreamResponse:
            pod = self._cached.get(_key_of(request))
            if pod is None:
                raise errors.NotFound("pod does not exist")
            phase = (pod.get("status") or {}).get("phase", "Pending")
            if phase != "Running":
                words = f"unable to forward port because pod is not running. Current status={phase}"
                raise errors.BadRequest(words)
            if is_mirror(pod):
                ports = self.mirrors.ports_of(pod)
            else:
                ports = _ports_by(await reach(self._pod(request)[1]))
            return await port_forward.serve(request, str(key_of(pod)), ports)

        return await _guarded(request, serve)

    def _pod(self, request: web.Request) -> tuple[Obj, PodState]:
        pod = self._cached.get(_key_of(request))
        state = self._pods.get(uid_of(pod)) if pod is not None else None
        if pod is not None and is_mirror(pod):
            raise errors.BadRequest(f"pod {key_of(pod)} only shows what runs without it")
        if pod is None or state is None:
            raise errors.NotFound("pod does not exist")
        return pod, state

    async def _running(self, request: web.Request) -> tuple[str, AgentConnection]:
        """Return the container that is meant, if it runs, and the connection to its agent."""
        pod, state = self._pod(request)
        name = request.match_info["container"]
        status = self._status(pod, state)
        lists = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
        each = [item for key in lists for item in status.get(key) or []]
        if not any(c["name"] == name and "running" in (c.get("state") or {}) for c in each):
            # As pkg/kubelet/kubelet.go: GetExec.
            raise errors.InternalError(f'container not found ("{name}")')
        return name, await reach(state)

    # Agents

    async def _agent(self, request: web.Request) -> web.StreamResponse:
        """Check the token, then take the connection out of HTTP's hands for as long as it lasts."""
        match = request.match_info
        if not self._is_agent(request, match["uid"]):
            return web.Response(status=401, text="the token is not that of this pod\n")
        if self._listener is not None:
            self._listener.know(request.transport)
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
            await connection.serve(self._hears)
        finally:
            if state.connection is connection:
                state.connection = None
                self._hears.on_silence(state)
        return Taken()

    async def _serve_line(self, state: PodState, line: str, connection: AgentConnection) -> None:
        """Serve the ranks of one node of the pod's job, which ask for names and services."""
        former = state.lines.get(line)
        if former is not None:
            former.close()
            self._hears.on_line_end(state, line)
        state.lines[line] = connection
        try:
            await connection.serve(self._hears)
        finally:
            if state.lines.get(line) is connection:
                del state.lines[line]
                self._hears.on_line_end(state, line)

    def _is_agent(self, request: web.Request, uid: str) -> bool:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        expected = agent_token(self._token_key, uid).encode()
        return scheme == "Bearer" and hmac.compare_digest(token.strip().encode(), expected)

    def _known(self, key: Key, uid: str) -> PodState | None:
        pod = self._cached.get(key)
        if pod is not None and uid_of(pod) == uid:
            return self._pods.of(pod)
        return self._pods.get(uid)


def _key_of(request: web.Request) -> Key:
    return Key(request.match_info["namespace"], request.match_info["pod"])


def _both(path: str, handler: Handler) -> list[web.RouteDef]:
    """Route GET for WebSocket and POST for SPDY."""
    return [web.get(path, handler, allow_head=False), web.post(path, handler)]


async def _guarded(
    request: web.Request, serve: Callable[[], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Serve masters alone; refusals are plain words, as upstream's kubelet has them."""
    if not _is_master(request):
        return web.Response(status=401, text="Unauthorized")
    try:
        return await serve()
    except errors.ApiError as error:
        return web.Response(status=error.status_code, text=error.message)


def _ports_by(connection: AgentConnection) -> port_forward.Connect:
    return lambda port: connection.open("forward", port=port)


async def reach(state: PodState) -> AgentConnection:
    """Return the connection of a pod's agent, which may be dialling at this moment."""
    try:
        async with asyncio.timeout(REACH_TIME):
            while state.connection is None:  # noqa: ASYNC110 (rare, and not worth an event each)
                await asyncio.sleep(REACH_POLL)
            connection = state.connection
            can_open = await connection.can_open()
    except TimeoutError:
        job = f" (job {state.job_id})" if state.job_id else ""
        raise errors.Unavailable(
            f"the agent of pod {state.key}{job} is not connected; it dials every few seconds, so "
            f"try again. If it stays away, {state.folder.path}/slurm.out says why"
        ) from None
    if not can_open:
        raise errors.Unavailable(
            f"the agent of pod {state.key} was started by an earlier version, which cannot do "
            "this; delete the pod and create it again"
        )
    return connection


class _Feed:
    """See logs.Feed: a run of a container of a pod that may or may not be alive."""

    def __init__(self, state: PodState | None, container: str, run: int) -> None:
        self._state = state
        self._container = container
        self._run = run

    def is_over(self) -> bool:
        state = self._state
        if state is None or state.journal.finished is not None:
            return True
        if state.job_id is not None and state.has_ended:
            return True
        known = state.journal.containers.get(self._container)
        current = known.current if known is not None else None
        if current is None:
            return False
        return current.restart > self._run or current.state == "terminated"

    def open(self, offset: int, *, follow: bool) -> LogStream | None:
        connection = self._state.connection if self._state is not None else None
        if connection is None:
            return None
        return connection.open_log(self._container, self._run, offset, follow=follow)


def _proxied_node(request: web.Request) -> str:
    """Return the node in `/api/v1/nodes/<node>/proxy/...`, by which a client came; empty if by
    none.
    """
    match request.headers.get("X-Forwarded-Uri", "").split("/"):
        case ["", "api", "v1", "nodes", name, "proxy", *_]:
            return name.partition(":")[0]
    return ""


def _is_master(request: web.Request) -> bool:
    """Return whether the client's certificate, which TLS has verified, is of the group of
    masters.
    """
    certificate: dict[str, Any] = (
        request.transport and request.transport.get_extra_info("peercert")
    ) or {}
    subject = [pair for part in certificate.get("subject", ()) for pair in part]
    return ("organizationName", MASTERS) in subject
