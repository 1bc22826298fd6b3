"""The one interface through which controllers, scheduler and kubelet speak to an API server.

Implemented twice: in process (apiserver.inprocess, no serialisation) and over HTTPS (client.https),
so that each component also runs against a real kube-apiserver. Objects that come out belong to
the caller.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

from ..api.kinds import Kind
from ..api.objects import Key, Obj

PatchType = Literal["merge", "strategic", "json"]
Propagation = Literal["Background", "Foreground", "Orphan"]


class WatchEvent(NamedTuple):
    """ADDED, MODIFIED, DELETED or BOOKMARK, with the object as it is now (or last was)."""

    type: str
    object: Obj


@dataclass(frozen=True, slots=True)
class ObjList:
    items: list[Obj]
    resource_version: str


class Api(Protocol):
    """Failures are `errors.ApiError`s: NotFound, Conflict, AlreadyExists, Gone, ...

    `namespace=""` means all namespaces (or a cluster-scoped kind).
    """

    async def get(self, kind: Kind, key: Key) -> Obj: ...

    async def get_subresource(self, kind: Kind, key: Key, subresource: str) -> Obj:
        """Get a subresource, e.g. the `scale` of a Deployment or of a custom resource."""
        ...

    async def get_raw(self, path: str, query: Mapping[str, str] | None = None) -> Obj:
        """Get a path of a group that other servers may serve; NotFound where none does."""
        ...

    async def list(
        self, kind: Kind, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> ObjList: ...

    def watch(
        self,
        kind: Kind,
        namespace: str = "",
        *,
        resource_version: str,
        labels: str = "",
        fields: str = "",
    ) -> AsyncIterator[WatchEvent]:
        """Watch every change after `resource_version`; raise Gone when that is no longer kept."""
        ...

    async def create(self, kind: Kind, obj: Obj, *, namespace: str = "") -> Obj: ...

    async def update(self, kind: Kind, obj: Obj, *, subresource: str = "") -> Obj: ...

    async def patch(
        self,
        kind: Kind,
        key: Key,
        patch: Obj | Sequence[Any],
        *,
        patch_type: PatchType = "merge",
        subresource: str = "",
    ) -> Obj: ...

    async def delete(
        self,
        kind: Kind,
        key: Key,
        *,
        grace: int | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: Propagation | None = None,
    ) -> Obj: ...

    async def create_subresource(self, kind: Kind, key: Key, subresource: str, body: Obj) -> Obj:
        """Post to a subresource, e.g. `binding` or `eviction` of a pod."""
        ...
