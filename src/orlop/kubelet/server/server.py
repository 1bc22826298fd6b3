"""Runs the kubelet's HTTPS listener: logs, commands and ports for the API server, agents, health.

One for all nodes of this kubelet. What is in pods needs a client certificate of the cluster's CA in
the group system:masters; agents, and pages of usage, have rules of their own. Paths are upstream's.
It decides nothing about pods.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass

from aiohttp import web

from ... import errors
from ...api.objects import Key, Obj, is_terminal, key_of, uid_of
from ...client.informer import Informer
from ...listener import Listener, Patience
from ...log import logger
from ...wellknown import AGENT_PATH
from ..agents.connection import AgentConnection, LogStream
from ..agents.endpoint import AgentEndpoint
from ..network.mirror_ports import MirrorPorts
from ..pod.pods import Pods, PodState
from ..status.status_writer import StatusWriter
from . import exec, port_forward
from .access import is_master
from .logs import LogOptions, read_log, which_run
from .mirror_logs import Outputs, is_mirror, read_plain
from .usage_pages import PATHS as USAGE_PATHS
from .usage_pages import UsagePages

SHUTDOWN = 1.0
REACH_TIME, REACH_POLL = 3.0, 0.05  # seconds for an agent that has not dialled yet

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

log = logger(__name__)

# After a restart thousands of agents come back at once: they must not take each other's places.
PATIENCE = Patience(handshakes=4000, strangers=4000)


@dataclass(frozen=True, slots=True)
class MirrorPods:
    """The reach of mirror pods: their ports, and the files with their output."""

    ports: MirrorPorts
    outputs: Outputs


class KubeletServer:
    def __init__(
        self,
        pods: Pods,
        cached: Informer,
        writer: StatusWriter,
        agents: AgentEndpoint,
        usage: UsagePages,
        mirrors: MirrorPods,
    ) -> None:
        self._pods = pods
        self._cached = cached
        self._writer = writer
        self._agents = agents
        self._usage = usage
        self._mirrors = mirrors
        self._runner: web.AppRunner | None = None
        self._listener: Listener | None = None

    async def start(self, host: str, port: int, tls: ssl.SSLContext) -> int:
        """Listen; return the port."""
        app = web.Application()
        app.add_routes(
            [
                web.get("/healthz", self._healthz),
                *(web.get(path, self._usage.usage) for path in USAGE_PATHS),
                web.get("/metrics", self._usage.metrics),
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
        self._agents.close()
        if self._listener is not None:
            await self._listener.close()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _healthz(self, request: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def _agent(self, request: web.Request) -> web.StreamResponse:
        return await self._agents.serve(request, self._listener)

    # Logs

    async def _logs(self, request: web.Request) -> web.StreamResponse:
        if not is_master(request):
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
        path = self._mirrors.outputs(pod, container)
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
                ports = self._mirrors.ports.ports_of(pod)
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


def _key_of(request: web.Request) -> Key:
    return Key(request.match_info["namespace"], request.match_info["pod"])


def _both(path: str, handler: Handler) -> list[web.RouteDef]:
    """Route GET for WebSocket and POST for SPDY."""
    return [web.get(path, handler, allow_head=False), web.post(path, handler)]


async def _guarded(
    request: web.Request, serve: Callable[[], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Serve masters alone; refusals are plain words, as upstream's kubelet has them."""
    if not is_master(request):
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
