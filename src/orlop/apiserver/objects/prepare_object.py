"""Prepares an object on its way in: what kind, in which place, under which name, upon which state.

Called by create, update and patch with a decoded body that is theirs to change. Rules that differ
by kind are api.strategy's; rules about content are api.validation's.
"""

from __future__ import annotations

from typing import Any

from ...api.kinds import Kind
from ...api.names import generate
from ...api.objects import Obj
from ...errors import BadRequest
from ..registry import Call, Registry
from ..request.failures import bad_request, conflict


def identify(call: Call, body: Any) -> Obj:
    """Take the body as an object of the call's kind and place; BadRequest where it is not."""
    if not isinstance(body, dict):
        raise bad_request(f"the body of the request must be an object, not {type(body).__name__}")
    kind = call.kind
    _check_type(kind, body)
    metadata = body.get("metadata")
    if metadata is None:
        metadata = {}
    if not isinstance(metadata, dict):
        raise bad_request("metadata must be an object")
    _check_place(call, metadata)
    rest = {key: value for key, value in body.items() if key not in ("apiVersion", "kind")}
    return {"apiVersion": kind.api_version, "kind": kind.kind, **rest, "metadata": metadata}


def _check_type(kind: Kind, body: Obj) -> None:
    version = body.get("apiVersion")
    if version and version != kind.api_version:
        raise bad_request(
            f"the API version in the data ({version}) does not match the expected API version "
            f"({kind.api_version})"
        )
    named = body.get("kind")
    if named and named != kind.kind:
        raise bad_request(
            f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: '
            f"no kind {named!r} is served at this path".replace("'", '"')
        )


def _check_place(call: Call, metadata: Obj) -> None:
    namespace = metadata.get("namespace") or ""
    if not call.kind.namespaced:
        metadata.pop("namespace", None)
    elif namespace and namespace != call.namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    else:
        metadata["namespace"] = call.namespace
    if call.name and metadata.setdefault("name", call.name) != call.name:
        raise bad_request(
            f"the name of the object ({metadata['name']}) does not match the name on the URL "
            f"({call.name})"
        )


def name_new(registry: Registry, call: Call, obj: Obj) -> None:
    """Give a new object its final name. As rest.BeforeCreate."""
    metadata = obj["metadata"]
    if metadata.get("resourceVersion"):
        raise BadRequest("resourceVersion should not be set on objects to be created")
    if not metadata.get("name") and metadata.get("generateName"):
        metadata["name"] = generate(metadata["generateName"], registry.rng)
    call.name = str(metadata.get("name") or "")


def check_base(call: Call, obj: Obj, old: Obj) -> None:
    """Raise Conflict where the client meant another object, or an older state of it."""
    metadata, former = obj["metadata"], old["metadata"]
    uid, version = metadata.get("uid"), metadata.get("resourceVersion")
    if uid and uid != former["uid"]:
        why = (
            f"Precondition failed: UID in precondition: {uid}, UID in object meta: {former['uid']}"
        )
        raise conflict(call.kind, call.name, why)
    if version and version != former["resourceVersion"]:
        raise conflict(call.kind, call.name)
    metadata["resourceVersion"] = former["resourceVersion"]
    if "managedFields" not in metadata and "managedFields" in former:
        metadata["managedFields"] = former["managedFields"]
