"""Looks after definitions: accepts their names, has them served, empties them when they go.

Run by the server as long as it serves. Level-based: whatever woke it, it compares a definition with
the status it should have and writes the difference through the API. As the naming, establishing and
finalizer controllers within apiextensions-apiserver.
"""

from __future__ import annotations

import asyncio

from ...api.kinds import CUSTOM_RESOURCE_DEFINITION, Kind
from ...api.objects import Key, Obj, is_deleting, meta, uid_of
from ...client.api import Api
from ...errors import ApiError, Conflict, NotFound
from ...log import logger
from ...store import Expired, Watch
from ..auth.authentication import user
from ..registry import Call, Registry
from ..verbs.delete import DeleteOptions, delete
from .definitions import FINALIZER, condition_of, is_true, status_of, terminating
from .served import storage_kind

log = logger(__name__)
_BUCKET = CUSTOM_RESOURCE_DEFINITION.resource
_AGAIN = 0.5  # seconds until what could not be done is tried once more
_AT_ONCE = 64
_USER = user("system:apiserver", ["system:masters"])


class DefinitionController:
    def __init__(self, registry: Registry, api: Api) -> None:
        self._registry = registry
        self._api = api
        self._due: set[Key] = set()

    async def run(self) -> None:
        """Follow definitions until cancelled; no failure of one of them ends it."""
        while True:
            snapshot = self._registry.store.list(_BUCKET)
            watch = self._registry.store.watch(_BUCKET, after=snapshot.revision)
            self._due = {record.key for record in snapshot.records}
            try:
                await self._follow(watch)
            except Expired:
                log.debug("too many changes at once, looking at all definitions")
            finally:
                watch.close()
            await asyncio.sleep(0)

    async def _follow(self, watch: Watch) -> None:
        while not watch.is_closed:
            self._registry.kinds.refresh()
            due, self._due = self._due, set()
            for key in sorted(due):
                await self._try(key)
            for event in watch.pending():
                self._due.add(event.record.key)
                if event.type == "DELETED":  # its names are free again
                    self._due |= self._waiting()
            if not self._due:
                await watch.wait()
            elif self._due <= due:
                await asyncio.sleep(_AGAIN)

    def _waiting(self) -> set[Key]:
        records = self._registry.store.list(_BUCKET).records
        return {one.key for one in records if not is_true(one.decode(), "NamesAccepted")}

    async def _try(self, key: Key) -> None:
        try:
            if not await self._reconcile(key):
                self._due.add(key)
        except (Conflict, NotFound):
            self._due.add(key)
        except ApiError as error:
            log.warning("cannot look after a definition", definition=key, error=error)
            self._due.add(key)
        except Exception:
            log.error("looking after a definition broke", definition=key, exc_info=True)

    async def _reconcile(self, key: Key) -> bool:
        """Bring one definition up to date; return whether nothing is left to do for now."""
        record = self._registry.store.get(_BUCKET, key)
        if record is None:
            return True
        definition = record.decode()
        status = status_of(definition, self._others(definition), self._registry.now())
        if status != definition.get("status"):
            definition["status"] = status
            kind = CUSTOM_RESOURCE_DEFINITION
            definition = await self._api.update(kind, definition, subresource="status")
            self._registry.kinds.refresh()
        if is_deleting(definition) and FINALIZER in (meta(definition).get("finalizers") or ()):
            return await self._empty(definition)
        return True

    def _others(self, definition: Obj) -> list[Obj]:
        group, uid = definition["spec"]["group"], uid_of(definition)
        records = self._registry.store.list(_BUCKET).records
        near = [one.decode() for one in records if one.key.name.endswith(f".{group}")]
        return [one for one in near if one["spec"]["group"] == group and uid_of(one) != uid]

    async def _empty(self, definition: Obj) -> bool:
        """Delete every object of a definition, then let the definition go."""
        if (condition_of(definition, "Terminating") or {}).get("reason") != _IN_PROGRESS[1]:
            definition = await self._tell(definition, _IN_PROGRESS)
        if is_true(definition, "Established") and await self._delete_all(storage_kind(definition)):
            return False
        definition = await self._tell(definition, _COMPLETED)
        left = [one for one in meta(definition)["finalizers"] if one != FINALIZER]
        definition["metadata"]["finalizers"] = left
        await self._api.update(CUSTOM_RESOURCE_DEFINITION, definition)
        return True

    async def _tell(self, definition: Obj, told: tuple[str, str, str]) -> Obj:
        terminating(definition, *told, self._registry.now())
        return await self._api.update(CUSTOM_RESOURCE_DEFINITION, definition, subresource="status")

    async def _delete_all(self, kind: Kind) -> int:
        """Delete the objects; return how many are still there, held by their own finalizers."""
        store = self._registry.store
        found = store.list(kind.resource).records
        for start in range(0, len(found), _AT_ONCE):
            async with asyncio.TaskGroup() as group:
                for record in found[start : start + _AT_ONCE]:
                    group.create_task(self._delete(kind, record.key))
        return store.count(kind.resource)

    async def _delete(self, kind: Kind, key: Key) -> None:
        """Delete an object by the verb itself.

        The API knows no kind of which no version is served.
        """
        call = Call(_USER, kind, key.namespace, key.name, is_admitted=True)
        try:
            await delete(self._registry, call, DeleteOptions())
        except (NotFound, Conflict):
            pass


_IN_PROGRESS = ("True", "InstanceDeletionInProgress", "CustomResource deletion is in progress")
_COMPLETED = ("False", "InstanceDeletionCompleted", "removed all instances")
