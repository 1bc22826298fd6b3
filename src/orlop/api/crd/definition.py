"""One served version of a definition, compiled: all that makes a custom resource a kind.

Made by the API server for each version of each established definition and carried by the kind as
`Kind.custom`, where decoding, defaulting, validation, tables, selectors and OpenAPI find it. Two
are equal if they are the same object: a changed definition is compiled anew.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import msgspec

from ...errors import BadRequest
from ..objects import Obj
from ..schema.model import Schema
from ..tables.cells import Printer
from ..validation.errors import Errors, bad_value
from . import defaulting, pruning, validation
from .jsonpath import JsonPath
from .printer_columns import printer
from .structural_schema import ABSENT, Node
from .validation_rules import Rules

_NOT_CHECKED = (
    "some validation rules were not checked because the object was invalid; correct the existing "
    "errors to complete validation"
)


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """The paths of a resource's replicas, as its scale subresource names them."""

    spec_replicas: str
    status_replicas: str
    selector: str = ""


@dataclass(frozen=True, slots=True)
class Conversion:
    """The way objects of one version become another's; `versions` are all that are known."""

    storage: str
    strategy: str
    webhook: Obj
    versions: tuple[str, ...]


class CustomResource:
    """A kind by the schema of one version; see the functions of the same names for built-ins."""

    def __init__(self, definition: Obj, version: Obj) -> None:
        spec = definition["spec"]
        self.name: str = definition["metadata"]["name"]
        self.group: str = spec["group"]
        self.version: str = version["name"]
        self.schema: Obj = (version.get("schema") or {}).get("openAPIV3Schema") or {}
        self.node = Node(self.schema)
        if spec.get("preserveUnknownFields"):
            self.node.preserve = True
        self.rules = Rules(self.node) if self.node.has_rules else None
        self.printer: Printer = printer(version.get("additionalPrinterColumns") or ())
        self.selectable = tuple(
            one["jsonPath"].removeprefix(".") for one in version.get("selectableFields") or ()
        )
        self._selectors = {path: JsonPath(f".{path}") for path in self.selectable}
        self.scale = _scale(version)
        self.conversion = _conversion(spec)
        self.webhooks: object = None  # the server's client: who asks the conversion webhook
        self.is_terminating = "deletionTimestamp" in definition["metadata"]
        self.warning = _deprecation(spec, version)
        self._digest = hashlib.sha256(msgspec.json.encode([spec, version["name"]])).hexdigest()

    def __repr__(self) -> str:
        """Tell two schemas apart, also over restarts: OpenAPI's hashes are made of it."""
        return f"CustomResource({self.name} {self.version} {self._digest[:16]})"

    def decode(self, schema: Schema, obj: Obj) -> list[str]:
        """Bring `obj`, in place, into the schema's shape; return the paths it does not name."""
        unknown = _decode_metadata(schema, self.version, obj, "")
        unknown += pruning.prune(self.node, obj)
        for path, inner in pruning.embedded(self.node, obj):
            if "metadata" in inner:
                unknown += _decode_metadata(schema, self.version, inner, path)
        return unknown

    def default(self, obj: Obj) -> None:
        defaulting.apply(self.node, obj)

    def read(self, obj: Obj) -> Obj:
        """Bring an object out of the store, which an earlier schema may have let in, into shape.

        Changed in place.
        """
        pruning.prune(self.node, obj)
        try:
            defaulting.apply(self.node, obj)
        except BadRequest:  # it was kept before its schema had so many defaults
            pass
        return obj

    def validate(self, obj: Obj, old: Any = ABSENT) -> Errors:
        """Validate everything but the metadata of the object itself."""
        errors = validation.check(self.node, obj, old)
        if self.rules is None:
            return errors
        if any(error.reason in validation.BLOCKING for error in errors):
            return [*errors, bad_value("<nil>", None, _NOT_CHECKED)]
        return errors + self.rules.check(obj, old)

    def field(self, obj: Obj, path: str) -> Any:
        """Return the value of a selectable field."""
        return self._selectors[path].first(obj)


def compile_version(definition: Obj, version: Obj) -> CustomResource:
    return CustomResource(definition, version)


def _scale(version: Obj) -> ScalePaths | None:
    scale = (version.get("subresources") or {}).get("scale")
    if scale is None:
        return None
    selector = scale.get("labelSelectorPath") or ""
    return ScalePaths(scale["specReplicasPath"], scale["statusReplicasPath"], selector)


def _conversion(spec: Obj) -> Conversion:
    conversion = spec.get("conversion") or {}
    storage = next(one["name"] for one in spec["versions"] if one.get("storage"))
    strategy = conversion.get("strategy") or "None"
    names = tuple(one["name"] for one in spec["versions"])
    return Conversion(storage, strategy, conversion.get("webhook") or {}, names)


def _deprecation(spec: Obj, version: Obj) -> str:
    if not version.get("deprecated"):
        return ""
    kind = spec["names"]["kind"]
    text: str = version.get("deprecationWarning") or (
        f"{spec['group']}/{version['name']} {kind} is deprecated"
    )
    return text


def _decode_metadata(schema: Schema, version: str, obj: Obj, path: str) -> list[str]:
    """Decode metadata, which are the same for every kind, whatever a schema says of them."""
    metadata = obj.get("metadata")
    if metadata is None:
        return []
    kind = str(obj.get("kind") or "")
    prefix = f"{path}.metadata" if path else "metadata"
    unknown = schema.decode_struct("meta_v1.ObjectMeta", version, kind, metadata)
    return [f"{prefix}.{one}" for one in unknown]
