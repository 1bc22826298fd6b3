"""Runs all controllers of a cluster, side by side on one set of informers.

Started by the composition; `run` lasts until it is cancelled. A controller that breaks is logged
and started again; the others run on.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterable

from ...api.kinds import STORED, Kind
from ...client.api import Api
from ...client.clock import Clock, SystemClock, sleep
from ...client.informer import Informers
from ...client.leader_election import LeaderElection
from ...client.workqueue import Backoff
from ...jwt import SigningKey
from ...log import logger
from ...settings import AutoscalingSettings, WallTimeSettings
from ..accounts.bootstrap_signer import BootstrapSigner
from ..accounts.clusterrole_aggregation import ClusterRoleAggregation
from ..accounts.serviceaccount import ServiceAccounts
from ..accounts.token_cleaner import TokenCleaner
from ..accounts.token_secrets import TokenSecrets
from ..autoscaling.horizontal_pod_autoscaler import HorizontalPodAutoscalers
from ..certificates.csr_approval import CsrApproval
from ..certificates.csr_cleaner import CsrCleaner
from ..certificates.csr_signing import CsrSigning, Sign
from ..disruption.poddisruptionbudget import DisruptionBudgets
from ..disruption.stale_disruption import StaleDisruptions
from ..gc.event_ttl import EventTtl
from ..gc.garbage_collector import GarbageCollector
from ..gc.lease_gc import LeaseGc
from ..gc.podgc import PodGc
from ..namespaces.namespace import Namespaces
from ..namespaces.resourcequota import ResourceQuotas
from ..namespaces.root_ca import RootCa
from ..namespaces.slurm_quota import Quota, SlurmQuotas
from ..networking.endpoints import EndpointsController
from ..networking.endpointslice import EndpointSlices
from ..networking.endpointslice_mirroring import EndpointSliceMirroring
from ..networking.kubernetes_service import KubernetesService
from ..nodes.node_lifecycle import NodeLifecycle
from ..nodes.taint_eviction import TaintEviction
from ..storage.ephemeral_volume import EphemeralVolumes
from ..storage.folder_provisioner import FolderDeleter, FolderProvisioner, Folders
from ..storage.persistentvolume import Volumes
from ..storage.persistentvolumeclaim import VolumeClaims
from ..storage.storage_protection import ClaimProtection, VolumeProtection
from ..workloads.cronjob.controller import CronJobs
from ..workloads.daemonset.controller import DaemonSets
from ..workloads.deployment.controller import Deployments
from ..workloads.distributed.controller import DistributedNames
from ..workloads.job.controller import Jobs
from ..workloads.replicaset import ReplicaSets
from ..workloads.statefulset.controller import StatefulSets
from ..workloads.successors import Successors
from ..workloads.ttl_after_finished import TtlAfterFinished
from .controller import Runnable

log = logger(__name__)
_RESTART = Backoff(first=1.0, longest=60.0)

# Those that need nothing but the API and the informers.
_ALWAYS: tuple[Callable[..., Runnable], ...] = (
    Deployments,
    ReplicaSets,
    StatefulSets,
    DaemonSets,
    Jobs,
    CronJobs,
    TtlAfterFinished,
    DistributedNames,
    ServiceAccounts,
    ClusterRoleAggregation,
    EndpointSlices,
    EndpointsController,
    EndpointSliceMirroring,
    VolumeClaims,
    Volumes,
    ClaimProtection,
    VolumeProtection,
    EphemeralVolumes,
    DisruptionBudgets,
    StaleDisruptions,
    NodeLifecycle,
    TaintEviction,
    LeaseGc,
    CsrApproval,
    CsrCleaner,
    TokenCleaner,
    BootstrapSigner,
    PodGc,
    EventTtl,
)


class ControllerManager:
    """All controllers; `root_ca` is the PEM of the cluster's CA, published where given.

    With a `signing_key`, Secrets that ask for the token of a service account get it; with `sign`,
    certificates that were approved are signed by it; with `folders`, claims get folders there.
    `api_endpoint` is where the API server really is, for the service `kubernetes`; `extensions`
    are run like the others. With `slurm_quota`, namespaces have its limits as ResourceQuotas, where
    they ask or all of them. With an `election`, they run in the one process that leads.
    """

    def __init__(
        self,
        api: Api,
        informers: Informers,
        *,
        root_ca: str = "",
        signing_key: SigningKey | None = None,
        sign: Sign | None = None,
        folders: Folders | None = None,
        api_endpoint: tuple[str, int] | None = None,
        kinds: Iterable[Kind] = STORED,
        autoscaling: AutoscalingSettings | None = None,
        wall_time: WallTimeSettings | None = None,
        slurm_quota: tuple[Quota, bool] | None = None,
        extensions: Iterable[Runnable] = (),
        election: LeaderElection | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._clock = clock or SystemClock()
        self._election = election
        every = tuple(kinds)
        controllers: list[Runnable] = [kind(api, informers, clock=self._clock) for kind in _ALWAYS]
        controllers.append(
            HorizontalPodAutoscalers(api, informers, clock=self._clock, settings=autoscaling)
        )
        controllers.append(Successors(api, informers, clock=self._clock, settings=wall_time))
        if slurm_quota is not None:
            quota, everywhere = slurm_quota
            controllers.append(
                SlurmQuotas(api, informers, quota, is_everywhere=everywhere, clock=self._clock)
            )
        controllers.append(ResourceQuotas(api, informers, clock=self._clock, kinds=every))
        controllers.append(Namespaces(api, informers, clock=self._clock, kinds=every))
        controllers += extensions
        if folders:
            controllers += [
                kind(api, informers, folders, clock=self._clock)
                for kind in (FolderProvisioner, FolderDeleter)
            ]
        if api_endpoint is not None:
            controllers.append(KubernetesService(api, informers, *api_endpoint, clock=self._clock))
        if root_ca:
            controllers.append(RootCa(api, informers, root_ca, clock=self._clock))
        if sign is not None:
            controllers.append(CsrSigning(api, informers, sign, clock=self._clock))
        if signing_key is not None:
            controllers.append(
                TokenSecrets(api, informers, signing_key, root_ca, clock=self._clock)
            )
        # Last, because it follows by their metadata alone the kinds that nobody else follows.
        controllers.append(GarbageCollector(api, informers, clock=self._clock, kinds=every))
        self.controllers = controllers

    async def run(self) -> None:
        """Run every controller until cancelled, or until another process leads."""
        if self._election is not None:
            await self._election.lead(self._run)
        else:
            await self._run()

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for controller in self.controllers:
                group.create_task(self._keep_running(controller), name=controller.name)

    async def _keep_running(self, controller: Runnable) -> None:
        for failures in itertools.count():
            try:
                await controller.run()
            except Exception:
                log.error("controller broke", controller=controller.name, exc_info=True)
            await sleep(self._clock, _RESTART.delay(failures))
