"""Runs all controllers of a cluster, side by side on one set of informers.

Started by the composition; `run` lasts until it is cancelled. A controller that breaks is logged
and started again, and never takes the others down.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable, Sequence
from functools import partial
from typing import ClassVar, Protocol

from ..api.kinds import STORED, Kind
from ..client.api import Api
from ..client.clock import Clock, SystemClock, sleep
from ..client.informer import Informers
from ..client.leader_election import LeaderElection
from ..client.workqueue import Backoff
from ..jwt import SigningKey
from ..log import logger
from ..settings import AutoscalingSettings, WallTimeSettings
from . import pod_groups
from ._shape import Controller
from .bootstrap_signer import BootstrapSigner
from .bundled import BundledKinds, WhileOurs
from .clusterrole_aggregation import ClusterRoleAggregation
from .cronjob import CronJobs
from .csr_approval import CsrApproval
from .csr_cleaner import CsrCleaner
from .csr_signing import CsrSigning, Sign
from .daemonset import DaemonSets
from .deployment import Deployments
from .disruption import DisruptionBudgets
from .distributed import DistributedNames
from .endpoints import EndpointsController
from .endpointslice import EndpointSlices
from .endpointslice_mirroring import EndpointSliceMirroring
from .ephemeral_volume import EphemeralVolumes
from .event_ttl import EventTtl
from .folder_provisioner import FolderDeleter, FolderProvisioner, Folders
from .garbage_collector import GarbageCollector
from .horizontal_pod_autoscaler import HorizontalPodAutoscalers
from .job import Jobs
from .jobset import DEFINITION as JOB_SETS
from .jobset import JobSets
from .kubernetes_service import KubernetesService
from .leaderworkerset import DEFINITION as LEADER_WORKER_SETS
from .leaderworkerset import LeaderWorkerSets
from .lease_gc import LeaseGc
from .mpijob import DEFINITION as MPI_JOBS
from .mpijob import MpiJobs
from .namespace import Namespaces
from .node_lifecycle import NodeLifecycle
from .persistentvolume import Volumes
from .persistentvolumeclaim import VolumeClaims
from .podgc import PodGc
from .pytorchjob import DEFINITION as PYTORCH_JOBS
from .pytorchjob import PyTorchJobs
from .replicaset import ReplicaSets
from .resourcequota import ResourceQuotas
from .root_ca import RootCa
from .serviceaccount import ServiceAccounts
from .slurm_quota import Quota, SlurmQuotas
from .stale_disruption import StaleDisruptions
from .statefulset import StatefulSets
from .storage_protection import ClaimProtection, VolumeProtection
from .taint_eviction import TaintEviction
from .token_cleaner import TokenCleaner
from .token_secrets import TokenSecrets
from .ttl_after_finished import TtlAfterFinished
from .wall_time import WallTimes

log = logger(__name__)
_RESTART = Backoff(first=1.0, longest=60.0)


class Runnable(Protocol):
    """A controller of any shape."""

    name: ClassVar[str]

    async def run(self) -> None: ...


def _made(
    kind: type[Controller], api: Api, informers: Informers, clock: Clock
) -> Sequence[Runnable]:
    return [kind(api, informers, clock=clock)]


class ControllerManager:
    """All controllers; `root_ca` is the PEM of the cluster's CA, published where given.

    With a `signing_key`, Secrets that ask for the token of a service account get it; with `sign`,
    certificates that were approved are signed by it; with `folders`, claims get folders there.
    `api_endpoint` is where the API server really is, for the service `kubernetes`; `without_kinds`
    are bundled definitions that are not installed. With `slurm_quota`, namespaces have its limits
    as ResourceQuotas, where they ask or all of them. With an `election`, they run in the one
    process that leads.
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
        without_kinds: Iterable[str] = (),
        election: LeaderElection | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._clock = clock or SystemClock()
        self._election = election
        every = tuple(kinds)
        controllers: list[Runnable] = [
            kind(api, informers, clock=self._clock)
            for kind in (
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
        ]
        controllers.append(
            HorizontalPodAutoscalers(api, informers, clock=self._clock, settings=autoscaling)
        )
        controllers.append(WallTimes(api, informers, clock=self._clock, settings=wall_time))
        if slurm_quota is not None:
            quota, everywhere = slurm_quota
            controllers.append(
                SlurmQuotas(api, informers, quota, is_everywhere=everywhere, clock=self._clock)
            )
        controllers.append(ResourceQuotas(api, informers, clock=self._clock, kinds=every))
        controllers.append(Namespaces(api, informers, clock=self._clock, kinds=every))
        controllers.append(
            BundledKinds(api, informers, clock=self._clock, without=tuple(without_kinds))
        )
        for definition, kind_of_ours in (
            (MPI_JOBS, MpiJobs),
            (PYTORCH_JOBS, PyTorchJobs),
            (JOB_SETS, JobSets),
            (LEADER_WORKER_SETS, LeaderWorkerSets),
            (pod_groups.DEFINITION, pod_groups.PodGroups),
            (pod_groups.BUILT_IN_DEFINITION, pod_groups.BuiltInPodGroups),
        ):
            make = partial(_made, kind_of_ours, api, informers, self._clock)
            controllers.append(WhileOurs(informers, [definition], make))
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
