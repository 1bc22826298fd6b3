"""Removes leases that are no longer renewed and would stay for ever.

Called by the controller manager with the key of a lease when it changes and when it runs out. It
looks at two sorts: those of nodes that are gone, and those by which API servers make themselves
known. As pkg/controlplane/controller/apiserverleasegc.
"""

from __future__ import annotations

from ... import errors
from ...api import times
from ...api.kinds import LEASE, NODE
from ...api.objects import Key, Obj, key_of, labels_of, meta, uid_of
from ...client.api import Api
from ...client.clock import Clock
from ...client.informer import Informers
from ..framework.controller import Controller, Result

IDENTITY = "apiserver.kubernetes.io/identity"
_NODE_LEASES = "kube-node-lease"
_DURATION = 3600.0  # of a lease that does not say, as upstream's identity leases


class LeaseGc(Controller):
    name = "lease-garbage-collector"
    kind = LEASE
    workers = 1

    def __init__(self, api: Api, informers: Informers, *, clock: Clock | None = None) -> None:
        super().__init__(api, informers, clock=clock)
        self._nodes = informers.informer(NODE)
        self.watch(
            self._nodes,
            lambda event, _: (
                (Key(_NODE_LEASES, meta(event.object)["name"]),) if event.type == "DELETED" else ()
            ),
        )

    async def reconcile(self, key: Key) -> Result:
        lease = self.objects.get(key)
        if lease is None or not self._is_looked_at(lease):
            return Result.done()
        left = _runs_out(lease) - self.clock.now()
        if left > 0:
            return Result.again(left)
        try:
            version = meta(lease)["resourceVersion"]  # one that was renewed meanwhile stays
            await self.api.delete(LEASE, key, uid=uid_of(lease), resource_version=version)
        except (errors.NotFound, errors.Conflict):
            return Result.done()
        self.log.info("deleted lease", lease=key)
        return Result.done()

    def _is_looked_at(self, lease: Obj) -> bool:
        key = key_of(lease)
        if key.namespace == _NODE_LEASES:
            return self._nodes.get(Key("", key.name)) is None
        return key.namespace == "kube-system" and IDENTITY in labels_of(lease)


def _runs_out(lease: Obj) -> float:
    spec = lease.get("spec") or {}
    renewed = spec.get("renewTime") or meta(lease).get("creationTimestamp") or ""
    return times.parse(renewed) + float(spec.get("leaseDurationSeconds") or _DURATION)
