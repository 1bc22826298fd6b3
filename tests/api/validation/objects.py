"""Valid objects that the tests of validation break in one place each."""

from __future__ import annotations

import copy
from typing import Any

from orlop.api import strategy
from orlop.api.defaults import apply_defaults
from orlop.api.kinds import Kind
from orlop.api.validation import FieldError, validate_create, validate_update

Obj = dict[str, Any]

TEMPLATE: Obj = {
    "metadata": {"labels": {"app": "a"}},
    "spec": {"containers": [{"name": "c", "image": "busybox:1"}]},
}
JOB_TEMPLATE: Obj = {
    "spec": {"containers": [{"name": "c", "image": "busybox:1"}], "restartPolicy": "Never"}
}


def prepared(kind: Kind, obj: Obj) -> Obj:
    """The object as validation sees it: named, defaulted, and with what the server sets."""
    result = copy.deepcopy(obj)
    metadata = result.setdefault("metadata", {})
    metadata.setdefault("name", "x")
    if kind.namespaced:
        metadata.setdefault("namespace", "default")
    apply_defaults(kind, result)
    strategy.prepare_for_create(kind, result, now=0.0, uid="u1")
    return result


def texts(errors: list[FieldError]) -> list[str]:
    return [str(error) for error in errors]


def on_create(kind: Kind, obj: Obj) -> list[str]:
    return texts(validate_create(kind, prepared(kind, obj)))


def on_update(kind: Kind, new: Obj, old: Obj) -> list[str]:
    """What an update of a stored `old` to `new` is told."""
    stored, wanted = prepared(kind, old), copy.deepcopy(new)
    wanted.setdefault("metadata", {}).update(
        {key: stored["metadata"][key] for key in ("name", "namespace") if key in stored["metadata"]}
    )
    apply_defaults(kind, wanted)
    if kind.kind == "Job":  # a client sends back what was generated
        wanted["spec"].setdefault("selector", stored["spec"]["selector"])
        labels = stored["spec"]["template"]["metadata"]["labels"]
        wanted["spec"]["template"].setdefault("metadata", {}).setdefault("labels", labels)
    strategy.prepare_for_update(kind, wanted, stored)
    return texts(validate_update(kind, wanted, stored))


def merged(obj: Obj, change: Obj) -> Obj:
    """`obj` with `change` laid over it; lists and scalars are replaced, None deletes."""
    result = copy.deepcopy(obj)
    for key, value in change.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict) and isinstance(result.get(key), dict):
            result[key] = merged(result[key], value)
        else:
            result[key] = copy.deepcopy(value)
    return result
