"""Runs the site's own etcd and kube-apiserver in the place of our API server.

Made by `serve` where `control_plane: upstream` is set; it has the same few methods as `ApiServer`,
so that everything else stays as it is and speaks HTTPS. The two programs live and die with this
process: if one ends, so does the control plane, and says where the log is.
"""

from __future__ import annotations

import asyncio
import ctypes
import shutil
import signal
import socket
import time
from collections.abc import Sequence

from ... import pki
from ...client.https import HttpsApi
from ...errors import ApiError, ConfigError, Error
from ...files import write_private
from ...log import logger
from ...settings import Paths, UpstreamSettings
from .upstream_commands import Plan, apiserver_command, etcd_command

log = logger(__name__)

PROGRAMS = ("etcd", "kube-apiserver")
_START = 60.0  # seconds; kube-apiserver makes all its roles first
_STOP = 20.0
_PR_SET_PDEATHSIG = 1


class UpstreamEnded(Error):
    """Raised when etcd or kube-apiserver ended by itself."""


class UpstreamServer:
    def __init__(
        self,
        paths: Paths,
        settings: UpstreamSettings,
        keys: pki.Pki,
        *,
        advertise: str,
        services: str,
    ) -> None:
        self._folder = paths.home / "etcd"
        self._log = paths.log
        self._settings = settings
        self._keys = keys
        self._advertise = advertise
        self._services = services
        self._url = ""
        self._running: dict[str, asyncio.subprocess.Process] = {}
        self._clients: list[HttpsApi] = []

    async def start(self, host: str, port: int) -> int:
        """Start both; return the port once kube-apiserver is ready. OSError if the port is
        taken."""
        etcd, kube_apiserver = programs(self._settings)
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        port = free_port(host, port)
        plan = Plan(
            self._folder,
            self._keys,
            pki.ensure(self._folder / "pki", ["127.0.0.1"]),
            host,
            port,
            free_port("127.0.0.1"),
            free_port("127.0.0.1"),
            self._advertise,
            self._services,
            flags=self._settings.flags,
            etcd=etcd,
            kube_apiserver=kube_apiserver,
        )
        self._url = f"https://127.0.0.1:{port}"
        try:
            await self._launch("etcd", etcd_command(plan))
            await self._launch("kube-apiserver", apiserver_command(plan))
            await self._wait_until_ready()
        except BaseException:
            await self.stop()
            raise
        log.info("upstream's API server is ready", port=port, program=kube_apiserver)
        return port

    async def _launch(self, name: str, command: Sequence[str]) -> None:
        with (self._log / f"{name}.log").open("ab") as output:
            self._running[name] = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self._folder,
                preexec_fn=_die_with_parent,
            )

    async def _wait_until_ready(self) -> None:
        api = self.client("system:orlop", ["system:masters"])
        deadline, last = time.monotonic() + _START, "no answer"
        while time.monotonic() < deadline:
            for name, process in self._running.items():
                if process.returncode is not None:
                    raise self._ended(name)
            try:
                await api.ready()
                return
            except (ApiError, OSError) as error:
                last = str(error)
                await asyncio.sleep(0.1)  # it has no other way to say that it is ready
        raise UpstreamEnded(f"kube-apiserver was not ready within {_START:.0f} s: {last}")

    def _ended(self, name: str) -> UpstreamEnded:
        code = self._running[name].returncode
        return UpstreamEnded(f"{name} ended with {code}; see {self._log / name}.log")

    def client(self, user: str, groups: Sequence[str] = ()) -> HttpsApi:
        """Return the API for one of our components, as a user with a certificate of its own."""
        name = f"component-{user.replace(':', '-')}"
        pair = self._keys.pair(name)
        crt, key = self._keys.issue(user, groups)
        write_private(pair.crt, crt)
        write_private(pair.key, key)
        manager = user.removeprefix("system:")
        api = HttpsApi(self._url, tls=self._keys.client_context(pair), user_agent=manager)
        self._clients.append(api)
        return api

    def serve_virtual(self, source: object) -> None:
        """Do nothing: upstream serves metrics.k8s.io through an APIService, or not at all."""
        log.info("metrics.k8s.io is not served by upstream's API server")

    async def watch(self) -> None:
        """Raise when one of the programs ends."""
        waiting = {
            asyncio.create_task(process.wait(), name=name): name
            for name, process in self._running.items()
        }
        try:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            raise self._ended(waiting[done.pop()])
        finally:
            for task in waiting:
                task.cancel()

    async def stop(self) -> None:
        """Stop kube-apiserver first: it writes to etcd to the end."""
        for api in self._clients:
            await api.close()
        for name in reversed(PROGRAMS):
            process = self._running.pop(name, None)
            if process is None or process.returncode is not None:
                continue
            process.send_signal(signal.SIGTERM)
            try:
                async with asyncio.timeout(_STOP):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()


def programs(settings: UpstreamSettings) -> tuple[str, str]:
    """Return etcd and kube-apiserver, as configured or on PATH."""
    found = []
    for name, given in zip(PROGRAMS, (settings.etcd, settings.kube_apiserver), strict=True):
        path = shutil.which(given or name)
        if path is None:
            setting = f"upstream.{name.replace('-', '_')}"
            raise ConfigError(
                f"no {given or name} on PATH, which `control_plane: upstream` needs; name it by "
                f"`{setting}` in config.yaml, or use Orlop's own by `control_plane: embedded`"
            )
        found.append(path)
    return found[0], found[1]


def free_port(host: str, wanted: int = 0) -> int:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((host, wanted))
        return int(probe.getsockname()[1])


def _die_with_parent() -> None:
    """Ask the kernel, in the child, to end it with the control plane, whatever happens."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
