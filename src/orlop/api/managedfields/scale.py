"""Managers of spec.replicas, between a workload and its scale.

Called by the scale subresource. A Scale has one field to own; whoever owns the workload's replicas
owns it, and what changes hands there changes hands here. As managedfields/scalehandler.go.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..objects import Obj
from .entries import Entry, decode, encode
from .fieldset import FieldSet, difference, has

SCALE = "autoscaling/v1"
_REPLICAS = ("f:spec", "f:replicas")
_FIELDS: FieldSet = {"f:spec": {"f:replicas": {}}}


def to_scale(entries: Any) -> list[Obj]:
    """Return the workload's entries as far as a Scale has them."""
    own = [entry for entry in decode(entries) or [] if has(entry.fields, _REPLICAS)]
    return encode(replace(entry, api_version=SCALE, fields=_FIELDS, raw=None) for entry in own)


def to_workload(entries: Any, scale_entries: Any, api_version: str) -> list[Obj]:
    """Return the workload's entries after a write of its Scale.

    `scale_entries` are the Scale's.
    """
    scaled = {_who(entry): entry for entry in decode(scale_entries) or []}
    kept = []
    for entry in decode(entries) or []:
        if not has(entry.fields, _REPLICAS) or scaled.pop(_who(entry), None) is not None:
            kept.append(entry)
        else:
            kept.append(entry.with_fields(difference(entry.fields, _FIELDS)))
    new = [
        replace(entry, api_version=api_version, fields=_FIELDS, raw=None)
        for entry in scaled.values()
    ]
    return encode([*kept, *new])


def _who(entry: Entry) -> tuple[str, str, str]:
    return entry.manager, entry.operation, entry.subresource
