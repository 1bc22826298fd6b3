"""Serves groups whose objects are made when somebody asks for them, and not kept: metrics.k8s.io.

A `Source` is handed to the server by the composition; from then on its kinds are in discovery and
can be got and listed like any other. It is the server's own way to do what an APIService does with
a server of its own: where one takes a group and version over, requests for these do not come here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ...api.kinds import Kind
from ...api.objects import Obj, key_of
from ...store.record import Record, unsaved
from ..registry import Call, Registry
from ..request.failures import not_found
from ..verbs.list import ListOptions, Page


class Source(Protocol):
    """A source that knows the objects of some kinds."""

    @property
    def kinds(self) -> Sequence[Kind]: ...

    async def objects(self, kind: Kind, namespace: str) -> list[Obj]:
        """Return all of a kind, in order of their keys; an empty namespace means every one."""
        ...


def source_of(registry: Registry, kind: Kind) -> Source | None:
    return registry.sources.get((kind.group, kind.version, kind.plural))


def add(registry: Registry, source: Source) -> None:
    """Serve a source's kinds from now on."""
    for kind in source.kinds:
        registry.sources[kind.group, kind.version, kind.plural] = source
        registry.kinds.add(kind)


async def get(source: Source, call: Call) -> Record:
    for obj in await source.objects(call.kind, call.namespace):
        if key_of(obj) == call.key:
            return unsaved(obj, call.key)
    raise not_found(call.kind, call.name)


async def list_(source: Source, call: Call, options: ListOptions) -> Page:
    """Return all that are selected, on one page.

    What is made for the moment cannot be continued.
    """
    objects = await source.objects(call.kind, call.namespace)
    records = [unsaved(obj, key_of(obj)) for obj in objects]
    return Page(0, [record for record in records if options.selection.matches(record)])
