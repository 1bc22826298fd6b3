"""The kubelet: owns every pod that is bound to a machine of the engine.

Run by the control plane as one of its tasks. Its parts are put together by `wiring.py`; here all
its own tasks are listed. What changes anywhere becomes a pod's uid in one work queue, and each uid
is worked on by one worker at a time. The life of a pod is in `pod/worker.py`.
"""

from __future__ import annotations

import json
import ssl

from ..api.objects import is_terminal, phase_of, uid_of
from ..client.leader_election import LeaderElection
from ..errors import Error
from ..files import write_private
from ..log import logger
from ..metrics import PROCESS
from .configuration import KubeletConfiguration
from .node.host import endpoints, this_host
from .node.node_object import Host
from .server.mirror_logs import is_mirror
from .wiring import Parts

log = logger(__name__)
_running_pods = PROCESS.gauge("kubelet_running_pods", "Number of pods that run on our nodes.")


class Kubelet:
    """`run` is all of it; `tls` is the listener's."""

    def __init__(
        self,
        parts: Parts,
        configuration: KubeletConfiguration,
        tls: ssl.SSLContext,
        election: LeaderElection | None = None,
    ) -> None:
        self.parts = parts
        self._configuration = configuration
        self._tls = tls
        self._election = election
        self._cache, self._queue = parts.shared.cache, parts.shared.queue
        self._is_mine = parts.pods.changes.is_mine
        PROCESS.before("kubelet", self._count_pods)

    def _count_pods(self) -> None:
        running = [pod for pod in self._cache.informer.list() if phase_of(pod) == "Running"]
        _running_pods.set(sum(self._is_mine(pod) for pod in running))

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
        parts, engine = self.parts, self.parts.engine
        await self._cache.informer.synced()  # 1
        await engine.node_cache.synced()
        try:
            host = await self._listen()  # 2
            async with parts.shared.tasks.running() as group:
                group.create_task(parts.shared.events.run(), name="kubelet events")
                group.create_task(engine.nodes.run(host), name="kubelet nodes")
                await self._recover()  # 3
                await parts.network.network.begin()
                self._cache.informer.subscribe(parts.pods.changes.on_pod)
                group.create_task(engine.poller.run(), name="kubelet job poller")
                group.create_task(parts.pods.live.run(), name="kubelet live sources")
                group.create_task(engine.accounts.run(), name="kubelet accounts")
                await self._work()  # 4
        finally:
            parts.network.network.stop()
            await parts.network.dialer.close()
            self._queue.close()
            await parts.serving.server.stop()

    async def _listen(self) -> Host:
        """Listen, and write where into the file that agents read; return how this host is seen."""
        settings, paths = self._configuration.settings, self._configuration.paths
        server = self.parts.serving.server
        port = await server.start(settings.listen, settings.kubelet_port, self._tls)
        host = this_host(settings, self._configuration.addresses, port)
        paths.run.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(paths.endpoint, json.dumps({"endpoints": endpoints(host)}))
        return host

    async def _recover(self) -> None:
        """Find the pods that have jobs, and what the engine says of them, before doing anything."""
        known, pods = self._cache.informer.list(), self._cache.pods
        mine = [pod for pod in known if self._is_mine(pod)]
        living = [pod for pod in mine if not is_terminal(pod)]
        for pod in living:
            pods.of(pod)
        for pod in filter(is_mirror, known):  # before its address is another's
            pods.addresses.reserve(uid_of(pod), (pod.get("status") or {}).get("podIP") or "")
        self.parts.engine.accounts.recall(pod for pod in mine if is_terminal(pod))
        if living or any(self._configuration.paths.pods.glob("*")):
            await self.parts.engine.poller.tick()
        self.parts.network.mirrors.begin()

    async def _work(self) -> None:
        while True:
            uid = await self._queue.get()
            self.parts.shared.tasks.spawn(self._reconcile(uid), f"pod {uid}")

    async def _reconcile(self, uid: str) -> bool:
        """Work on one pod; its trouble must not be another's: whatever fails is logged and tried
        again.
        """
        try:
            await self.parts.pods.worker.reconcile(uid)
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
