"""Keeps a ClusterRole that sums up others at the rules of those it selects.

Called by the controller manager with the key of a ClusterRole whenever any of them changes: who
labels a role `rbac.authorization.k8s.io/aggregate-to-view` adds it to `view`. As
pkg/controller/clusterroleaggregation. A role without an aggregationRule is left as it is.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...api import selectors
from ...api.kinds import CLUSTER_ROLE
from ...api.objects import Key, Obj, key_of, labels_of, meta
from ...client.api import Api, WatchEvent
from ...client.clock import Clock
from ...client.informer import Informers
from ..framework.controller import Loop, Result


class ClusterRoleAggregation(Loop[Key]):
    name = "clusterrole-aggregation-controller"

    def __init__(self, api: Api, informers: Informers, *, clock: Clock | None = None) -> None:
        super().__init__(api, informers, clock=clock)
        self._roles = informers.informer(CLUSTER_ROLE)
        self.watch(self._roles, self._sums)

    def _sums(self, event: WatchEvent, previous: Obj | None) -> Iterable[Key]:
        return (key_of(role) for role in self._roles.list() if role.get("aggregationRule"))

    async def reconcile(self, key: Key) -> Result:
        role = self._roles.get(key)
        if role is None or not role.get("aggregationRule"):
            return Result.done()
        rules = self._summed(role)
        if rules != (role.get("rules") or []):
            lock = {"resourceVersion": meta(role)["resourceVersion"]}
            change = {"metadata": lock, "rules": rules}
            await self._roles.seen(await self.api.patch(CLUSTER_ROLE, key, change))
        return Result.done()

    def _summed(self, role: Obj) -> list[Obj]:
        """Return the rules of all selected roles, in the order of their names, each once."""
        chosen: dict[str, Obj] = {}
        for structure in role["aggregationRule"].get("clusterRoleSelectors") or []:
            selector = selectors.from_structure(structure)
            for other in self._roles.list():
                if key_of(other) != key_of(role) and selector.matches(labels_of(other)):
                    chosen[meta(other)["name"]] = other
        rules: list[Obj] = []
        for name in sorted(chosen):
            rules += [rule for rule in chosen[name].get("rules") or [] if rule not in rules]
        return rules
