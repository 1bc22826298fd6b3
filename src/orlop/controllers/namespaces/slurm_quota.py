"""Mirrors Slurm's limits on a namespace's account as a ResourceQuota there.

Called by the controller manager with the name of a namespace whenever it changes, and every few
minutes for those that ask for it by annotation, or all by configuration. It writes the
ResourceQuota of its own name and mark; what the engine says of limits is handed in.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import ClassVar

from ... import errors
from ...api.kinds import NAMESPACE, RESOURCE_QUOTA
from ...api.objects import Key, Obj, annotations_of, is_deleting, key_of, labels_of, uid_of
from ...client.api import Api, WatchEvent
from ...client.clock import Clock
from ...client.informer import Informers
from ...wellknown import MIRROR_QUOTA
from ..framework.controller import Loop, Result

NAME = "slurm-limits"
LABELS = {"app.kubernetes.io/managed-by": "orlop"}
AGAIN = 300.0  # seconds between two looks at limits that an administrator may have changed

Quota = Callable[[str, Mapping[str, str]], Awaitable[dict[str, str]]]
"""For a namespace and its annotations, what its ResourceQuota should allow; empty: nothing."""


class SlurmQuotas(Loop[Key]):
    name: ClassVar[str] = "slurm-quota-controller"

    def __init__(
        self,
        api: Api,
        informers: Informers,
        quota: Quota,
        *,
        is_everywhere: bool = False,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(api, informers, clock=clock)
        self._quota = quota
        self._is_everywhere = is_everywhere
        self._namespaces = informers.informer(NAMESPACE)
        self._quotas = informers.informer(RESOURCE_QUOTA)
        self.watch(self._namespaces, _changed)
        self.watch(self._quotas, lambda event, _: _ours(event.object))

    async def reconcile(self, key: Key) -> Result:
        namespace = self._namespaces.get(key)
        if namespace is None or is_deleting(namespace):
            return Result.done()
        present = self._quotas.get(Key(key.name, NAME))
        is_mine = present is not None and labels_of(present).items() >= LABELS.items()
        if present is not None and not is_mine:
            return Result.done()  # of the same name, and somebody else's
        annotations = annotations_of(namespace)
        word = annotations.get(MIRROR_QUOTA, str(self._is_everywhere)).lower()
        is_wanted = word == "true" and not key.name.startswith("kube-")
        hard = await self._quota(key.name, annotations) if is_wanted else {}
        await self._make(key.name, present, hard)
        return Result.again(AGAIN) if is_wanted else Result.done()

    async def _make(self, namespace: str, present: Obj | None, hard: dict[str, str]) -> None:
        if present is None:
            if hard:
                made = await self.api.create(RESOURCE_QUOTA, _object(hard), namespace=namespace)
                await self._quotas.seen(made)
        elif not hard:
            try:
                await self.api.delete(RESOURCE_QUOTA, key_of(present), uid=uid_of(present))
            except errors.NotFound:
                return
            await self._quotas.gone(present)
        elif present["spec"].get("hard") != hard:
            gone = {name: None for name in present["spec"].get("hard") or {} if name not in hard}
            patch = {"spec": {"hard": {**gone, **hard}}}
            await self._quotas.seen(await self.api.patch(RESOURCE_QUOTA, key_of(present), patch))


def _object(hard: dict[str, str]) -> Obj:
    return {
        "apiVersion": RESOURCE_QUOTA.api_version,
        "kind": RESOURCE_QUOTA.kind,
        "metadata": {"name": NAME, "labels": LABELS},
        "spec": {"hard": hard},
    }


def _changed(event: WatchEvent, previous: Obj | None) -> Iterable[Key]:
    namespace = event.object
    is_news = previous is None or annotations_of(previous) != annotations_of(namespace)
    return (key_of(namespace),) if is_news and event.type != "DELETED" else ()


def _ours(quota: Obj) -> Iterable[Key]:
    key = key_of(quota)
    return (Key("", key.namespace),) if key.name == NAME else ()
