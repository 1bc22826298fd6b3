"""The kinds that are served now: the built-in ones, and those of established definitions.

Asked by every request. The definitions are looked at again whenever one of them has changed in the
store, which costs a comparison of two numbers, so that a new kind is there with the very next
request, after a restart too.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...api.crd import compile_version
from ...api.kinds import BUILT_IN, CUSTOM_RESOURCE_DEFINITION, TOKEN_REVIEW, Kind, Kinds
from ...api.managedfields.builtin import Shapes
from ...api.managedfields.structural import fields_of
from ...api.objects import Obj, is_deleting, meta
from ...log import logger
from ...store import Store
from .definitions import is_established

log = logger(__name__)
_BUCKET = CUSTOM_RESOURCE_DEFINITION.resource
# A definition that has not changed in these need not be compiled again.
_Stamp = tuple[str, int, bool]


class ServedKinds(Kinds):
    def __init__(self, store: Store, *, has_tokens: bool = True, webhooks: object = None) -> None:
        self._store = store
        self._seen = -1
        self._looked_at: dict[str, int] = {}  # definitions, and at which revision of each
        self._made: dict[str, tuple[_Stamp, list[Kind]]] = {}
        super().__init__(kind for kind in BUILT_IN if has_tokens or kind != TOKEN_REVIEW)
        self._webhooks = webhooks  # asks those that convert
        self.shapes: Shapes | None = None  # told how the fields of each kind merge
        self._own = {(kind.group, kind.version, kind.plural) for kind in BUILT_IN}

    def __iter__(self) -> Iterator[Kind]:
        self.refresh()
        return super().__iter__()

    def by_resource(self, group: str, version: str, plural: str) -> Kind | None:
        self.refresh()
        return super().by_resource(group, version, plural)

    def by_kind(self, api_version: str, kind: str) -> Kind | None:
        self.refresh()
        return super().by_kind(api_version, kind)

    def refresh(self) -> None:
        """Serve what the definitions in the store say now."""
        newest = self._store.changed(_BUCKET)
        if newest == self._seen:
            return
        self._seen = newest
        records = {record.key.name: record for record in self._store.list(_BUCKET).records}
        for name, record in records.items():
            if self._looked_at.get(name) != record.revision:
                self._looked_at[name] = record.revision
                self._look_at(record.decode())
        for name in [name for name in self._looked_at if name not in records]:
            del self._looked_at[name]
            self._drop(name)

    def _look_at(self, definition: Obj) -> None:
        if is_established(definition):
            self._serve(definition)
        else:
            self._drop(meta(definition)["name"])

    def _serve(self, definition: Obj) -> None:
        metadata = meta(definition)
        stamp = (metadata["uid"], metadata.get("generation", 0), is_deleting(definition))
        former = self._made.get(metadata["name"])
        if former is not None and former[0] == stamp:
            return
        try:
            kinds = [kind for kind in kinds_of(definition) if self._is_free(kind)]
        except Exception:
            # Stored under rules of an earlier release: one definition must not stop the others.
            log.error("cannot serve a definition", definition=metadata["name"], exc_info=True)
            kinds = []
        self._drop(metadata["name"])
        self._made[metadata["name"]] = (stamp, kinds)
        for kind in kinds:
            self.add(kind)
            if kind.custom is not None:
                kind.custom.webhooks = self._webhooks
            if self.shapes is not None and kind.custom is not None:
                self.shapes.use(kind, *fields_of(kind.custom.schema))

    def _is_free(self, kind: Kind) -> bool:
        return (kind.group, kind.version, kind.plural) not in self._own

    def _drop(self, name: str) -> None:
        _, kinds = self._made.pop(name, (None, []))
        for kind in kinds:
            self.remove(kind)
            if self.shapes is not None:
                self.shapes.drop(kind)
        if kinds:
            # Whoever watches sees objects in a form that no longer holds: let them begin anew.
            self._store.end_watches(kinds[0].resource)


def kinds_of(definition: Obj) -> Iterator[Kind]:
    """Yield the kind of each served version."""
    for version in definition["spec"]["versions"]:
        if version.get("served"):
            yield _kind(definition, version)


def storage_kind(definition: Obj) -> Kind:
    """Return the kind of the version that objects are kept in, served or not."""
    versions = definition["spec"]["versions"]
    return _kind(definition, next(version for version in versions if version.get("storage")))


def _kind(definition: Obj, version: Obj) -> Kind:
    spec = definition["spec"]
    names = (definition.get("status") or {}).get("acceptedNames") or spec["names"]
    subresources = version.get("subresources") or {}
    return Kind(
        spec["group"],
        version["name"],
        names["kind"],
        names["plural"],
        spec["scope"] == "Namespaced",
        tuple(names.get("shortNames") or ()),
        tuple(names.get("categories") or ()),
        tuple(name for name in ("scale", "status") if subresources.get(name) is not None),
        keeps_generation=True,
        custom=compile_version(definition, version),
        list_name=names.get("listKind") or "",
        singular_name=names.get("singular") or "",
    )
