"""The in-process `Api` of our own components, with a record of each request where a policy asks.

Handed out by the server in place of the plain one when there is an auditor: controllers, scheduler
and kubelet are in the audit log like everyone else. Watches are not recorded; a record of anything
else is one event, at its end. It changes nothing about the requests.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from ...api.kinds import Kind
from ...api.objects import Key, Obj, key_of
from ...client.api import ObjList, PatchType, Propagation
from ...errors import ApiError
from ..auth.access_reviews import Reviews
from ..auth.authentication import User
from ..inprocess import InProcessApi
from ..registry import Registry
from ..request.requestinfo import RequestInfo
from . import Auditor
from .inside import Note


class AuditedApi(InProcessApi):
    def __init__(
        self, registry: Registry, user: User, reviews: Reviews | None, auditor: Auditor
    ) -> None:
        super().__init__(registry, user, reviews)
        self._auditor = auditor

    @asynccontextmanager
    async def _noted(
        self, verb: str, kind: Kind, key: Key, subresource: str = "", body: Any = None
    ) -> AsyncIterator[Note]:
        info = _info(verb, kind, key, subresource)
        note = self._auditor.note(info, self._user, body)
        try:
            yield note
        except ApiError as error:
            note.end(error.status_code, error.status())
            raise
        note.end(201 if verb == "create" else 200)

    async def get(self, kind: Kind, key: Key) -> Obj:
        async with self._noted("get", kind, key) as note:
            return note.answer(await super().get(kind, key))

    async def list(
        self, kind: Kind, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> ObjList:
        async with self._noted("list", kind, Key(namespace, "")):
            return await super().list(kind, namespace, labels=labels, fields=fields)

    async def create(self, kind: Kind, obj: Obj, *, namespace: str = "") -> Obj:
        metadata = obj.get("metadata") or {}
        key = Key(namespace or metadata.get("namespace") or "", metadata.get("name") or "")
        async with self._noted("create", kind, key, body=obj) as note:
            return note.answer(await super().create(kind, obj, namespace=namespace))

    async def update(self, kind: Kind, obj: Obj, *, subresource: str = "") -> Obj:
        async with self._noted("update", kind, key_of(obj), subresource, obj) as note:
            return note.answer(await super().update(kind, obj, subresource=subresource))

    async def patch(
        self,
        kind: Kind,
        key: Key,
        patch: Obj | Sequence[Any],
        *,
        patch_type: PatchType = "merge",
        subresource: str = "",
    ) -> Obj:
        async with self._noted("patch", kind, key, subresource, patch) as note:
            done = await super().patch(
                kind, key, patch, patch_type=patch_type, subresource=subresource
            )
            return note.answer(done)

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
        async with self._noted("delete", kind, key) as note:
            done = await super().delete(
                kind,
                key,
                grace=grace,
                uid=uid,
                resource_version=resource_version,
                propagation=propagation,
            )
            return note.answer(done)

    async def create_subresource(self, kind: Kind, key: Key, subresource: str, body: Obj) -> Obj:
        async with self._noted("create", kind, key, subresource, body) as note:
            return note.answer(await super().create_subresource(kind, key, subresource, body))


def _info(verb: str, kind: Kind, key: Key, subresource: str) -> RequestInfo:
    """Return the request as it would have come over HTTP."""
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    namespace = key.namespace if kind.namespaced else ""
    words = [root, *(["namespaces", namespace] if namespace else []), kind.plural]
    words += [word for word in (key.name if verb != "create" or subresource else "", subresource)
              if word]  # fmt: skip
    return RequestInfo(
        verb,
        "/".join(words),
        is_resource=True,
        group=kind.group,
        version=kind.version,
        namespace=namespace,
        resource=kind.plural,
        name=key.name,
        subresource=subresource,
    )
