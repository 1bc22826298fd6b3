"""Finds the gang of a pod: how many members it needs, and which are there.

Asked before the engine is asked for a machine. The size is on the pod itself, or on what made it: a
Job, a StatefulSet; or on an object that the pod names, of a kind that an extension brings. Who
waits for whom is the engine's affair.
"""

from __future__ import annotations

from ... import errors
from ...api.gangs import BY_GANG, GroupKind, Mark, group_kind, keys_of, later_of, mark_of
from ...api.kinds import JOB, REPLICA_SET, REPLICATION_CONTROLLER, STATEFUL_SET, Kind
from ...api.objects import (
    Key,
    Obj,
    annotations_of,
    controller_of,
    is_deleting,
    is_terminal,
    key_of,
    uid_of,
)
from ...client.api import Api
from ...client.informer import Informer
from ...engine import Gang
from ...slurm.numbers import whole
from ...wellknown import GANG, GANG_ROOM, GANG_SIZE

_OWNERS = {kind.kind: kind for kind in (JOB, STATEFUL_SET, REPLICA_SET, REPLICATION_CONTROLLER)}


class Gangs:
    def __init__(self, api: Api, cached: Informer) -> None:
        self._api = api
        self._cached = cached
        cached.add_index(BY_GANG, keys_of)

    async def of(self, pod: Obj) -> Gang | None:
        """Return the pod's gang; None for a pod that starts on its own. Raise ConfigError where its
        gang cannot be known.
        """
        mark = mark_of(pod)
        if mark is None:
            return None
        if not mark.key:
            remedy = f"give the gang a name and {GANG_SIZE}"
            raise errors.ConfigError(f'{GANG}: "true": the pod has no controller; {remedy}')
        size = await self._size(pod, mark)
        if not size:
            return None
        room = annotations_of(pod).get(GANG_ROOM, "").strip()
        later_of(room)  # what cannot be read is said before anybody waits
        return Gang(mark.key, mark.title, size, self._peers(pod, mark), room)

    def _peers(self, pod: Obj, mark: Mark) -> frozenset[str]:
        members = self._cached.by_index(BY_GANG, mark.key)
        wanted = (
            member for member in members if not is_terminal(member) and not is_deleting(member)
        )
        return frozenset({uid_of(pod), *(uid_of(member) for member in wanted)})

    async def _size(self, pod: Obj, mark: Mark) -> int:
        text = annotations_of(pod).get(GANG_SIZE)
        if text is not None:
            return _number(text)
        if mark.kind == "owner":
            return await self._size_of_owner(pod)
        group = group_kind(mark.kind)
        if group is not None:
            return group.size_of(await self._group(group, mark))
        message = f"the pod is in gang {mark.name}, and {GANG_SIZE} does not say how many there are"
        raise errors.ConfigError(f'{message}; add it, as "4"')

    async def _size_of_owner(self, pod: Obj) -> int:
        owner = controller_of(pod)
        assert owner is not None, "its uid is the gang's key"
        kind = _OWNERS.get(owner["kind"])
        if kind is None or kind.api_version != owner.get("apiVersion", kind.api_version):
            message = f"how many pods {owner['kind']} {owner['name']} has is not known"
            raise errors.ConfigError(f'{message}; add {GANG_SIZE}, as "4"')
        controller = await self._get(kind, Key(key_of(pod).namespace, owner["name"]))
        if kind is JOB:
            return size_of_job(controller)
        return max(int((controller.get("spec") or {}).get("replicas", 1)), 1)

    async def _group(self, group: GroupKind, mark: Mark) -> Obj:
        for kind in group.versions:
            try:
                return await self._api.get(kind, Key(mark.namespace, mark.name))
            except errors.NotFound:
                continue
        words = f"its {group.versions[0].kind} {mark.title} does not exist"
        raise errors.WaitingForGang(f"{words}; create it, or remove the mark")

    async def _get(self, kind: Kind, key: Key) -> Obj:
        try:
            return await self._api.get(kind, key)
        except errors.NotFound:
            message = f"the pod's gang is that of {kind.kind} {key}, which does not exist"
            raise errors.ConfigError(f"{message}; create it, or remove the mark") from None


def size_of_job(job: Obj) -> int:
    """Return how many pods a Job keeps at the same time, from now on."""
    spec = job.get("spec") or {}
    parallel = int(spec.get("parallelism", 1))
    completions = spec.get("completions")
    if completions is None:
        return max(parallel, 1)
    done = int((job.get("status") or {}).get("succeeded") or 0)
    return max(min(parallel, int(completions) - done), 1)


def _number(text: str) -> int:
    number = whole(text)
    if not number:
        raise errors.ConfigError(f"{GANG_SIZE}: expected a number from 1 on, found {text[:50]!r}")
    return number
