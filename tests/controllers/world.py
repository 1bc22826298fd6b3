"""A world to test controllers in: a real store and API server, and the smallest of kubelets.

Shared by the tests of client, controllers and scheduler. Everything but the kubelet is the real
thing; `Kubelet` does to pods what a node would, as quickly as it can.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orlop import errors
from orlop.api.kinds import NODE, POD, Kind
from orlop.api.objects import Key, Obj, is_deleting, is_terminal, key_of, meta, phase_of
from orlop.api.schema import Schema
from orlop.api.times import rfc3339
from orlop.apiserver import ApiServer
from orlop.apiserver.admission import Admission, Attributes, Plugin, standard
from orlop.client.api import Api, WatchEvent
from orlop.client.clock import Clock, SystemClock
from orlop.client.informer import Informers
from orlop.client.workqueue import WorkQueue
from orlop.store import Store

NAMESPACE = "default"
# How a check that is too early fails.
_NOT_YET = (AssertionError, errors.NotFound, KeyError, TypeError, ValueError)


class Quota(Plugin):
    """An admission plugin that lets only so many pods be made, as a ResourceQuota would."""

    def __init__(self) -> None:
        self.pods_left: int | None = None

    async def validate(self, attributes: Attributes) -> None:
        if attributes.operation != "CREATE" or attributes.kind != POD or self.pods_left is None:
            return
        if self.pods_left <= 0:
            raise errors.Forbidden("exceeded quota: pods")
        self.pods_left -= 1


@dataclass
class World:
    """One cluster's state, and the API to it."""

    store: Store
    server: ApiServer
    api: Api
    quota: Quota
    keeps_new_taint: bool = False

    async def create(self, kind: Kind, obj: Obj, namespace: str = NAMESPACE) -> Obj:
        made = await self.api.create(kind, obj, namespace=namespace if kind.namespaced else "")
        if kind == NODE and not self.keeps_new_taint:
            # As the node lifecycle controller leaves a node that is ready.
            taints = (obj.get("spec") or {}).get("taints")
            made = await self.api.patch(kind, key_of(made), {"spec": {"taints": taints}})
        return made

    async def get(self, kind: Kind, name: str, namespace: str = NAMESPACE) -> Obj:
        return await self.api.get(kind, Key(namespace if kind.namespaced else "", name))

    async def find(self, kind: Kind, name: str, namespace: str = NAMESPACE) -> Obj | None:
        try:
            return await self.get(kind, name, namespace)
        except errors.NotFound:
            return None

    async def list(self, kind: Kind, namespace: str = NAMESPACE, labels: str = "") -> list[Obj]:
        place = namespace if kind.namespaced else ""
        return (await self.api.list(kind, place, labels=labels)).items

    async def patch(self, kind: Kind, name: str, change: Any, **options: Any) -> Obj:
        return await self.api.patch(kind, Key(NAMESPACE, name), change, **options)

    @asynccontextmanager
    async def running(self, *parts: Callable[[Informers], Any]) -> AsyncIterator[Informers]:
        """Informers and what is made on them, run side by side until the block ends."""
        informers = Informers(self.api)
        made = [part(informers) for part in parts]
        tasks = [asyncio.ensure_future(one.run()) for one in (informers, *made)]
        try:
            yield informers
        finally:
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            # What a killed process had under way is in the store, or never will be.
            await self.store.settled()
        for result in results:
            if isinstance(result, Exception):
                raise result


@asynccontextmanager
async def world(folder: Path, schema: Schema) -> AsyncIterator[World]:
    store = await Store.open(folder / "state.db")
    server = ApiServer(store, schema=schema)
    quota = Quota()
    server.registry.admission = _both(standard(store), quota)
    await server.prepare()
    try:
        yield World(store, server, server.client("test", ["system:masters"]), quota)
    finally:
        await server.stop()
        await store.close()


def _both(admission: Admission, quota: Quota) -> Admission:
    class Both(Admission):
        async def admit(self, attributes: Attributes) -> None:
            await admission.admit(attributes)

        async def validate(self, attributes: Attributes) -> None:
            await admission.validate(attributes)
            await quota.validate(attributes)

    return Both()


async def eventually(
    check: Callable[[], Awaitable[Any]], what: str = "", *, within: float = 15.0
) -> Any:
    """Wait until the check holds, i.e. neither fails an assertion nor answers False."""
    last: BaseException | None = None
    try:
        async with asyncio.timeout(within):
            while True:
                try:
                    answer = await check()
                    if answer is not False:
                        return answer
                    last = None
                except _NOT_YET as error:
                    last = error
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"not within {within:g} s: {what or check.__name__}") from last


async def stays(check: Callable[[], Awaitable[Any]], seconds: float = 0.3) -> None:
    """The check holds for a while."""
    end = asyncio.get_running_loop().time() + seconds
    while asyncio.get_running_loop().time() < end:
        assert await check() is not False
        await asyncio.sleep(0.02)


class Kubelet:
    """Binds pods to a node, runs them, ends those of Jobs, and lets deleted ones go.

    `fate(pod)` says how a pod ends: its exit code, or None while it goes on. A pod is ready as soon
    as it runs, unless `is_ready(pod)` says otherwise.
    """

    def __init__(
        self,
        api: Api,
        informers: Informers,
        *,
        node: str = "n1",
        binds: bool = True,
        fate: Callable[[Obj], int | None] | None = None,
        is_ready: Callable[[Obj], bool] = lambda _: True,
        clock: Clock | None = None,
    ) -> None:
        self._api = api
        self._pods = informers.informer(POD)
        self._node = node
        self._binds = binds
        self._fate = fate or _ends_well_if_it_may
        self._is_ready = is_ready
        self._queue: WorkQueue[Key] = WorkQueue()
        self._addresses = _addresses()
        self.ran: list[str] = []  # uids of pods that were started, in order
        self._clock = clock or SystemClock()

    async def run(self) -> None:
        self._pods.subscribe(self._changed)
        async with asyncio.TaskGroup() as group:
            for _ in range(16):
                group.create_task(self._work())

    def nudge(self) -> None:
        """Ask for the fate of every pod again."""
        for pod in self._pods.list():
            self._queue.add(key_of(pod))

    def _changed(self, event: WatchEvent, previous: Obj | None) -> None:
        self._queue.add(key_of(event.object))

    async def _work(self) -> None:
        while True:
            key = await self._queue.get()
            try:
                await self._live(key)
            except (errors.NotFound, errors.Conflict):
                pass
            except errors.ApiError:
                self._queue.add_rate_limited(key)
            finally:
                self._queue.done(key)

    async def _live(self, key: Key) -> None:
        pod = self._pods.get(key)
        if pod is None:
            return
        if is_deleting(pod):
            if meta(pod).get("deletionGracePeriodSeconds") != 0:
                await self._api.delete(POD, key, grace=0, uid=meta(pod)["uid"])
        elif is_terminal(pod):
            return
        elif not pod["spec"].get("nodeName"):
            if self._binds:
                body = {"metadata": {"name": key.name}, "target": {"name": self._node}}
                await self._api.create_subresource(POD, key, "binding", body)
        elif phase_of(pod) != "Running":
            self.ran.append(meta(pod)["uid"])
            await self._write(key, self._running(next(self._addresses), pod))
        else:
            await self._go_on(key, pod)

    async def _go_on(self, key: Key, pod: Obj) -> None:
        code = self._fate(pod)
        if code is not None:
            await self._write(key, ended(pod, code, self._clock.now()))
        elif self._is_ready(pod) != _says_ready(pod):
            await self._write(key, self._running(pod["status"]["podIP"], pod))

    def _running(self, address: str, pod: Obj) -> Obj:
        return running(address, ready=self._is_ready(pod), now=self._clock.now())

    async def _write(self, key: Key, status: Obj) -> None:
        await self._api.patch(POD, key, {"status": status}, subresource="status")


def _ends_well_if_it_may(pod: Obj) -> int | None:
    return None if pod["spec"]["restartPolicy"] == "Always" else 0


def _says_ready(pod: Obj) -> bool:
    conditions = pod["status"].get("conditions") or []
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _addresses() -> Iterator[str]:
    number = 0
    while True:
        number += 1
        yield f"10.1.{number // 250}.{number % 250 + 1}"


def running(address: str, *, ready: bool, now: float) -> Obj:
    when = rfc3339(now)
    said = "True" if ready else "False"
    return {
        "phase": "Running",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": when,
        "conditions": [
            {"type": kind, "status": said, "lastTransitionTime": when}
            for kind in ("Ready", "ContainersReady")
        ],
    }


def ended(pod: Obj, code: int, now: float) -> Obj:
    when = rfc3339(now)
    return {
        "phase": "Failed" if code else "Succeeded",
        "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": when}],
        "containerStatuses": [
            {
                "name": container["name"],
                "image": container["image"],
                "imageID": "",
                "ready": False,
                "restartCount": 0,
                "state": {"terminated": {"exitCode": code, "finishedAt": when}},
            }
            for container in pod["spec"]["containers"]
        ],
    }


def pod_spec(**more: Any) -> Obj:
    return {"containers": [{"name": "main", "image": "busybox"}], **more}


def template(labels: dict[str, str] | None = None, **spec: Any) -> Obj:
    return {"metadata": {"labels": labels or {}}, "spec": pod_spec(**spec)}


def pod(name: str, *, labels: dict[str, str] | None = None, **spec: Any) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels or {}},
        "spec": pod_spec(**spec),
    }


def workload(kind: Kind, name: str, **spec: Any) -> Obj:
    """A workload whose pods carry the label app=<name>."""
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": template({"app": name}),
            **spec,
        },
    }


def job(name: str, *, restart: str = "Never", **spec: Any) -> Obj:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"template": template(restartPolicy=restart), **spec},
    }
