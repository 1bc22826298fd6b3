"""The `Api` of our own components: the verbs themselves, without HTTP or serialisation of requests.

Handed out by the server to controllers, scheduler and kubelet. It takes the same path as a request
over HTTPS after authorization, and objects that come out are fresh copies.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

import msgspec

from ..api.kinds import Kind
from ..api.objects import Key, Obj, key_of
from ..client.api import ObjList, PatchType, Propagation, WatchEvent
from ..store import Record
from .auth.access_reviews import Reviews
from .auth.authentication import User
from .objects import virtual_kinds
from .objects.conversion import decode, ready
from .objects.selection import select
from .registry import Call, Registry
from .request.failures import no_such_path
from .subresources.approval import update_approval
from .subresources.binding import bind
from .subresources.eviction import evict
from .subresources.finalize import finalize
from .subresources.scale import get_scale, patch_scale, update_scale
from .subresources.token import request_token
from .verbs.create import create
from .verbs.delete import DeleteOptions, delete, returns_object, status_of
from .verbs.get import get
from .verbs.list import ListOptions, list_
from .verbs.patch import MEDIA_TYPES, patch
from .verbs.update import update
from .verbs.watch import WatchOptions, watch

_REVIEW_GROUPS = ("authentication.k8s.io", "authorization.k8s.io")
_POSTED = {"binding": bind, "eviction": evict, "token": request_token}


class InProcessApi:
    def __init__(self, registry: Registry, user: User, reviews: Reviews | None = None) -> None:
        self._registry = registry
        self._reviews = reviews
        self._user = user
        self._manager = user.name.removeprefix("system:")  # kubelet, kube-scheduler, ...

    def _call(self, kind: Kind, key: Key, subresource: str = "") -> Call:
        # A component names a custom resource by its names alone; what is served has its schema.
        served = self._registry.kinds.by_resource(kind.group, kind.version, kind.plural)
        if served is None:
            raise no_such_path()
        kind, namespace = served, key.namespace if served.namespaced else ""
        return Call(
            self._user,
            kind,
            namespace,
            key.name,
            subresource,
            field_manager=self._manager,
            field_validation="Ignore",
        )

    async def get(self, kind: Kind, key: Key) -> Obj:
        call = self._call(kind, key)
        source = virtual_kinds.source_of(self._registry, call.kind)
        if source is not None and self._is_taken(kind):
            return await self.get_raw(f"{_path(call)}/{call.name}")
        if source is not None:
            return (await virtual_kinds.get(source, call)).decode()
        return await _shown(call, get(self._registry, call))

    async def get_subresource(self, kind: Kind, key: Key, subresource: str) -> Obj:
        call = self._call(kind, key, subresource)
        if subresource not in call.kind.subresources:
            raise no_such_path()
        if subresource == "scale":
            return await get_scale(self._registry, call)
        return await _shown(call, get(self._registry, call))

    async def get_raw(self, path: str, query: Mapping[str, str] | None = None) -> Obj:
        if self._registry.aggregated is None:
            raise no_such_path()
        return await self._registry.aggregated(self._user, path, query or {})

    async def list(
        self, kind: Kind, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> ObjList:
        call = self._call(kind, Key(namespace, ""))
        options = ListOptions(selection=select(call.kind, labels, fields))
        source = virtual_kinds.source_of(self._registry, call.kind)
        if source is not None and self._is_taken(kind):
            query = {"labelSelector": labels, "fieldSelector": fields}
            asked = {name: text for name, text in query.items() if text}
            return ObjList((await self.get_raw(_path(call), asked)).get("items") or [], "")
        if source is not None:
            page = await virtual_kinds.list_(source, call, options)
        else:
            page = list_(self._registry, call, options)
        await ready(call.kind, page.records)
        return ObjList([decode(call.kind, record) for record in page.records], str(page.revision))

    def _is_taken(self, kind: Kind) -> bool:
        """Return whether the server of an APIService answers for the kind, and not we."""
        return self._registry.is_taken(kind.group, kind.version)

    async def watch(
        self,
        kind: Kind,
        namespace: str = "",
        *,
        resource_version: str,
        labels: str = "",
        fields: str = "",
    ) -> AsyncIterator[WatchEvent]:
        call = self._call(kind, Key(namespace, ""))
        options = WatchOptions(select(call.kind, labels, fields), resource_version)
        batches = watch(self._registry, call, options)
        async with aclosing(batches):
            async for batch in batches:
                for seen in batch:
                    assert seen.record is not None, "no bookmarks were asked for"
                    yield WatchEvent(seen.type, decode(call.kind, seen.record))

    async def create(self, kind: Kind, obj: Obj, *, namespace: str = "") -> Obj:
        place = namespace or (obj.get("metadata") or {}).get("namespace") or ""
        call = self._call(kind, Key(place, ""))
        if self._reviews is not None and kind.group in _REVIEW_GROUPS:
            return await self._reviews.answer(call, _copy(obj))
        return await _shown(call, await create(self._registry, call, _copy(obj)))

    async def update(self, kind: Kind, obj: Obj, *, subresource: str = "") -> Obj:
        call = self._call(kind, key_of(obj), subresource)
        if subresource == "scale":
            return await update_scale(self._registry, call, _copy(obj))
        if subresource == "finalize":
            return (await finalize(self._registry, call, _copy(obj))).decode()
        if subresource == "approval":
            return (await update_approval(self._registry, call, _copy(obj))).decode()
        return await _shown(call, await update(self._registry, call, _copy(obj)))

    async def patch(
        self,
        kind: Kind,
        key: Key,
        patch: Obj | Sequence[Any],
        *,
        patch_type: PatchType = "merge",
        subresource: str = "",
    ) -> Obj:
        call, media_type = self._call(kind, key, subresource), MEDIA_TYPES[patch_type]
        if subresource == "scale":
            return await patch_scale(self._registry, call, media_type, patch)
        return await _shown(call, await _patch(self._registry, call, media_type, patch))

    async def delete(
        self,
        kind: Kind,
        key: Key,
        *,
        grace: int | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: Propagation | None = None,
    ) -> Obj:
        call = self._call(kind, key)
        options = DeleteOptions(grace, uid, resource_version, propagation)
        deleted = await delete(self._registry, call, options)
        if returns_object(call, deleted):
            return await _shown(call, deleted.record)
        return status_of(call, deleted)

    async def create_subresource(self, kind: Kind, key: Key, subresource: str, body: Obj) -> Obj:
        posted = _POSTED.get(subresource)
        if posted is None or subresource not in kind.subresources:
            raise no_such_path()
        return await posted(self._registry, self._call(kind, key, subresource), _copy(body))


_patch = patch  # the method of that name hides the verb


async def _shown(call: Call, record: Record) -> Obj:
    await ready(call.kind, [record])
    return decode(call.kind, record)


def _path(call: Call) -> str:
    """Return the path at which others serve the kind of a call."""
    scope = f"/namespaces/{call.namespace}" if call.namespace else ""
    return f"/apis/{call.kind.group}/{call.kind.version}{scope}/{call.kind.plural}"


def _copy(obj: Obj) -> Obj:
    """Copy an object, because the verbs consume what they are given."""
    copy: Obj = msgspec.json.decode(msgspec.json.encode(obj))
    return copy
