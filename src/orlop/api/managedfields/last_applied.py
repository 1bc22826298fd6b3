"""The way from `kubectl apply` to `kubectl apply --server-side`, by the annotation of the former.

Called around apply. The manager `kubectl` may change fields that client-side apply wrote and nobody
changed since, though another name owns them; and it keeps the annotation true, so that one can go
back. As managedfields/internal/lastappliedmanager.go and lastappliedupdater.go.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ..objects import Obj, annotations_of, meta
from ..reading import decode_json
from . import configuration
from .compare import compare
from .conflicts import Conflicts
from .fieldset import FieldSet, difference
from .manager import apply
from .write import Write

ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"
_KUBECTL = "kubectl"
_MAX_ANNOTATIONS = 256 * 1024  # bytes, of all together


def apply_with_last_applied(
    write: Write, live: Obj | None, config: Obj, *, force: bool = False
) -> Obj:
    """Do as `apply`, for whichever manager."""
    if write.manager != _KUBECTL:
        return apply(write, live, config, force=force)
    stated = msgspec.json.encode(_without_annotation(config))
    try:
        applied = apply(write, live, config, force=force)
    except Conflicts as conflicts:
        left = _not_allowed(conflicts, _matching(write, live) if live is not None else {})
        if left:
            raise Conflicts(left) from None
        applied = apply(write, live, config, force=True)
    if annotations_of(applied).get(ANNOTATION):
        _set(applied, stated.decode() + "\n")
    return applied


def _not_allowed(conflicts: Conflicts, allowed: FieldSet) -> list[Any]:
    left = [(entry, difference(fields, allowed)) for entry, fields in conflicts.held]
    return [(entry, fields) for entry, fields in left if fields]


def _matching(write: Write, live: Obj) -> FieldSet:
    """Return the fields that client-side apply wrote and that still are what it wrote."""
    try:
        last = decode_json(annotations_of(live).get(ANNOTATION, ""))
        if not isinstance(last, dict) or last.get("apiVersion") != write.api_version:
            return {}
        fields = configuration.fields_of(last, write.shape)
    except (ValueError, configuration.NotTyped):
        return {}
    changes = compare(last, live, write.shape)
    return difference(difference(fields, changes.changed), changes.removed)


def _without_annotation(config: Obj) -> Obj:
    annotations = annotations_of(config)
    if ANNOTATION not in annotations:
        return config
    rest = {name: text for name, text in annotations.items() if name != ANNOTATION}
    metadata = {name: value for name, value in meta(config).items() if name != "annotations"}
    metadata |= {"annotations": rest} if rest else {}
    return {**config, "metadata": metadata}


def _set(obj: Obj, text: str) -> None:
    annotations = {**annotations_of(obj), ANNOTATION: text}
    size = sum(len(name.encode()) + len(value.encode()) for name, value in annotations.items())
    if size > _MAX_ANNOTATIONS:
        del annotations[ANNOTATION]
    obj["metadata"]["annotations"] = annotations
