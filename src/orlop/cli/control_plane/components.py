"""Makes all that is a client of the API server: kubelet, controllers, scheduler and gateway.

Used by the control plane once its API server listens. Everything gets what it needs when it is
made; nothing runs before `tasks`.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from ...client.clock import SystemClock
from ...client.informer import Informers
from ...controllers.framework.controller import Runnable
from ...controllers.framework.manager import ControllerManager
from ...controllers.namespaces.slurm_quota import Quota
from ...controllers.storage.folder_provisioner import folders_in
from ...extensions import registry as extensions
from ...extensions.podgroup.controller import BUILT_IN_DEFINITIONS
from ...extensions.slurmjob import kinds as slurm_kinds
from ...extensions.slurmjob.assembly import DEFINITIONS, SlurmObjects
from ...kubelet.server.mirror_logs import no_outputs
from ...scheduler import Scheduler
from ...slurm.jobs import SlurmJobs
from ...slurm.submit.user_slurm import UserSlurm
from ..home.removal import in_namespace
from .base import Base, Server, client_of
from .gateway import make_gateway
from .kubelet import make_kubelet
from .own_address import host_of, url_of


class Components:
    def __init__(self, base: Base, server: Server, port: int) -> None:
        """Make them, one after the other, for an API server that listens at `port`."""
        self._base = base
        self._server = server
        self._port = port
        self._informers = informers = Informers(client_of(server, "system:orlop"))
        self.kubelet_tls = base.pki.server_context(base.pki.kubelet)
        slurm = self._slurm_objects()
        outputs = slurm.output_of if slurm is not None else no_outputs
        url = url_of(base.settings, port)
        self._kubelet = make_kubelet(base, server, informers, url, self.kubelet_tls, outputs)
        server.serve_virtual(self._kubelet.parts.serving.metrics)
        self._controllers = self._manager(slurm.controllers() if slurm is not None else [])
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

    def _slurm_objects(self) -> SlurmObjects | None:
        """Return what serves Slurm's own jobs, where there is a Slurm."""
        engine, paths = self._base.engine, self._base.paths
        if not isinstance(engine, SlurmJobs):
            return None
        slurm = UserSlurm(engine, engine.commands, paths.cluster_uid.read_text().strip())
        api = client_of(self._server, slurm_kinds.USER)
        return SlurmObjects(api, self._informers, slurm, self._base.settings, paths)

    def _manager(self, slurm_controllers: list[Runnable]) -> ControllerManager:
        base, informers = self._base, self._informers
        settings, paths = base.settings, base.paths
        api = client_of(self._server, "system:kube-controller-manager")
        without = self._without_kinds()
        cluster = paths.cluster_uid.read_text().strip()
        return ControllerManager(
            api,
            informers,
            root_ca=base.pki.ca.read_text(),
            signing_key=base.signing_key,
            sign=base.pki.sign_request,
            api_endpoint=(host_of(settings), self._port),
            folders=folders_in(paths.volumes, settings.storage.scratch, cluster, in_namespace),
            autoscaling=settings.autoscaling,
            wall_time=settings.wall_time,
            extensions=[
                *extensions.controllers(api, informers, clock=SystemClock(), without=without),
                *slurm_controllers,
            ],
            slurm_quota=self._slurm_quota(),
        )

    def _slurm_quota(self) -> tuple[Quota, bool] | None:
        """Return Slurm's limits, for ResourceQuotas; no other engine has any."""
        if not isinstance(self._base.engine, SlurmJobs):
            return None
        return self._base.engine.quota, self._base.settings.slurm.mirror_quota

    def _without_kinds(self) -> list[str]:
        """Return the kinds to leave out.

        The original API server has its own PodGroup and Workload, where it has any at all; and what
        is Slurm's means nothing without it.
        """
        settings = self._base.settings
        theirs = BUILT_IN_DEFINITIONS if settings.control_plane == "upstream" else ()
        slurms = () if isinstance(self._base.engine, SlurmJobs) else DEFINITIONS
        return [*settings.without_kinds, *theirs, *slurms]
