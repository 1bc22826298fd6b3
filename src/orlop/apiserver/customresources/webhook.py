"""Conversion by webhook: asks whoever wrote a definition to turn its objects into another version.

Called by `versions` with objects that are not in the version asked for. It sends a ConversionReview
and believes the answer only where names, uid and the rest of the metadata are unchanged. As
apiextensions' conversion/webhook_converter.go, in its words.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import cast

from ...api.kinds import Kind
from ...api.objects import Obj, meta
from ...api.structural import CustomResource
from ...errors import InternalError
from ..webhook_client import CallFailed, WebhookClient, target_of

_TIMEOUT = 30.0  # seconds, as upstream's
_MAY_CHANGE = ("labels", "annotations")


async def convert(
    kind: Kind, custom: CustomResource, objects: Sequence[Obj], version: str
) -> list[Obj]:
    """The objects in another version (`group/version`); InternalError where that fails."""
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
    response = (await client.ask(target, body, timeout=_TIMEOUT)).get("response") or {}
    if response.get("uid") != uid:
        raise _Refused(f'expected response.uid="{uid}", got "{response.get("uid", "")}"')
    result = response.get("result") or {}
    if result.get("status") != "Success":
        raise _Refused(result.get("message") or f"its answer has status {result.get('status')!r}")
    return cast("Obj", response)


def _checked(objects: Sequence[Obj], response: Obj, version: str) -> list[Obj]:
    converted = response.get("convertedObjects") or []
    if len(converted) != len(objects):
        expected, found = len(objects), len(converted)
        raise _Refused(f"webhook returned {found} objects, expected {expected}")
    for index, (old, new) in enumerate(zip(objects, converted, strict=True)):
        if new.get("apiVersion") != version:
            found = new.get("apiVersion")
            raise _Refused(
                f"invalid converted object at index {index}: invalid groupVersion "
                f"(expected {version}, received {found})"
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
    return list(converted)
