"""Runs commands that a pod starts in another pod of its group, in the place of ssh.

The agent of the pod that asks says for which host, as the hostfile names it, and which command; it
is run in the first container of that pod by the agent there, with input, output and exit code
passed on. Pods are of one group where they are in one namespace and their annotation
`orlop.dev/group` has one value, which controllers set; pods outside the group are not reached.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from ...api.objects import Obj, annotations_of, is_deleting, is_terminal, key_of, meta, uid_of
from ...client.clock import Clock, sleep
from ...client.informer import Informer
from ...log import logger
from ...wellknown import GROUP
from ..pod.pods import Pods, PodState
from ..tasks import Spawn
from .sessions import AgentSession, AgentStream, SessionFailed

MISSING = 60.0  # seconds that a pod is waited for which is not there (yet, or again)
NAMED = 30.0  # and for the names of the pod that asks; then it has to do without
TURN = 0.1
UNWANTED = "unwanted"  # why a command is let go: whoever asked for it has gone by itself

log = logger(__name__)


class Asking(Protocol):
    """The side that asked for the command (sessions.AgentErrand)."""

    main: AgentStream
    errors: AgentStream

    def open(self) -> None: ...

    def finish(self, code: int, error: str = "") -> None: ...

    async def gone(self) -> bool:
        """Wait until it wants no more; return whether it asked for that; False where its connection
        broke.
        """
        ...


class GroupCommands:
    """`spawn` runs what lasts, in the kubelet's own group of tasks.

    `records` are what a service's name, in a namespace, resolves to; None: there is no such.
    """

    def __init__(
        self,
        pods: Pods,
        cached: Informer,
        spawn: Spawn,
        clock: Clock,
        records: Callable[[str, str], Any] = lambda service, namespace: None,
    ) -> None:
        self._pods, self._cached, self._spawn, self._clock = pods, cached, spawn, clock
        self._records = records

    def begin(self, state: PodState, asking: Asking, message: dict[str, Any]) -> None:
        host, command = str(message["host"]), str(message["command"])
        self._spawn(self._serve(state, asking, host, command), f"a command of {state.key}")

    async def _serve(self, state: PodState, asking: Asking, host: str, command: str) -> bool:
        """Serve one command; whoever asked may go at any time, and then the command ends, too."""
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(self._run(state, asking, host, command), name=host)
            leaving = tasks.create_task(asking.gone(), name=f"whoever asked for {host}")
            await asyncio.wait((running, leaving), return_when=asyncio.FIRST_COMPLETED)
            is_unwanted = leaving.done() and leaving.result()
            leaving.cancel()
            running.cancel(UNWANTED if is_unwanted else None)
        return True

    async def _run(self, state: PodState, asking: Asking, host: str, command: str) -> None:
        try:
            session = await self._open(state, host, command)
        except SessionFailed as failed:
            log.info("a pod's command was not started", pod=str(state.key), host=host, why=failed)
            asking.finish(255, str(failed))
            return
        try:
            asking.open()
            code = await _relay(asking, session)
            asking.finish(code)
        except SessionFailed as failed:
            asking.finish(255, f"{host}: {failed}")
        except asyncio.CancelledError as cancelled:
            if UNWANTED not in cancelled.args:
                session.leave()  # its line broke, or ours will: the command need not know
            raise
        finally:
            session.close()

    async def _open(self, state: PodState, host: str, command: str) -> AgentSession:
        """Wait for the pod and for its container; one that is over has no use for commands."""
        await self._until_named(state)
        missing_since = self._clock.now()
        while True:
            pod = self._find(state, host)
            if pod is not None and not is_deleting(pod):
                missing_since = self._clock.now()
                if is_terminal(pod):
                    raise SessionFailed(f"pod {key_of(pod)} has ended")
                session = self._try(pod, command)
                if session is not None:
                    await session.opened()
                    return session
            elif self._clock.now() - missing_since > MISSING:
                raise SessionFailed(f"expected a pod of this pod's group under the name {host}")
            await sleep(self._clock, TURN)

    async def _until_named(self, state: PodState) -> None:
        """Wait until the pod that asks can be found by its name, which is what is asked for first.

        A launcher runs before its address is known to everybody, and Hydra's proxies ask once.
        """
        until = self._clock.now() + NAMED
        while not self._is_named_yet(state) and self._clock.now() < until:
            await sleep(self._clock, TURN)

    def _is_named_yet(self, state: PodState) -> bool:
        pod = self._cached.get(state.key)
        spec = pod["spec"] if pod is not None else {}
        services = [spec[name] for name in ("hostname", "subdomain") if spec.get(name)]
        found = [self._records(service, state.key.namespace) for service in services]
        known = [one for one in found if one is not None]
        address = ((pod or {}).get("status") or {}).get("podIP")
        return all(isinstance(one, dict) and address in one.get("A", ()) for one in known)

    def _find(self, state: PodState, host: str) -> Obj | None:
        asking = self._cached.get(state.key)
        group = annotations_of(asking).get(GROUP) if asking is not None else None
        if asking is None or not group or uid_of(asking) != state.uid:
            raise SessionFailed("this pod is of no group")
        for pod in self._cached.list(state.key.namespace):
            if annotations_of(pod).get(GROUP) == group and _is_named(pod, host):
                return pod
        return None

    def _try(self, pod: Obj, command: str) -> AgentSession | None:
        known = self._pods.get(uid_of(pod))
        container = pod["spec"]["containers"][0]["name"]
        if known is None or known.connection is None or not _is_running(pod, container):
            return None
        argv = ["/bin/sh", "-c", command]
        ask = {"container": container, "argv": argv, "stdin": True, "keep": True}
        return known.connection.open("exec", **ask)


def _is_named(pod: Obj, host: str) -> bool:
    own = {pod["spec"].get("hostname"), meta(pod)["name"]}
    address = (pod.get("status") or {}).get("podIP")
    return host == address or host.partition(".")[0] in own


def _is_running(pod: Obj, container: str) -> bool:
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
    return any(one["name"] == container and "running" in one["state"] for one in statuses)


async def _relay(asking: Asking, session: AgentSession) -> int:
    """Relay both ways until the output has ended; what is left of the input is of no use then."""
    async with asyncio.TaskGroup() as tasks:
        copying = tasks.create_task(_copy(asking.main, session.main), name="a command's input")
        async with asyncio.TaskGroup() as outputs:
            outputs.create_task(_copy(session.main, asking.main), name="a command's output")
            outputs.create_task(_copy(session.errors, asking.errors), name="a command's errors")
        copying.cancel()
    return await session.exit_code()


async def _copy(source: AgentStream, target: AgentStream) -> None:
    """Copy to the end; the session itself tells of a connection that breaks."""
    try:
        while data := await source.read():
            await target.write(data)
    except OSError:
        return
    target.end()
