"""The kubelet: owns every pod that is bound to a machine of the engine.

Made by the control plane with everything it needs, and run as one of its tasks. Here its parts are
put together and all its own tasks are listed; what changes anywhere becomes a pod's uid in one work
queue, and each uid is worked on by one worker at a time. The life of a pod is in `pod/worker.py`.
"""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..api.kinds import NODE, POD
from ..api.objects import (
    Key,
    Obj,
    annotations_of,
    is_deleting,
    is_terminal,
    key_of,
    phase_of,
    uid_of,
)
from ..api.quantity import to_bytes
from ..client.api import Api, WatchEvent
from ..client.clock import Clock, SystemClock
from ..client.informer import Informers, revision_of
from ..client.leader_election import LeaderElection
from ..client.recorder import Recorder
from ..client.workqueue import Backoff, WorkQueue
from ..engine import Engine, Job, JobId
from ..errors import Error
from ..files import write_private
from ..log import logger
from ..metrics import PROCESS
from ..network.addresses import PodAddresses
from ..network.ranges import Ranges
from ..settings import Paths, Settings
from ..slurm.commands import Commands
from ..wellknown import AGENT_LAUNCH, END_TIME, EXPIRING, JOB_ID, NODE_LIST, STANDS_FOR
from .agents.group_exec import GroupCommands
from .agents.journal import Record
from .agents.sessions import AgentErrand
from .network.dialer import Dialer
from .network.endpoint_updates import Network
from .network.mirror_ports import MirrorPorts
from .node.health import EngineHealth
from .node.host import endpoints, this_host
from .node.registration import Nodes
from .planning.live_updates import LiveSources
from .planning.network import ClusterNetwork, network_key
from .planning.plan import RUNTIMES, Site
from .planning.pmi import Pmi
from .pod.dependencies import Dependencies
from .pod.ephemeral_containers import EphemeralContainers
from .pod.events import Events
from .pod.folder import PodFolder
from .pod.gangs import Gangs
from .pod.job_poller import Ticker
from .pod.pods import Pods, PodState
from .pod.preparation import ImageStore, Preparation
from .pod.requeue import Requeues
from .pod.slurm_policy import PolicySources
from .pod.termination import Termination
from .pod.worker import PodWorker
from .server.access import Access
from .server.measurements import Measurements
from .server.mirror_logs import Outputs, is_mirror
from .server.resource_metrics import ResourceMetrics
from .server.server import KubeletServer
from .status.job_usage import ANNOTATIONS, PodAccounts
from .status.status_writer import StatusWriter

_WRITTEN_BACK = (JOB_ID, NODE_LIST, END_TIME, EXPIRING, *ANNOTATIONS)
_BY_NODE, _BY_UID = "spec.nodeName", "metadata.uid"
_RETRY = Backoff(first=0.1, longest=30.0)

log = logger(__name__)
_running_pods = PROCESS.gauge("kubelet_running_pods", "Number of pods that run on our nodes.")


class Kubelet:
    """`run` is all of it; `addresses` are those of this host that compute nodes may reach.

    `api_server` is the URL at which programs in pods reach the API server.
    """

    def __init__(
        self,
        api: Api,
        informers: Informers,
        *,
        engine: Engine,
        images: ImageStore,
        settings: Settings,
        paths: Paths,
        tls: ssl.SSLContext,
        token_key: bytes,
        agent_file: Path,
        helper: Path | None = None,
        starter: Path | None = None,
        addresses: Sequence[str] = (),
        api_server: str = "",
        election: LeaderElection | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._election = election
        self._clock = clock or SystemClock()
        self._settings = settings
        self._paths = paths
        self._tls = tls
        self._addresses, self._helper, self._starter = addresses, helper, starter
        self._api_server = api_server
        self._cached = informers.informer(POD)
        self._cached.add_index(_BY_NODE, _node_names)
        self._cached.add_index(_BY_UID, lambda pod: (uid_of(pod),))
        self._cached_nodes = informers.informer(NODE)
        self._queue: WorkQueue[str] = WorkQueue(backoff=_RETRY, clock=self._clock, name="kubelet")
        self._has_swept = False

        self._health = EngineHealth(self._clock)
        self._ranges = Ranges.of(settings.network)
        self._pods = Pods(paths, PodAddresses(self._ranges.pods))
        self._network = Network(informers, self._pods, self._ranges)
        self.dialer = Dialer(self._pods, self._network.view, self._ranges, network_key(token_key))
        self.mirrors = MirrorPorts(self._pods.addresses, self._network.view)
        self._events = Events(Recorder(api, "kubelet", clock=self._clock))
        self._nodes = Nodes(
            api,
            engine,
            self._cached_nodes,
            self._health,
            has_pods=self._has_pods,
            on_new=self._on_new_node,
            clock=self._clock,
        )
        self._writer = StatusWriter(api, self._events, self._health, self._clock)
        self._ticker = Ticker(
            engine,
            self._pods,
            self._health,
            busy=settings.slurm.busy_tick,
            idle=settings.slurm.idle_tick,
            on_change=self._queue.add,
            on_listing=self._on_listing,
            clock=self._clock,
        )
        measurements = Measurements(
            self._pods, self._cached, self._clock, settings.autoscaling.metric_resolution
        )
        self.metrics = ResourceMetrics(measurements, self._nodes, self._cached_nodes, self._clock)
        self._server = KubeletServer(
            self._pods,
            self._cached,
            self._writer,
            self,
            token_key=token_key,
            measurements=measurements,
            access=Access(api),
            mirrors=self.mirrors,
        )
        commands = Commands.of_process(settings.slurm.command_timeout)
        preparation = Preparation(
            api,
            images,
            self._nodes,
            self._events,
            self._site(token_key),
            token_key,
            self._pods.addresses,
            self._network.view,
            Pmi(lambda: commands.run("srun", "--mpi=list")),
        )
        self._accounts = PodAccounts(api, engine, self._clock)
        self._worker = PodWorker(
            engine,
            self._cached,
            self._pods,
            self._nodes,
            Gangs(api, self._cached),
            Dependencies(api),
            preparation,
            Termination(
                api,
                engine,
                self._pods,
                self._writer,
                self._health,
                self._clock,
                self,
                self._accounts.add,
            ),
            EphemeralContainers(preparation, self._events, self, self._spawn, self._clock),
            Requeues(engine, self._events, self._health, self),
            PolicySources(informers),
            self._writer,
            self._events,
            self._health,
            later=self,
            spawn=self._spawn,
            command=_command(settings, agent_file),
            clock=self._clock,
        )
        self._live = LiveSources(
            api,
            informers,
            self._pods,
            self._cached,
            self._nodes,
            self._events,
            self._site(token_key),
            services_for=self._network.view.services_for,
            on_source=self._on_source,
            clock=self._clock,
        )
        self._commands = GroupCommands(
            self._pods, self._cached, self._spawn, self._clock, self._records
        )
        self._group: asyncio.TaskGroup | None = None
        self._health.subscribe(self._on_health)
        PROCESS.before("kubelet", self._count_pods)

    def _count_pods(self) -> None:
        running = [pod for pod in self._cached.list() if phase_of(pod) == "Running"]
        _running_pods.set(sum(self._is_mine(pod) for pod in running))

    def _site(self, token_key: bytes) -> Site:
        agent, network = self._settings.agent, self._settings.network
        return Site(
            cluster=self._paths.cluster_uid.read_text().strip(),
            endpoint_file=self._paths.endpoint,
            ca=self._paths.pki / "ca.crt",
            runtimes=(agent.runtime,) if agent.runtime else RUNTIMES,
            runtime=agent.runtime,
            scratch=agent.scratch,
            log_size=to_bytes(agent.log_max_size) if agent.log_max_size else 0,
            log_files=agent.log_max_files,
            pids=agent.pod_pids_limit,
            seccomp=self._paths.seccomp,
            starter=str(self._starter or ""),
            api_server=self._api_server,
            network=ClusterNetwork(
                self._ranges,
                network_key(token_key),
                network.allow_outside,
                tuple(network.upstream),
                network.stub_domains,
                str(self._helper or ""),
            ),
        )

    async def run(self) -> None:
        """Run until cancelled; with an `election`, in the one process that leads."""
        if self._election is not None:
            await self._election.lead(self._run)
        else:
            await self._run()

    async def _run(self) -> None:
        """Become the kubelet of the engine's machines.

        1. Know the pods and nodes there are.
        2. Listen, and say where; register the nodes.
        3. Take up the pods of an earlier control plane, after asking the engine once.
        4. Work.
        """
        await self._cached.synced()  # 1
        await self._cached_nodes.synced()
        settings = self._settings
        try:
            port = await self._server.start(settings.listen, settings.kubelet_port, self._tls)  # 2
            host = this_host(settings, self._addresses, port)
            text = json.dumps({"endpoints": endpoints(host)})
            self._paths.run.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_private(self._paths.endpoint, text)
            async with asyncio.TaskGroup() as self._group:
                self._group.create_task(self._events.run(), name="kubelet events")
                self._group.create_task(self._nodes.run(host), name="kubelet nodes")
                await self._recover()  # 3
                await self._network.begin()
                self._cached.subscribe(self._on_pod)
                self._group.create_task(self._ticker.run(), name="kubelet ticker")
                self._group.create_task(self._live.run(), name="kubelet live sources")
                self._group.create_task(self._accounts.run(), name="kubelet accounts")
                await self._work()  # 4
        finally:
            self._network.stop()
            await self.dialer.close()
            self._queue.close()
            await self._server.stop()

    async def _recover(self) -> None:
        """Find the pods that have jobs, and what the engine says of them, before doing anything."""
        found = [pod for pod in self._cached.list() if self._is_mine(pod)]
        mine = [pod for pod in found if not is_terminal(pod)]
        for pod in mine:
            self._pods.of(pod)
        for pod in filter(is_mirror, self._cached.list()):  # before its address is another's
            self._pods.addresses.reserve(uid_of(pod), (pod.get("status") or {}).get("podIP") or "")
        self._accounts.recall(pod for pod in found if is_terminal(pod))
        if mine or any(self._paths.pods.glob("*")):
            await self._ticker.tick()
        self.mirrors.begin()

    async def _work(self) -> None:
        while True:
            uid = await self._queue.get()
            self._spawn(self._reconcile(uid), f"pod {uid}")

    async def _reconcile(self, uid: str) -> bool:
        """Work on one pod; its trouble must not be another's: whatever fails is logged and tried
        again.
        """
        try:
            await self._worker.reconcile(uid)
        except Exception as error:
            delay = self._queue.add_rate_limited(uid)
            is_ours = isinstance(error, Error)
            log.error("pod not reconciled", pod=uid, error=error, exc_info=not is_ours, retry=delay)
            return False
        else:
            self._queue.forget(uid)
            return True
        finally:
            self._queue.done(uid)

    def _spawn(self, work: Coroutine[None, None, bool], name: str) -> asyncio.Task[bool]:
        assert self._group is not None, "the kubelet runs"
        return self._group.create_task(work, name=name)

    # What changes: objects

    def _is_mine(self, pod: Obj) -> bool:
        name = pod["spec"].get("nodeName")
        return bool(name) and self._nodes.is_ours(name) and not is_mirror(pod)

    def show_outputs(self, outputs: Outputs) -> None:
        """Have the logs of mirror pods read from the files that `outputs` names."""
        self._server.outputs = outputs

    def _on_pod(self, event: WatchEvent, former: Obj | None) -> None:
        pod = event.object
        if is_terminal(pod):
            self._worker.on_end(key_of(pod).namespace)
        if not self._is_mine(pod):
            return
        known = self._pods.get(uid_of(pod))
        is_gone = event.type == "DELETED"
        if known is None and is_terminal(pod) and not is_gone and not is_deleting(pod):
            return
        state = known or self._pods.of(pod)
        written = state.written
        if not is_gone and written is not None and revision_of(written) == revision_of(pod):
            return  # our own write comes back
        if (is_gone or is_deleting(pod)) and state.preparing is not None:
            state.preparing.cancel()
        if former is not None and _wishes(former) != _wishes(pod):
            state.failures, state.retry_at = 0, 0.0
        self._queue.add(state.uid)

    def _on_source(self, uid: str) -> None:
        """Wake a pod that may have waited for a ConfigMap, Secret or claim that has changed."""
        state = self._pods.get(uid)
        if state is not None and state.job_id is None and state.trouble is not None:
            state.failures, state.retry_at = 0, 0.0
            self._queue.add(uid)

    def _on_new_node(self, name: str) -> None:
        """Queue pods that may have been bound to the node by name before it was there."""
        for pod in self._cached.by_index(_BY_NODE, name):
            if not is_terminal(pod) and not is_mirror(pod):
                self._queue.add(self._pods.of(pod).uid)

    def _has_pods(self, node: str) -> bool:
        bound = self._cached.by_index(_BY_NODE, node)
        return any(not is_terminal(pod) and STANDS_FOR not in annotations_of(pod) for pod in bound)

    # What changes: the engine

    def _on_health(self) -> None:
        for state in self._pods:
            self._queue.add(state.uid)
        self._ticker.ask()

    def _on_listing(self, listed: Mapping[JobId, Job]) -> None:
        """Handle jobs that run although their pod is over or gone, and folders without an owner."""
        for job in listed.values():
            if job.pod_uid and not job.state.has_ended and self._pods.get(job.pod_uid) is None:
                self._adopt(job)
        if not self._has_swept:
            self._has_swept = True
            uids = frozenset(uid_of(pod) for pod in self._cached.list())
            for state in self._pods.left_behind(uids):
                self._queue.add(state.uid)

    def _adopt(self, job: Job) -> None:
        pods = self._cached.by_index(_BY_UID, job.pod_uid)
        if pods:
            state = self._pods.of(pods[0])
            state.is_settled = False
        else:
            namespace, _, name = job.name.partition("/")
            state = self._pods.orphan(job.pod_uid, Key(namespace, name))
            log.warning("a job has no pod any more", job=job.id, name=job.name)
        state.job_id, state.job = job.id, job
        self._queue.add(state.uid)

    # What changes: agents (connection.AgentEventHandler)

    def on_hello(self, state: PodState, message: dict[str, Any]) -> None:
        if state.job_id is None and message.get("job"):
            state.job_id = JobId(str(message["job"]))
            state.submitted = self._clock.now()
        state.asked_to_end = None  # what was said over another connection may never have arrived
        revision = message.get("revision")
        self._live.on_hello(state, int(revision) if revision is not None else None)
        self._queue.add(state.uid)

    def on_record(self, state: PodState, record: Record) -> None:
        if state.apply(record):
            self._queue.add(state.uid)
            if record.type == "finished":
                self._ticker.ask()

    def on_start(self, state: PodState, errand: AgentErrand, message: dict[str, Any]) -> None:
        self._commands.begin(state, errand, message)

    def _records(self, service: str, namespace: str) -> Any:
        return self._network.view.value(f"name/{service}.{namespace}.svc.{self._ranges.domain}")

    def on_network(self, state: PodState, message: dict[str, Any], line: str) -> None:
        self._network.on_message(state, message, line)

    def on_line_end(self, state: PodState, line: str) -> None:
        self._network.on_silence(state, line)

    def on_silence(self, state: PodState) -> None:
        self._network.on_silence(state)
        self._live.on_silence(state)
        self._queue.add(state.uid)
        self._ticker.ask()

    # What workers ask for (termination.Requeuer)

    def again(self, uid: str, delay: float) -> None:
        self._queue.add_after(uid, delay)

    def follow(self, uid: str) -> None:
        self._live.follow(uid)

    def ask_engine(self) -> None:
        self._ticker.ask()

    def expect_engine(self) -> None:
        self._ticker.expect()


def _node_names(pod: Obj) -> tuple[str, ...]:
    name = pod["spec"].get("nodeName")
    return (name,) if name else ()


def _wishes(pod: Obj) -> Obj:
    """Return what a user may change to have a refused pod tried again at once."""
    annotations = annotations_of(pod).items()
    ours = {key: value for key, value in annotations if key not in _WRITTEN_BACK}
    return {"annotations": ours, "spec": pod["spec"]}


def _command(settings: Settings, agent_file: Path) -> Callable[[PodFolder], tuple[str, ...]]:
    """Return how a job starts the agent; a virtual environment's Python by its own path."""
    python = settings.agent.python or os.path.realpath(sys.executable)
    launch = (python, "-I", "-S", "-c", AGENT_LAUNCH, str(agent_file))
    return lambda folder: (*launch, str(folder.path))
