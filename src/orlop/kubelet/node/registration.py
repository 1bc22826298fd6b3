"""Keeps a Kubernetes node for each machine of the engine: registered, up to date, alive.

One task of the kubelet. It asks the engine for its machines now and then, writes what differs, and
renews every node's lease. A machine that is gone loses its node once no pod is bound to it. Nodes
that another kubelet registered are left as they are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import Protocol

from ... import errors
from ...api.kinds import LEASE, NODE
from ...api.objects import Key, Obj, annotations_of, condition_of, labels_of, meta, uid_of
from ...api.quantity import Quantity, parse
from ...api.times import rfc3339_micro
from ...client.api import Api, WatchEvent
from ...client.clock import Clock
from ...client.informer import Informer
from ...engine import Engine, Machine
from ...log import logger
from ...wellknown import DOMAIN, ENGINE_LABEL, SOME_HOSTS
from ..planning.downward_api import Allocatable
from . import node_object
from .health import EngineHealth
from .node_object import Host

LEASES = "kube-node-lease"
LEASE_DURATION = 40  # seconds, as upstream's kubelet
LEASE_INTERVAL = 10.0
MACHINES_INTERVAL = 60.0
HEARTBEAT_INTERVAL = 300.0  # as upstream's nodeStatusReportFrequency

log = logger(__name__)


class BoundPods(Protocol):
    """The part of the pods' side that nodes need."""

    def has_pods(self, node: str) -> bool:
        """Return whether pods are bound to the node that have not ended."""
        ...

    def on_new_node(self, name: str) -> None:
        """Take note of a node; pods may have been bound to it by name before it was there."""
        ...


class Nodes:
    """The nodes of one engine; `is_ours` and `machine_of` are for whoever looks at a pod."""

    def __init__(
        self,
        api: Api,
        engine: Engine,
        cached: Informer,
        health: EngineHealth,
        bound: BoundPods,
        clock: Clock,
    ) -> None:
        self._api = api
        self._engine = engine
        self._cached = cached
        self._health = health
        self._bound = bound
        self._clock = clock
        self._machines: dict[str, Machine] = {}
        self._told: dict[str, float] = {}  # node -> when its status was last written
        self._is_poked = asyncio.Event()
        health.subscribe(self._is_poked.set)
        cached.subscribe(self._on_node)

    def _on_node(self, event: WatchEvent, former: Obj | None) -> None:
        """Set right at once a node of ours that was deleted, or taken for lost."""
        is_lost = (condition_of(event.object, "Ready") or {}).get("status") == "Unknown"
        if (event.type == "DELETED" or is_lost) and meta(event.object)["name"] in self._machines:
            self._is_poked.set()

    def is_ours(self, name: str) -> bool:
        if name in self._machines:
            return True
        known = self._cached.get(Key("", name))
        return known is not None and labels_of(known).get(ENGINE_LABEL) == self._engine.name

    def machine_of(self, name: str) -> str:
        """Return the engine's own name of a node's machine."""
        if name in self._machines:
            return self._machines[name].name
        known = self._cached.get(Key("", name))
        return annotations_of(known or {}).get(node_object.MACHINE_ANNOTATION, name)

    def allocatable(self, name: str) -> Allocatable:
        known = self._cached.get(Key("", name)) or {}
        amounts = {
            k: parse(v) for k, v in (known.get("status") or {}).get("allocatable", {}).items()
        }
        zero = Quantity(0)
        return Allocatable(amounts.get("cpu", zero), amounts.get("memory", zero), amounts)

    async def run(self, host: Host) -> None:
        """Run until cancelled: leases every few seconds, machines every minute or when poked."""
        asked = float("-inf")
        while True:
            is_due = self._clock.now() - asked >= MACHINES_INTERVAL
            if is_due or self._is_poked.is_set():
                self._is_poked.clear()
                asked = self._clock.now()
                await self._guarded(self.sync(host))
            await self._guarded(self.renew_leases())
            try:
                async with asyncio.timeout(LEASE_INTERVAL):
                    await self._is_poked.wait()
            except TimeoutError:
                pass

    async def _guarded(self, work: Awaitable[None]) -> None:
        try:
            await work
        except errors.Error as error:
            log.warning("nodes could not be kept", error=error)
        except Exception:
            log.error("nodes could not be kept", exc_info=True)

    async def sync(self, host: Host) -> None:
        """Make the nodes what the engine says; if it is silent, say no more than that."""
        try:
            found = await self._engine.machines()
        except errors.EngineError as error:
            # Whoever asks for jobs decides whether that is worth telling.
            log.debug("machines are not known", error=error)
            if not self._machines:
                self._health.silent(error)
        else:
            former = self._machines
            self._machines = {node_object.node_name(machine.name): machine for machine in found}
            for name in self._machines.keys() - former.keys():
                self._bound.on_new_node(name)
        for name, machine in self._machines.items():
            await self._keep(name, machine, host)
        if self._machines and not self._health.is_down:
            for known in self._ours():
                if meta(known)["name"] not in self._machines:
                    await self._retire(known)

    def _ours(self) -> Iterable[Obj]:
        engine = self._engine.name
        return [n for n in self._cached.list() if labels_of(n).get(ENGINE_LABEL) == engine]

    async def _keep(self, name: str, machine: Machine, host: Host) -> None:
        known = self._cached.get(Key("", name))
        if known is None:
            try:
                known = await self._api.get(NODE, Key("", name))
            except errors.NotFound:
                await self._register(machine, host)
                return
        await self._update(known, machine)
        await self._tell(
            known, node_object.node_status(known, machine, host, self._error, self._now)
        )

    async def _register(self, machine: Machine, host: Host) -> None:
        wanted = node_object.node_object(machine, self._engine.name)
        status = node_object.node_status(wanted, machine, host, self._error, self._now)
        wanted["status"] = {
            **status,
            "conditions": node_object.heartbeat(status["conditions"], self._now),
        }
        await self._api.create(NODE, wanted)
        self._told[meta(wanted)["name"]] = self._now
        log.info("registered node", node=meta(wanted)["name"], cpus=machine.cpus)

    async def _update(self, known: Obj, machine: Machine) -> None:
        """Set labels, annotations and taints: ours as they should be, others' as they are."""
        labels, wanted = labels_of(known), node_object.node_labels(machine, self._engine.name)
        change: dict[str, str | None] = {
            key: None for key in labels if f"{DOMAIN}/" in key and key not in wanted
        }
        change |= {key: value for key, value in wanted.items() if labels.get(key) != value}
        metadata: Obj = {"labels": change} if change else {}
        partial = node_object.node_annotations(machine).get(SOME_HOSTS)
        if annotations_of(known).get(SOME_HOSTS) != partial:
            metadata["annotations"] = {SOME_HOSTS: partial}
        patch: Obj = {"metadata": metadata} if metadata else {}
        present = known.get("spec", {}).get("taints") or []
        taints = node_object.node_taints(machine, present)
        if taints != present:
            patch["spec"] = {"taints": taints or None}
        if patch:
            await self._api.patch(NODE, Key("", meta(known)["name"]), patch)

    async def _tell(self, known: Obj, status: Obj) -> None:
        """Write the status where it differs, and now and then so that its age is seen."""
        name = meta(known)["name"]
        present = known.get("status") or {}
        differs = any(status[key] != present.get(key) for key in status)
        is_old = self._now - self._told.get(name, 0.0) >= HEARTBEAT_INTERVAL
        if differs or is_old:
            beating = {
                **status,
                "conditions": node_object.heartbeat(status["conditions"], self._now),
            }
            patch = {"status": beating}
            await self._api.patch(NODE, Key("", name), patch, subresource="status")
            self._told[name] = self._now

    async def _retire(self, known: Obj) -> None:
        """Remove a node that the engine does not list, or mark it while pods are bound to it."""
        name = meta(known)["name"]
        if self._bound.has_pods(name):
            ready = condition_of(known, "Ready")
            if ready is None or ready.get("reason") != "MachineGone":
                patch = {"status": node_object.lost(known, self._now)}
                await self._api.patch(NODE, Key("", name), patch, subresource="status")
            return
        try:
            await self._api.delete(NODE, Key("", name), uid=uid_of(known))
            log.info("removed node", node=name)
        except errors.NotFound:
            pass

    async def renew_leases(self) -> None:
        """Renew all leases at once, so that the store writes them as one."""
        async with asyncio.TaskGroup() as group:
            for name in self._machines:
                group.create_task(self._guarded(self._renew(name)), name=f"lease of {name}")

    async def _renew(self, name: str) -> None:
        key = Key(LEASES, name)
        spec = {"renewTime": rfc3339_micro(self._now)}
        try:
            await self._api.patch(LEASE, key, {"spec": spec})
        except errors.NotFound:
            await self._api.create(LEASE, self._lease(name, spec), namespace=LEASES)

    def _lease(self, name: str, spec: Obj) -> Obj:
        metadata: Obj = {"name": name, "namespace": LEASES}
        owner = self._cached.get(Key("", name))
        if owner is not None:
            reference = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid_of(owner)}
            metadata["ownerReferences"] = [reference]
        held = {"holderIdentity": name, "leaseDurationSeconds": LEASE_DURATION}
        return {
            "apiVersion": LEASE.api_version,
            "kind": LEASE.kind,
            "metadata": metadata,
            "spec": {**held, **spec},
        }

    @property
    def _error(self) -> str:
        return self._health.error

    @property
    def _now(self) -> float:
        return self._clock.now()
