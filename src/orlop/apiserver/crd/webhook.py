"""Conversion by webhook: asks whoever wrote a definition to turn its objects into another version.

Called by `versions` with objects that are not in the version asked for. It sends a ConversionReview
and believes the answer only where names, uid and the rest of the metadata are unchanged. As
apiextensions' conversion/webhook_converter.go, in its words.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any, cast

import msgspec

from ...api import reading
from ...api.crd import CustomResource
from ...api.kinds import Kind
from ...api.objects import Obj, meta
from ...errors import InternalError
from ..proxy.webhook_client import CallFailed, WebhookClient, target_of

_TIMEOUT = 30.0  # seconds, as upstream's
_MAY_CHANGE = ("labels", "annotations")
_LONGEST = 10_000  # characters of its words that are passed on


async def convert(
    kind: Kind, custom: CustomResource, objects: Sequence[Obj], version: str
) -> list[Obj]:
    """Convert the objects to another version (`group/version`); InternalError where that fails."""
    try:
        answer = await _ask(custom, list(objects), version)
        return _checked(objects, answer, version)
    except (_Refused, CallFailed) as error:
        title = f"{kind.api_version}, Kind={kind.kind}"
        raise InternalError(f"conversion webhook for {title} failed: {error}") from error


class _Refused(Exception):
    """The webhook's answer cannot be used; the message says why."""


async def _ask(custom: CustomResource, objects: list[Obj], version: str) -> Obj:
    webhook, client = custom.conversion.webhook, custom.webhooks
    if not isinstance(client, WebhookClient):
        raise _Refused("this server calls no webhooks")
    uid = str(uuid.uuid4())
    versions = webhook.get("conversionReviewVersions") or ["v1"]
    review = next(one for one in versions if one in ("v1", "v1beta1"))
    body = {
        "kind": "ConversionReview",
        "apiVersion": f"apiextensions.k8s.io/{review}",
        "request": {"uid": uid, "desiredAPIVersion": version, "objects": objects},
    }
    target = target_of(webhook.get("clientConfig") or {})
    response = _object((await client.ask(target, body, timeout=_TIMEOUT)).get("response"))
    if response.get("uid") != uid:
        found = str(response.get("uid", ""))[:100]
        raise _Refused(f'expected response.uid="{uid}", got "{found}"')
    result = _object(response.get("result"))
    if result.get("status") != "Success":
        status = str(result.get("status"))[:100]
        words = str(result.get("message") or f"its answer has status {status!r}")
        raise _Refused(words[:_LONGEST])
    return response


def _object(value: Any) -> Obj:
    """Return the object in an answer; an empty one where there is something else."""
    return cast("Obj", value) if isinstance(value, dict) else {}


def _checked(objects: Sequence[Obj], response: Obj, version: str) -> list[Obj]:
    converted = response.get("convertedObjects") or []
    if not isinstance(converted, list):
        raise _Refused("its convertedObjects are no list")
    if len(converted) != len(objects):
        counts = f"returned {len(converted)} objects, expected {len(objects)}"
        raise _Refused(f"webhook {counts}")
    for index, (old, new) in enumerate(zip(objects, converted, strict=True)):
        _check_shape(index, new)
        if new.get("apiVersion") != version:
            received = str(new.get("apiVersion"))[:100]
            raise _Refused(
                f"invalid converted object at index {index}: invalid groupVersion "
                f"(expected {version}, received {received})"
            )
        if new.get("kind") != old.get("kind"):
            raise _Refused(f"invalid converted object at index {index}: invalid kind")
        for name in ("name", "namespace", "uid"):
            if meta(new).get(name) != meta(old).get(name):
                raise _Refused(
                    f"invalid metadata of object {meta(old).get('name')}: {name} changed"
                )
        kept = {key: value for key, value in meta(old).items() if key not in _MAY_CHANGE}
        changed = {key: meta(new)[key] for key in _MAY_CHANGE if meta(new).get(key)}
        new["metadata"] = {**kept, **changed}
    return converted


def _check_shape(index: int, new: Any) -> None:
    """Check that a converted object can be used.

    It must be an object, of the size of one, whose metadata are of the types that all the rest
    expects.
    """
    where = f"invalid converted object at index {index}"
    metadata = new.get("metadata") if isinstance(new, dict) else None
    if not isinstance(metadata, dict):
        raise _Refused(f"{where}: it has no metadata")
    for name in _MAY_CHANGE:
        texts = metadata.get(name)
        if texts is not None and not _is_texts(texts):
            raise _Refused(f"{where}: metadata.{name} must be texts by their names")
    try:
        reading.check(new)
    except reading.OutOfBounds as error:
        raise _Refused(f"{where}: {error}") from error
    size = len(msgspec.json.encode(new))
    if size > reading.MAX_BYTES:
        raise _Refused(f"{where}: it has {size} bytes, which is more than {reading.MAX_BYTES}")


def _is_texts(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(one, str) for one in value.values())
