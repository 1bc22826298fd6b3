"""What controllers and scheduler cost: at rest, for one changed pod, while a Deployment comes up.

Run by `make bench`, by itself: an API server over a real store, all controllers and the scheduler
as clients in the same process, and the smallest of kubelets, which has every pod run at once. The
time of a reconcile is CPU time, that of its API requests included, and not what it waits.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orlop.api.kinds import DEPLOYMENT, LEASE, NAMESPACE, NODE, POD
from orlop.api.objects import Key, Obj, key_of, phase_of
from orlop.api.times import rfc3339, rfc3339_micro
from orlop.apiserver import ApiServer
from orlop.client.api import Api, WatchEvent
from orlop.client.informer import Informers
from orlop.client.workqueue import WorkQueue
from orlop.controllers.framework.manager import ControllerManager
from orlop.scheduler import Scheduler
from orlop.store import Store

PODS, DEPLOYMENTS = 10_000, 500
REPLICAS = 1_000
REST = 20.0  # seconds in which nothing happens
CHANGES = 50  # single pods changed, one after the other
_NODE_NAME, _LEASES = "main", "kube-node-lease"


@dataclass(frozen=True, slots=True)
class Table:
    title: str
    rows: list[tuple[str, str]]
    aim: str = ""

    def __str__(self) -> str:
        width = max(len(name) for name, _ in self.rows)
        lines = [f"{name.ljust(width)}  {value}" for name, value in self.rows]
        return "\n".join([self.title, "", *lines, *(["", self.aim] if self.aim else [])])


def measure() -> list[Table]:
    return asyncio.run(_measure())


async def _measure() -> list[Table]:
    with tempfile.TemporaryDirectory() as folder:
        async with cluster(Path(folder)) as bench:
            up = await bench.bring_up(DEPLOYMENTS, PODS // DEPLOYMENTS)
            rest = await bench.rest(REST)
            change = await bench.change(CHANGES)
            one = await bench.bring_up(1, REPLICAS)
    changed = [
        (f"one changed pod: {name}", f"{cost.calls:.1f} reconciles of {cost.each:.2f} ms")
        for name, cost in change.items()
    ]
    return [
        Table(
            f"Controllers and scheduler with {PODS} pods in {DEPLOYMENTS} Deployments",
            [
                ("at rest", f"{rest * 100:.2f} % of a CPU over {REST:g} s"),
                *changed,
                ("all of them brought up", str(up)),
            ],
            "Aim: nothing at rest; well under 1 ms for each controller that cares.",
        ),
        Table(
            "One Deployment comes up: pods created, bound, running and counted",
            [(f"{REPLICAS} replicas", str(one))],
            "Upstream's controllers are held to 20 requests a second (kube-api-qps) by default.",
        ),
    ]


@dataclass(frozen=True, slots=True)
class Rate:
    pods: int
    seconds: float
    cpu: float

    def __str__(self) -> str:
        each = self.cpu / self.pods * 1000
        return f"{self.pods / self.seconds:.0f} pods a second, {each:.2f} ms of CPU each"


@dataclass(slots=True)
class Meter:
    """What one controller has done."""

    calls: int = 0
    seconds: float = 0.0


class Steps:
    """Awaits a coroutine, and counts the CPU time of its steps."""

    def __init__(self, work: Coroutine[Any, Any, Any], meter: Meter) -> None:
        self._work = work
        self._meter = meter

    def __await__(self) -> Generator[Any, Any, Any]:
        self._meter.calls += 1
        step: Callable[[], Any] = lambda: self._work.send(None)  # noqa: E731
        while True:
            began = time.thread_time()
            try:
                yielded = step()
            except StopIteration as end:
                return end.value
            finally:
                self._meter.seconds += time.thread_time() - began
            try:
                value = yield yielded
                step = lambda value=value: self._work.send(value)  # noqa: E731
            except BaseException as error:
                step = lambda error=error: self._work.throw(error)  # noqa: E731


def metered(obj: Any, method: str, meter: Meter) -> None:
    """Count the calls of a method of one object."""
    original = getattr(obj, method)

    async def call(*arguments: Any) -> Any:
        return await Steps(original(*arguments), meter)

    setattr(obj, method, call)


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one change: reconciles of a controller, and milliseconds of each."""

    calls: float
    each: float


class Bench:
    """A cluster whose pods run as soon as they are bound."""

    def __init__(self, api: Api, informers: Informers, meters: dict[str, Meter]) -> None:
        self.api = api
        self.meters = meters
        self._pods = informers.informer(POD)
        self._deployments = informers.informer(DEPLOYMENT)
        self._made = 0

    async def bring_up(self, deployments: int, replicas: int) -> Rate:
        """Until all of it runs, and its Deployments know."""
        pods = deployments * replicas
        wanted = len(self._pods) + pods
        began, cpu = time.monotonic(), time.process_time()
        names = [f"web-{self._made + number}" for number in range(deployments)]
        self._made += deployments
        await asyncio.gather(*(self._create(name, replicas) for name in names))
        await self._pods.until(lambda: len(self._pods) >= wanted, "the pods", 600)
        await asyncio.gather(*(self._complete(name, replicas) for name in names))
        return Rate(pods, time.monotonic() - began, time.process_time() - cpu)

    async def _create(self, name: str, replicas: int) -> None:
        await self.api.create(DEPLOYMENT, a_deployment(name, replicas), namespace="bench")

    async def _complete(self, name: str, replicas: int) -> None:
        key = Key("bench", name)

        def is_complete() -> bool:
            status = (self._deployments.get(key) or {}).get("status") or {}
            return bool(status.get("availableReplicas") == replicas)

        await self._deployments.until(is_complete, name, 600)

    async def rest(self, seconds: float) -> float:
        """The part of a CPU that nothing costs."""
        await asyncio.sleep(2)  # what was under way has ended
        began = time.process_time()
        await asyncio.sleep(seconds)
        return (time.process_time() - began) / seconds

    async def change(self, times: int) -> dict[str, Cost]:
        """By controller, what one pod that changes costs."""
        before = {name: (one.calls, one.seconds) for name, one in self.meters.items()}
        for number, pod in enumerate(self._pods.list()[:times]):
            status = running(f"10.9.{number // 250}.{number % 250}", ready=False)
            await self.api.patch(POD, key_of(pod), {"status": status}, subresource="status")
            await asyncio.sleep(0.05)
        await asyncio.sleep(1)
        found = {}
        for name, meter in self.meters.items():
            calls = meter.calls - before[name][0]
            if calls:
                each = (meter.seconds - before[name][1]) / calls * 1000
                found[name] = Cost(calls / times, each)
        return found


@asynccontextmanager
async def cluster(folder: Path) -> AsyncIterator[Bench]:
    store = await Store.open(folder / "state.db")
    server = ApiServer(store)
    await server.prepare()
    api = server.client("system:bench", ["system:masters"])
    await api.create(NAMESPACE, {"metadata": {"name": "bench"}})
    await api.create(NODE, a_node())
    informers = Informers(server.client("system:orlop", ["system:masters"]))
    manager_api = server.client("system:kube-controller-manager", ["system:masters"])
    manager = ControllerManager(manager_api, informers)
    scheduler = Scheduler(server.client("system:kube-scheduler", ["system:masters"]), informers)
    meters = {one.name: Meter() for one in manager.controllers if hasattr(one, "reconcile")}
    for one in manager.controllers:
        if one.name in meters:
            metered(one, "reconcile", meters[one.name])
    meters["scheduler"] = Meter()
    metered(scheduler, "_schedule", meters["scheduler"])
    parts = [
        informers,
        manager,
        scheduler,
        QuickKubelet(server.client("system:kubelet", ["system:masters"]), informers),
    ]
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(part.run()) for part in parts]  # type: ignore[attr-defined]
            await informers.synced()
            yield Bench(api, informers, meters)
            for task in tasks:
                task.cancel()
    finally:
        await store.settled()
        await server.stop()
        await store.close()


class QuickKubelet:
    """Says of every pod that is bound that it runs and is ready."""

    def __init__(self, api: Api, informers: Informers) -> None:
        self._api = api
        self._pods = informers.informer(POD)
        self._queue: WorkQueue[Key] = WorkQueue()

    async def run(self) -> None:
        self._pods.subscribe(self._changed)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keep_lease())
            for _ in range(32):
                group.create_task(self._work())

    async def _keep_lease(self) -> None:
        """Without it, the node would be given up for dead, and all its pods."""
        spec = {"holderIdentity": _NODE_NAME, "leaseDurationSeconds": 40}
        lease = {"metadata": {"name": _NODE_NAME}, "spec": spec}
        await self._api.create(LEASE, lease, namespace=_LEASES)
        while True:
            change = {"spec": {"renewTime": rfc3339_micro(time.time())}}
            await self._api.patch(LEASE, Key(_LEASES, _NODE_NAME), change)
            await asyncio.sleep(10)

    def _changed(self, event: WatchEvent, former: Obj | None) -> None:
        pod = event.object
        if pod["spec"].get("nodeName") and phase_of(pod) == "Pending":
            self._queue.add(key_of(pod))

    async def _work(self) -> None:
        while True:
            key = await self._queue.get()
            change = {"status": running(f"10.8.{hash(key) % 250}.{hash(key) // 250 % 250}")}
            await self._api.patch(POD, key, change, subresource="status")
            self._queue.done(key)


def running(address: str, *, ready: bool = True) -> Obj:
    when, said = rfc3339(time.time()), "True" if ready else "False"
    kinds: Iterable[str] = ("Ready", "ContainersReady")
    return {
        "phase": "Running",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": when,
        "conditions": [
            {"type": kind, "status": said, "lastTransitionTime": when} for kind in kinds
        ],
    }


def a_node() -> Obj:
    amounts = {"cpu": "100000", "memory": "1000Ti", "pods": "1000000"}
    return {
        "metadata": {
            "name": _NODE_NAME,
            "labels": {"orlop.dev/engine": "slurm", "slurm.orlop.dev/partition": _NODE_NAME},
        },
        "status": {
            "allocatable": amounts,
            "capacity": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def a_deployment(name: str, replicas: int) -> Obj:
    resources = {"requests": {"cpu": "100m", "memory": "64Mi"}}
    container = {"name": "main", "image": "busybox", "resources": resources}
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [container]},
            },
        },
    }
