"""Makes all that is a client of the API server: kubelet, controllers, scheduler and gateway.

Used by the control plane once its API server listens. Everything gets what it needs when it is
made; nothing runs before `tasks`.
"""

from __future__ import annotations

from collections.abc import Coroutine
from functools import cache, partial
from pathlib import Path
from typing import Any

from ...api.objects import Obj
from ...client.clock import SystemClock
from ...client.informer import Informers
from ...controllers.framework.manager import ControllerManager
from ...controllers.namespaces.slurm_quota import Quota
from ...controllers.storage.folder_provisioner import folders_in
from ...extensions.extension import CONTROLLER_MANAGER, Host
from ...kubelet.server.mirror_logs import Outputs, no_outputs
from ...scheduler import Scheduler
from ...slurm.jobs import SlurmEngine
from ...slurm.submit.user_slurm import UserSlurm
from ..home.removal import in_namespace
from .base import Base, Server, client_of
from .gateway import make_gateway
from .kubelet import make_kubelet
from .own_address import host_of, url_of


class _MirrorOutputs:
    """Finds what mirror pods print to, once an extension that makes such pods runs."""

    def __init__(self) -> None:
        self._find: Outputs = no_outputs

    def show(self, find: Outputs) -> None:
        self._find = find

    def __call__(self, pod: Obj, container: str) -> Path | None:
        return self._find(pod, container)


class Components:
    def __init__(self, base: Base, server: Server, port: int) -> None:
        """Make them, one after the other, for an API server that listens at `port`."""
        self._base = base
        self._server = server
        self._port = port
        self._informers = informers = Informers(client_of(server, "system:orlop"))
        self.kubelet_tls = base.pki.server_context(base.pki.kubelet)
        outputs = _MirrorOutputs()
        url = url_of(base.settings, port)
        self._kubelet = make_kubelet(base, server, informers, url, self.kubelet_tls, outputs)
        server.serve_virtual(self._kubelet.parts.serving.metrics)
        self._controllers = self._manager(outputs)
        self._scheduler = Scheduler(
            client_of(server, "system:kube-scheduler"), informers, slurm=base.settings.slurm
        )
        self._gateway = make_gateway(base, server, informers, self._kubelet.parts.network)

    def tasks(self) -> dict[str, Coroutine[Any, Any, None]]:
        """Return what runs for as long as the control plane does, by name."""
        return {
            "informers": self._informers.run(),
            "controllers": self._controllers.run(),
            "scheduler": self._scheduler.run(),
            "kubelet": self._kubelet.run(),
            **{part.name: part.run() for part in self._gateway},
        }

    def _manager(self, outputs: _MirrorOutputs) -> ControllerManager:
        """Return all controllers, those of extensions among them."""
        base, informers = self._base, self._informers
        settings, paths = base.settings, base.paths
        cluster = paths.cluster_uid.read_text().strip()
        client = cache(partial(client_of, self._server))
        host = Host(
            client=client,
            informers=informers,
            clock=SystemClock(),
            settings=settings,
            paths=paths,
            slurm=self._user_slurm(cluster),
            show_outputs=outputs.show,
        )
        return ControllerManager(
            client(CONTROLLER_MANAGER),
            informers,
            root_ca=base.pki.ca.read_text(),
            signing_key=base.signing_key,
            sign=base.pki.sign_request,
            api_endpoint=(host_of(settings), self._port),
            folders=folders_in(paths.volumes, settings.storage.scratch, cluster, in_namespace),
            autoscaling=settings.autoscaling,
            wall_time=settings.wall_time,
            extensions=base.extensions.controllers(host),
            slurm_quota=self._slurm_quota(),
        )

    def _user_slurm(self, cluster: str) -> UserSlurm | None:
        """Return Slurm as extensions use it, where there is one."""
        engine = self._base.engine
        return (
            UserSlurm(engine, engine.commands, cluster) if isinstance(engine, SlurmEngine) else None
        )

    def _slurm_quota(self) -> tuple[Quota, bool] | None:
        """Return Slurm's limits, for ResourceQuotas; no other engine has any."""
        if not isinstance(self._base.engine, SlurmEngine):
            return None
        return self._base.engine.quota, self._base.settings.slurm.mirror_quota
