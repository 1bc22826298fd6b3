"""delete: an object removed, or marked for those who must agree first.

Called for DELETE on a name, by eviction, and by deletecollection. Pods are given their grace, and
their kubelet removes them; finalizers hold an object until their owners let go. As
registry/generic/registry.Store.Delete and registry/core/pod/strategy.go.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from ...api.kinds import CUSTOM_RESOURCE_DEFINITION
from ...api.objects import Obj, is_terminal
from ...api.times import rfc3339
from ...errors import InternalError
from ...store import Record, RevisionConflict
from ...store.record import unsaved
from ..crd import definitions
from ..objects import delete_answers
from ..objects.conversion import bucket_of, decode, ready
from ..registry import Call, Registry
from ..request.failures import bad_request, conflict

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"
_POLICIES = ("Background", "Foreground", "Orphan")
_TRIES = 5


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    grace: int | None = None
    uid: str | None = None
    resource_version: str | None = None
    propagation: str | None = None
    orphan_dependents: bool | None = None
    dry_run: bool = False


class _Preconditions(msgspec.Struct):
    uid: str | None = None
    resourceVersion: str | None = None


class _Body(msgspec.Struct):
    """The fields of a metav1.DeleteOptions that count, with their types."""

    gracePeriodSeconds: int | None = None
    preconditions: _Preconditions | None = None
    propagationPolicy: str | None = None
    orphanDependents: bool | None = None
    dryRun: list[str] | None = None


def options_from(raw: Any) -> DeleteOptions:
    """Read a metav1.DeleteOptions as it came in, or nothing."""
    try:
        body = msgspec.convert(raw or {}, _Body)
    except msgspec.ValidationError as error:
        raise bad_request(f"the body of a DELETE must be DeleteOptions: {error}") from None
    preconditions = body.preconditions or _Preconditions()
    propagation, orphan, dry_run = body.propagationPolicy, body.orphanDependents, body.dryRun or []
    unsupported = [value for value in dry_run if value != "All"]
    if unsupported:
        raise bad_request(f'dryRun: Unsupported value: "{unsupported[0]}": supported values: "All"')
    if propagation is not None and orphan is not None:
        raise bad_request(
            'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Invalid value: '
            f'"{propagation}": orphanDependents and deletionPropagation cannot be both set'
        )
    if propagation is not None and propagation not in _POLICIES:
        raise bad_request(
            f'propagationPolicy: Unsupported value: "{propagation}": supported values: '
            '"Foreground", "Background", "Orphan", "nil"'
        )
    return DeleteOptions(
        grace=body.gracePeriodSeconds,
        uid=preconditions.uid,
        resource_version=preconditions.resourceVersion,
        propagation=propagation,
        orphan_dependents=orphan,
        dry_run=bool(dry_run),
    )


@dataclass(frozen=True, slots=True)
class Deleted:
    """The object's last (or present) state, and whether it is gone."""

    record: Record
    is_gone: bool


async def delete(registry: Registry, call: Call, options: DeleteOptions) -> Deleted:
    """Remove the object or mark it; try again where another write came in between."""
    for _ in range(_TRIES):
        current = registry.find_newest(call)
        obj = current.decode()
        check_preconditions(call, obj, options)
        await _admit(registry, call, options, await _shown(call, current))
        try:
            return await _delete(registry, call, options, current, obj)
        except RevisionConflict:
            continue
    raise conflict(call.kind, call.name)


async def _shown(call: Call, current: Record) -> Obj:
    """Return the object in the version of the call; as it is kept where nobody can convert it."""
    try:
        await ready(call.kind, [current])
        return decode(call.kind, current)
    except InternalError:
        return current.decode()


async def _admit(registry: Registry, call: Call, options: DeleteOptions, obj: Obj) -> None:
    if call.is_admitted:
        return
    preconditions = {"uid": options.uid, "resourceVersion": options.resource_version}
    preconditions = {name: text for name, text in preconditions.items() if text is not None}
    call.options = {
        "gracePeriodSeconds": options.grace,
        "preconditions": preconditions or None,
        "propagationPolicy": options.propagation,
        "orphanDependents": options.orphan_dependents,
    }
    attributes = call.attributes("DELETE", None, obj)
    await registry.admission.admit(attributes)
    await registry.admission.validate(attributes)


def check_preconditions(call: Call, obj: Obj, options: DeleteOptions) -> None:
    metadata = obj["metadata"]
    if options.uid is not None and options.uid != metadata["uid"]:
        raise conflict(call.kind, call.name, _failed("UID", options.uid, metadata["uid"]))
    version = options.resource_version
    if version is not None and version != metadata["resourceVersion"]:
        why = _failed("ResourceVersion", version, metadata["resourceVersion"])
        raise conflict(call.kind, call.name, why)


def _failed(what: str, wanted: str, found: str) -> str:
    return f"Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}"


async def _delete(
    registry: Registry, call: Call, options: DeleteOptions, current: Record, obj: Obj
) -> Deleted:
    """Delete once.

    1. Finalizers by policy. 2. Grace. 3. Go at once, or be marked and wait.
    """
    before = current.decode()
    _add_finalizers(call, obj, options)  # 1
    if call.kind == CUSTOM_RESOURCE_DEFINITION:
        definitions.mark_terminating(obj, registry.now())
    grace = _grace(call, obj, options)  # 2
    if not _must_wait(call, obj, grace):  # 3
        return await _remove(registry, call, current, obj)
    _mark(registry, call, obj, grace)
    if obj == before:
        await registry.store.settled()
        return Deleted(current, is_gone=False)
    if call.dry_run:
        return Deleted(unsaved(obj, call.key), is_gone=False)
    bucket = bucket_of(call.kind)
    record = await registry.store.update(bucket, call.key, obj, expected=current.revision)
    return Deleted(record, is_gone=False)


async def _remove(registry: Registry, call: Call, current: Record, obj: Obj) -> Deleted:
    if call.dry_run:
        return Deleted(current, is_gone=True)
    bucket = bucket_of(call.kind)
    record = await registry.store.delete(bucket, call.key, obj, expected=current.revision)
    return Deleted(record, is_gone=True)


def _add_finalizers(call: Call, obj: Obj, options: DeleteOptions) -> None:
    """Add Foreground or Orphan: finalizers that the garbage collector takes off."""
    policy = options.propagation
    if options.orphan_dependents is not None:
        policy = "Orphan" if options.orphan_dependents else "Background"
    if policy is None:
        return
    kept = [name for name in obj["metadata"].get("finalizers") or [] if name not in _BY_POLICY]
    wanted = {"Foreground": [FOREGROUND], "Orphan": [ORPHAN]}.get(policy, [])
    if kept or wanted:
        obj["metadata"]["finalizers"] = [*kept, *wanted]
    else:
        obj["metadata"].pop("finalizers", None)


_BY_POLICY = (FOREGROUND, ORPHAN)


def _grace(call: Call, obj: Obj, options: DeleteOptions) -> int:
    """Return the seconds a pod is given; every other kind goes at once."""
    if (call.kind.group, call.kind.plural) != ("", "pods"):
        return 0
    spec = obj.get("spec", {})
    grace = options.grace
    if grace is None:
        grace = spec.get("terminationGracePeriodSeconds", 30)
    if grace < 0:
        grace = 1  # as upstream: a negative one means "as short as can be"
    is_running_somewhere = bool(spec.get("nodeName")) and not is_terminal(obj)
    return int(grace) if is_running_somewhere else 0


def _must_wait(call: Call, obj: Obj, grace: int) -> bool:
    if grace > 0 or obj["metadata"].get("finalizers"):
        return True
    is_namespace = (call.kind.group, call.kind.plural) == ("", "namespaces")
    return is_namespace and bool(obj.get("spec", {}).get("finalizers"))


def _mark(registry: Registry, call: Call, obj: Obj, grace: int) -> None:
    """Set the time of deletion; a second delete may only bring it forward."""
    metadata = obj["metadata"]
    if "deletionTimestamp" in metadata:
        if grace >= metadata.get("deletionGracePeriodSeconds", 0):
            return
    elif call.kind.keeps_generation:
        metadata["generation"] = metadata.get("generation", 0) + 1
    metadata["deletionTimestamp"] = rfc3339(registry.now() + grace)
    metadata["deletionGracePeriodSeconds"] = grace
    if (call.kind.group, call.kind.plural) == ("", "namespaces"):
        obj.setdefault("status", {})["phase"] = "Terminating"


def status_of(call: Call, deleted: Deleted) -> Obj:
    """Make the metav1.Status of a finished deletion, where the answer is not the object itself."""
    details = {
        "name": call.name,
        "group": call.kind.group,
        "kind": call.kind.plural,
        "uid": deleted.record.decode()["metadata"].get("uid", ""),
    }
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {key: value for key, value in details.items() if value},
    }


def returns_object(call: Call, deleted: Deleted) -> bool:
    """Return whether a kind answers with the object even when it is gone.

    As Strategy.ReturnDeletedObject.
    """
    return not deleted.is_gone or delete_answers.returns_deleted_object(call.kind)
