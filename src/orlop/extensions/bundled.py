"""Installs the definitions of the kinds that come with Orlop, and tells whether a kind is ours.

`BundledKinds` is run by the controller manager; `RunWhileInstalled` runs the controllers of such a
kind for as long as its definition is the one we installed. A definition that somebody else
installed, with the project's own operator say, is not touched, and what we would do for its objects
is left to that operator.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from ..api.kinds import CUSTOM_RESOURCE_DEFINITION, Kind
from ..api.objects import Key, Obj, annotations_of, is_deleting, labels_of, meta
from ..client.api import Api, WatchEvent
from ..client.clock import Clock
from ..client.informer import Informers
from ..controllers.framework.controller import Loop, Result, Runnable
from ..controllers.framework.custom_kinds import kind_of
from ..log import logger
from .definitions import Manifest

log = logger(__name__)

MANAGED_BY = "app.kubernetes.io/managed-by"
ORLOP = "orlop"
DIGEST = "orlop.dev/manifest"  # of the file that a definition was last written from
_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def bundled_kind(
    group: str, version: str, kind: str, plural: str, *, namespaced: bool = True
) -> Kind:
    """Return a bundled kind as `kind_of` reads it from its definition: one informer serves all."""
    return Kind(group, version, kind, plural, namespaced, keeps_generation=True)


def is_ours(definition: Obj | None) -> bool:
    """Return whether we installed a definition, and nobody has since replaced it.

    `kubectl apply` over ours keeps our label, but leaves its own mark.
    """
    if definition is None:
        return False
    has_label = labels_of(definition).get(MANAGED_BY) == ORLOP
    return has_label and _APPLIED not in annotations_of(definition)


class BundledKinds(Loop[str]):
    """Installs what is missing and brings what is ours up to date, once at each start.

    One that is deleted stays away until the next start, so that another can take its place.
    """

    name = "bundled-kinds"
    workers = 1

    def __init__(
        self,
        api: Api,
        informers: Informers,
        manifests: Mapping[str, Manifest],
        *,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(api, informers, clock=clock)
        self._definitions = informers.informer(CUSTOM_RESOURCE_DEFINITION)
        self._manifests = manifests

    async def run(self) -> None:
        await self._definitions.synced()
        for name in self._manifests:
            self.queue.add(name)
        await super().run()

    async def reconcile(self, name: str) -> Result:
        manifest = self._manifests[name]
        found = self._definitions.get(Key("", name))
        if found is None:
            await self.api.create(CUSTOM_RESOURCE_DEFINITION, _labelled(manifest))
            self.log.info("installed a kind", definition=name)
        elif not is_ours(found):
            self.log.info("left to whoever installed it", definition=name)
        elif annotations_of(found).get(DIGEST) != manifest.digest and not is_deleting(found):
            wanted = _labelled(manifest)
            wanted["metadata"]["resourceVersion"] = meta(found)["resourceVersion"]
            await self.api.update(CUSTOM_RESOURCE_DEFINITION, wanted)
            self.log.info("brought a kind up to date", definition=name)
        return Result.done()


def _labelled(manifest: Manifest) -> Obj:
    obj = manifest.document()
    metadata = obj["metadata"]
    metadata["labels"] = {**(metadata.get("labels") or {}), MANAGED_BY: ORLOP}
    metadata["annotations"] = {**(metadata.get("annotations") or {}), DIGEST: manifest.digest}
    return obj


class RunWhileInstalled:
    """Runs what `make` returns while every one of the `needed` definitions is served and ours.

    The controllers are made only then: no informer asks for a kind that is not served. Where one
    of the definitions goes or changes hands, they are stopped.
    """

    name: ClassVar[str] = "while-ours"

    def __init__(
        self,
        informers: Informers,
        needed: Sequence[str],
        make: Callable[[], Sequence[Runnable]],
    ) -> None:
        self._definitions = informers.informer(CUSTOM_RESOURCE_DEFINITION)
        self._needed = tuple(needed)
        self._make = make
        self._changed = asyncio.Event()
        self._strangers: set[str] = set()

    async def run(self) -> None:
        self._definitions.subscribe(self._wake)
        try:
            await self._definitions.synced()
            while True:
                await self._until(True)
                await self._run_until_not_ours()
        finally:
            self._definitions.unsubscribe(self._wake)

    @property
    def is_served(self) -> bool:
        """Return whether every definition is established and ours, as far as is known here."""
        return all(self._is_served(name) for name in self._needed)

    def _is_served(self, name: str) -> bool:
        found = self._definitions.get(Key("", name))
        if found is None or is_deleting(found):
            self._strangers.discard(name)
            return False
        if not is_ours(found):
            if name not in self._strangers:
                self._strangers.add(name)
                log.info("not ours, standing back", definition=name)
            return False
        return kind_of(found) is not None

    async def _run_until_not_ours(self) -> None:
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(controller.run(), name=controller.name)
                for controller in self._make()
            ]
            await self._until(False)
            for task in tasks:
                task.cancel()

    async def _until(self, is_served: bool) -> None:
        while self.is_served is not is_served:
            self._changed.clear()
            await self._changed.wait()

    def _wake(self, event: WatchEvent, previous: Obj | None) -> None:
        if meta(event.object)["name"] in self._needed:
            self._changed.set()
