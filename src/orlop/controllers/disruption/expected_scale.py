"""Finds how many pods the owners of some pods want in all.

Used by the disruption controller for budgets that are a share. An owner here is a Deployment,
ReplicaSet, StatefulSet or ReplicationController, or an object of a custom kind with a scale. As
pkg/controller/disruption: getExpectedScale and its finders.
"""

from __future__ import annotations

from collections.abc import Sequence

from ... import errors
from ...api.kinds import (
    CUSTOM_RESOURCE_DEFINITION,
    DEPLOYMENT,
    REPLICA_SET,
    REPLICATION_CONTROLLER,
    STATEFUL_SET,
    Kind,
)
from ...api.objects import Key, Obj, controller_of, meta, uid_of
from ...client.api import Api
from ...client.informer import Informer, Informers
from ..framework.custom_kinds import kind_of

_SCALED = (DEPLOYMENT, REPLICA_SET, STATEFUL_SET, REPLICATION_CONTROLLER)


class Scales:
    def __init__(self, api: Api, informers: Informers) -> None:
        self._api = api
        self._objects = {kind: informers.informer(kind) for kind in _SCALED}
        self._definitions = informers.informer(CUSTOM_RESOURCE_DEFINITION)

    @property
    def informers(self) -> list[Informer]:
        """Return the informers whose changes change an answer."""
        return list(self._objects.values())

    async def expected(self, pods: Sequence[Obj]) -> tuple[int, bool]:
        """Return the sum over these pods' owners, each once; and whether a pod has no owner."""
        seen: set[str] = set()
        scales: dict[str, int] = {}  # by who decides: of a rollout's ReplicaSets, their Deployment
        is_some_unmanaged = False
        for pod in pods:
            reference = controller_of(pod)
            if reference is None:
                is_some_unmanaged = True
            elif reference["uid"] not in seen:
                seen.add(reference["uid"])
                uid, scale = await self._scale(meta(pod)["namespace"], reference)
                scales[uid] = scale
        return sum(scales.values()), is_some_unmanaged

    async def _scale(self, namespace: str, reference: Obj) -> tuple[str, int]:
        """Return the uid of the object that sets the scale, and how many pods it wants."""
        key = Key(namespace, reference["name"])
        for kind, informer in self._objects.items():
            if reference["kind"] == kind.kind and reference["apiVersion"] == kind.api_version:
                found = informer.get(key)
                if found is None or uid_of(found) != reference["uid"]:
                    return reference["uid"], 0
                owner = controller_of(found)
                if kind == REPLICA_SET and owner is not None and owner["kind"] == "Deployment":
                    return await self._scale(namespace, owner)
                return reference["uid"], int(found["spec"].get("replicas", 1))
        return await self._custom(key, reference)

    async def _custom(self, key: Key, reference: Obj) -> tuple[str, int]:
        group = reference["apiVersion"].rpartition("/")[0]
        for definition in self._definitions.list():
            kind = kind_of(definition)
            if kind is None or (kind.group, kind.kind) != (group, reference["kind"]):
                continue
            path = _path(definition, kind)
            if path is None:
                break
            try:
                found = await self._api.get(kind, key)
            except errors.NotFound:
                return reference["uid"], 0
            return reference["uid"], _at(found, path)
        plural = f"{reference['kind'].lower()}s" + (f".{group}" if group else "")
        raise errors.ApiError(f"{plural} does not implement the scale subresource")


def _path(definition: Obj, kind: Kind) -> list[str] | None:
    for version in definition["spec"]["versions"]:
        scale = (version.get("subresources") or {}).get("scale")
        if version["name"] == kind.version and scale is not None:
            return str(scale["specReplicasPath"]).lstrip(".").split(".")
    return None


def _at(obj: Obj, path: Sequence[str]) -> int:
    value: object = obj
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, int) else 0
