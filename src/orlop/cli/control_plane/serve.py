"""The control plane: puts its parts together, and lists all its tasks.

Run by `orlop up`, in the background, in a Slurm job or in the foreground. A part that fails for
good ends the whole process with a line in the log, because half a control plane is of no use; a
TERM or an interrupt ends it in order, and pods run on.
"""

from __future__ import annotations

import asyncio
import errno
import os
import ssl
import sys
from contextlib import AsyncExitStack

import click

from ... import __version__, errors, log, pki
from ...agent.compiling import NETWORK, STARTER, compile_helper, helper_file
from ...apiserver import ApiServer, ServerOptions
from ...apiserver.aggregation import FrontProxy
from ...apiserver.audit import AuditLog, Auditor, load_policy
from ...apiserver.memory import settle
from ...destinations import Destinations
from ...extensions.registry import Extensions, unconfined
from ...files import write_private
from ...jwt import SigningKey
from ...network.ranges import Ranges
from ...settings import Paths, Settings, home_from_env, load
from ...store import Store
from ..doctor_checks import addresses
from ..home import kubeconfig_file, record
from ..home.home_lock import BEAT, HomeLock
from . import log_output
from .base import Base, Server
from .components import Components
from .engines import engine_for, ensure_cluster_uid
from .own_address import host_of, url_of
from .readiness import Readiness
from .tasks import until_stopped
from .upstream import UpstreamServer

logger = log.logger(__name__)

RENEWAL = 24 * 3600.0  # seconds between two looks at the certificates


@click.command("serve", hidden=True)
@click.option("--engine", required=True, help="slurm or local.")
@click.option("--port", type=int, default=0, help="Port of the API server.")
@click.option("--control-plane", default="", help="embedded or upstream.")
@click.option("--in-job", is_flag=True, help="This process is a Slurm job of its own.")
@click.option("--ready-fd", type=int, default=-1, help="Where to say that it is up, or why not.")
def command(engine: str, port: int, control_plane: str, in_job: bool, ready_fd: int) -> None:
    """Run the control plane in this process."""
    paths = home_from_env()
    given = {"port": port, "control_plane": control_plane}
    settings = load(paths, {name: value for name, value in given.items() if value})
    job = os.environ.get("SLURM_JOB_ID", "") if in_job else ""
    run(paths, settings, engine, Readiness(ready_fd), job=job)


def run(paths: Paths, settings: Settings, engine: str, ready: Readiness, *, job: str = "") -> None:
    """Serve until told to stop; exit with 1, and why in the log, if something else ended it."""
    output, moderation = log_output.Output(paths.log_file), log_output.Moderation()
    log.configure(settings.log_level, settings.log_format, output, moderation)
    os.umask(0o077)
    try:
        for folder in (paths.run, paths.log, paths.pods, paths.images, paths.volumes):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with HomeLock(paths) as home_lock:
            plane = ControlPlane(paths, settings, engine, home_lock)
            asyncio.run(plane.run(ready, job))
    except BaseException as error:
        ready.failed(_first(error), is_in_use=isinstance(error, errors.HomeInUse))
        logger.error("the control plane ended", error=_first(error), exc_info=True)
        sys.exit(1)


def _first(error: BaseException) -> str:
    """Return the words of an error, or of a group's first, for a line that people read."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    words = str(error) or type(error).__name__
    return words if isinstance(error, errors.Error) else f"{type(error).__name__}: {words}"


class ControlPlane:
    def __init__(self, paths: Paths, settings: Settings, engine: str, home_lock: HomeLock) -> None:
        self.paths = paths
        self.settings = settings
        self.extensions = Extensions(settings.without_kinds)
        self.extensions.register_pod_references()
        ensure_cluster_uid(paths)
        self.engine = engine_for(engine, settings, paths)
        self.home_lock = home_lock
        self.ranges = Ranges.of(settings.network)
        self.destinations = Destinations.of(settings.network.allow_destinations)
        hosts = [*addresses.host_names(), *addresses.addresses(), *settings.advertise]
        inside = [self.ranges.api, f"kubernetes.default.svc.{self.ranges.domain}"]
        self.names = [*hosts, *inside]
        self.pki = pki.ensure(paths.pki, self.names)

    async def run(self, ready: Readiness, job: str) -> None:
        """Start all parts, run them until a signal, and stop them.

        1. The store, then the API server over it.
        2. The agent's file, the engine, and the components, all clients of that API.
        3. Kubeconfig and record; whoever waits for us hears that we are ready.
        4. All tasks, until a signal or until one fails.
        """
        async with AsyncExitStack() as stack:
            tls = self.pki.server_context(self.pki.apiserver)
            signing_key = SigningKey.from_pem(self.pki.service_account_key)
            server = await self._server(stack, tls, signing_key)
            port = await self._listen(server)
            stack.push_async_callback(server.stop)

            base = Base(
                self.paths,
                self.settings,
                self.engine,
                self.pki,
                signing_key,
                self.destinations,
                self.extensions,
            )
            components = Components(base, server, port)
            contexts = {self.pki.apiserver: tls, self.pki.kubelet: components.kubelet_tls}

            mine = record.mine(
                url=url_of(self.settings, port), port=port, engine=self.engine.name, job=job
            )
            self._write_kubeconfig(mine.url)
            self.home_lock.declare(mine)
            logger.info(
                "control plane is up", version=__version__, url=mine.url, engine=mine.engine
            )
            ready.up(mine)
            settle()

            await until_stopped(
                {
                    **components.tasks(),
                    **({"upstream": server.watch()} if isinstance(server, UpstreamServer) else {}),
                    "heartbeat": self._beat(),
                    "certificates": self._renew(contexts, mine.url),
                    "compiling": self._compile(),
                }
            )
        logger.info("control plane has stopped")

    async def _server(
        self, stack: AsyncExitStack, tls: ssl.SSLContext, signing_key: SigningKey
    ) -> Server:
        """Return our server over its store, or the site's own over its etcd."""
        if self.settings.control_plane == "upstream":
            return UpstreamServer(
                self.paths,
                self.settings.upstream,
                self.pki,
                advertise=host_of(self.settings),
                services=str(self.ranges.services),
            )
        # Where there are no locks, SQLite must not ask for them; the home lock keeps others out.
        options = "" if self.home_lock.has_locks else "vfs=unix-none"
        store = await Store.open(self.paths.state, options=options, fence=self.home_lock.fence)
        stack.push_async_callback(store.close)
        return ApiServer(
            store,
            tls=tls,
            kubelet_tls=self.pki.client_context(self.pki.apiserver_kubelet_client),
            signing_key=signing_key,
            options=ServerOptions(
                auditor=self._auditor(stack),
                ranges=self.ranges,
                pod_security=self.settings.pod_security,
                unconfined=unconfined(),
                roles=self.extensions.roles,
                oidc=self.settings.oidc,
                destinations=self.destinations,
                front_proxy=FrontProxy(
                    self.pki.front_proxy_client, self.pki.front_proxy_ca, self.pki.ca
                ),
            ),
        )

    def _auditor(self, stack: AsyncExitStack) -> Auditor | None:
        if not self.settings.audit_policy:
            return None
        policy = load_policy(self.paths.home / self.settings.audit_policy)
        audit_log = AuditLog(self.paths.audit_log)
        stack.callback(audit_log.close)
        return Auditor(policy, audit_log)

    async def _listen(self, server: Server) -> int:
        """Listen at the port asked for, else at the last one, so that kubeconfigs stay good."""
        listen, wanted = self.settings.listen, self.settings.port
        last = record.read(self.paths)
        kept = last.port if last is not None else 0
        try:
            return await server.start(listen, wanted or kept)
        except OSError as error:
            why = os.strerror(error.errno or 0)
            if wanted or error.errno not in (errno.EADDRINUSE, errno.EACCES):
                text = f"cannot listen at {listen}:{wanted}: {why}; choose another port or `listen`"
                raise errors.ConfigError(text) from error
            logger.warning("the port of last time cannot be had", port=kept, error=why)
            return await server.start(listen, 0)

    def _write_kubeconfig(self, url: str) -> None:
        admin = self.pki.admin
        document = kubeconfig_file.document(
            self.settings.name,
            url,
            self.pki.ca.read_bytes(),
            admin.crt.read_bytes(),
            admin.key.read_bytes(),
        )
        write_private(self.paths.kubeconfig, kubeconfig_file.dumped(document))

    async def _beat(self) -> None:
        """End the process when the home is gone or another holds it; a hiccup does not matter."""
        while True:
            await asyncio.sleep(BEAT)
            try:
                self.home_lock.beat()
            except FileNotFoundError:
                raise
            except OSError as error:
                logger.warning("no heartbeat", file=self.paths.pid, error=error)

    async def _compile(self) -> None:
        """Compile it once; pods that start before, or where that is impossible, do without it."""
        for part in (STARTER, *([NETWORK] if self.settings.network.compile else [])):
            problem = await compile_helper(helper_file(self.paths.run, part), part=part)
            if problem:
                logger.info("a part of the agent is not compiled", part=part.name, reason=problem)
        await asyncio.Event().wait()

    async def _renew(self, contexts: dict[pki.Pair, ssl.SSLContext], url: str) -> None:
        """Renew certificates while the control plane runs for years; connections are untouched."""
        while True:
            await asyncio.sleep(RENEWAL)
            renewed = pki.ensure(self.paths.pki, self.names).renewed
            if renewed:
                logger.info("renewed certificates", names=",".join(sorted(renewed)))
                for pair, context in contexts.items():
                    context.load_cert_chain(pair.crt, pair.key)
                self._write_kubeconfig(url)
