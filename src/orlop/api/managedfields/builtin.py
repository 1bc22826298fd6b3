"""The shapes of all kinds that are served, and what of them has no owner.

Asked by the write verbs with a kind and a subresource. Built-in kinds come from the schema, each
compiled once; custom resources bring their shape with `use`. What the server writes itself, and
what an endpoint resets (status on the object itself, all else on its status), is ignored.
"""

from __future__ import annotations

from collections.abc import Mapping

from .. import quantity, times
from ..kinds import Kind
from ..schema import Schema
from ..schema.facts import ATOMIC_STRUCTS, DEFAULTS
from ..schema.model import FieldType, struct_name
from .shapes import DEDUCED, IGNORED, LEAF, SET, KeyedList, Leaf, Map, Shape, Struct

# As managedfields/internal/stripmeta.go: nobody owns these.
_STRIPPED = (
    "name",
    "namespace",
    "creationTimestamp",
    "selfLink",
    "uid",
    "clusterName",
    "generation",
    "managedFields",
    "resourceVersion",
)
# Structs, and scalars whose zero is the same as nothing, unless they are pointers.
_NEVER_ABSENT = "@silbdy"
_CANONICAL: dict[str, Shape] = {
    "q": Leaf(quantity.canonical),
    "t": Leaf(times.canonical),
    "T": Leaf(times.canonical_micro),
    "*": DEDUCED,
}
# What a status endpoint resets beside the spec. As GetResetFields in upstream's strategies.
_RESET_BY_STATUS: dict[tuple[str, str], tuple[str, ...]] = {
    ("", "Pod"): ("deletionTimestamp", "ownerReferences"),
    ("apps", "Deployment"): ("labels",),
}


class Shapes:
    """Shapes by kind and subresource, made when first asked for."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._structs: dict[str, Struct] = {}
        self._custom: dict[tuple[str, str, str], Struct] = {}
        self._roots: dict[tuple[str, str, str, str], Struct] = {}

    def use(self, kind: Kind, fields: Mapping[str, Shape], rest: Shape | None = None) -> None:
        """Give a custom resource its shape; apiVersion, kind and metadata are every object's."""
        self._custom[kind.group, kind.version, kind.kind] = Struct(
            {"apiVersion": LEAF, "kind": LEAF, **fields, "metadata": self.metadata}, rest=rest
        )
        self._forget_roots(kind)

    def drop(self, kind: Kind) -> None:
        """Forget a custom resource; what of it is still there is compared without knowledge."""
        self._custom.pop((kind.group, kind.version, kind.kind), None)
        self._forget_roots(kind)

    def _forget_roots(self, kind: Kind) -> None:
        name = (kind.group, kind.version, kind.kind)
        for root in [root for root in self._roots if root[:3] == name]:
            del self._roots[root]

    @property
    def metadata(self) -> Struct:
        """Return the shape of the metadata of every object that is stored."""
        return self._struct("meta_v1.ObjectMeta")

    def of(self, kind: Kind, subresource: str = "") -> Struct:
        """Return the shape of the whole object, as writes through that endpoint see it."""
        name = (kind.group, kind.version, kind.kind, subresource)
        root = self._roots.get(name)
        if root is None:
            root = self._roots[name] = self._root(kind, subresource)
        return root

    def scale(self) -> Struct:
        """Return the shape of an autoscaling/v1 Scale: just spec.replicas can be written."""
        scale = self._struct("autoscaling_v1.Scale")
        spec = Struct({"replicas": LEAF}, {"replicas"})
        fields = {**scale.fields, "metadata": self._metadata(()), "spec": spec, "status": IGNORED}
        return Struct({**fields, "apiVersion": IGNORED, "kind": IGNORED}, scale.implied)

    def _root(self, kind: Kind, subresource: str) -> Struct:
        full = self._full(kind)
        fields = {**full.fields, "apiVersion": IGNORED, "kind": IGNORED}
        rest, reset = full.rest, tuple[str, ...]()
        if subresource in ("approval", "status"):
            fields = {
                name: shape if name in ("metadata", "status") else IGNORED
                for name, shape in fields.items()
            }
            if (kind.group, kind.version, kind.kind) in self._custom:
                fields["metadata"] = IGNORED  # as customresource: statusStrategy resets it all
            fields.setdefault("status", rest or IGNORED)
            rest = None if rest is None else IGNORED
            reset = _RESET_BY_STATUS.get((kind.group, kind.kind), ())
        elif kind.has_status:
            fields["status"] = IGNORED
        if fields["metadata"] is not IGNORED:
            fields["metadata"] = self._metadata(reset)
        return Struct(fields, {*full.implied, "metadata"}, rest)

    def _full(self, kind: Kind) -> Struct:
        custom = self._custom.get((kind.group, kind.version, kind.kind))
        if custom is not None:
            return custom
        if self._schema.type_of(kind) is None:
            return Struct({"metadata": self.metadata}, rest=DEDUCED)
        return self._struct(struct_name(kind.group, kind.version, kind.kind))

    def _metadata(self, reset: tuple[str, ...]) -> Struct:
        known = self.metadata
        ignored = dict.fromkeys((*_STRIPPED, *reset), IGNORED)
        return Struct({**known.fields, **ignored}, known.implied, known.rest)

    def _struct(self, name: str) -> Struct:
        struct = self._structs.get(name)
        if struct is None:
            struct = self._structs[name] = Struct({})  # before its fields: it may contain itself
            for field, facts in self._schema.struct(name).fields.items():
                struct.fields[field] = self._field(facts)
                if facts.always or (facts.spec[0] in _NEVER_ABSENT and not facts.pointer):
                    struct.implied.add(field)
        return struct

    def _field(self, facts: FieldType) -> Shape:
        if facts.spec[0] == "[":
            if facts.list_type == "map":
                struct = facts.struct_name.partition(".")[2]
                known = {key: DEFAULTS.get(f"{struct}.{key}") for key in facts.list_keys}
                defaults = {key: value for key, value in known.items() if value is not None}
                return KeyedList(facts.list_keys, self._value(facts.spec[1:], ""), defaults)
            return SET if facts.list_type == "set" else LEAF
        return self._value(facts.spec, facts.map_type)

    def _value(self, spec: str, map_type: str) -> Shape:
        if spec[0] == "{":
            return LEAF if map_type == "atomic" else Map(self._value(spec[1:], ""))
        if spec[0] == "@":
            name = spec[1:]
            is_atomic = name in ATOMIC_STRUCTS or name.partition(".")[2] in ATOMIC_STRUCTS
            if map_type == "atomic" or (is_atomic and map_type != "granular"):
                return LEAF
            return self._struct(name)
        return _CANONICAL.get(spec, LEAF)
