"""Conversion by webhook: asks whoever wrote a definition to turn its objects into another version.

Called by `versions` with objects that are not in the version asked for. It sends a ConversionReview
and believes the answer only where names, uid and the rest of the metadata are unchanged. As
apiextensions' conversion/webhook_converter.go, in its words.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import ssl
import uuid
from collections.abc import Sequence
from typing import Any

import aiohttp
import msgspec

from ...api.kinds import Kind
from ...api.objects import Obj, meta
from ...errors import InternalError

_TIMEOUT = 30.0  # seconds, as upstream's
_MOST = 64 * 1024 * 1024  # bytes of an answer
_MAY_CHANGE = ("labels", "annotations")


async def convert(kind: Kind, webhook: Obj, objects: Sequence[Obj], version: str) -> list[Obj]:
    """The objects in another version (`group/version`); InternalError where that fails."""
    try:
        answer = await _ask(webhook, list(objects), version)
        return _checked(objects, answer, version)
    except (_Refused, aiohttp.ClientError, TimeoutError, OSError, msgspec.DecodeError) as error:
        why = str(error) or type(error).__name__
        title = f"{kind.api_version}, Kind={kind.kind}"
        raise InternalError(f"conversion webhook for {title} failed: {why}") from error


class _Refused(Exception):
    """The webhook's answer cannot be used; the message says why."""


async def _ask(webhook: Obj, objects: list[Obj], version: str) -> Obj:
    client = webhook.get("clientConfig") or {}
    uid = str(uuid.uuid4())
    versions = webhook.get("conversionReviewVersions") or ["v1"]
    review = next(one for one in versions if one in ("v1", "v1beta1"))
    body = {
        "kind": "ConversionReview",
        "apiVersion": f"apiextensions.k8s.io/{review}",
        "request": {"uid": uid, "desiredAPIVersion": version, "objects": objects},
    }
    response = (await _post(_url(client), _tls(client), body)).get("response") or {}
    if response.get("uid") != uid:
        raise _Refused(f'expected response.uid="{uid}", got "{response.get("uid", "")}"')
    result = response.get("result") or {}
    if result.get("status") != "Success":
        raise _Refused(result.get("message") or f"its answer has status {result.get('status')!r}")
    return response


async def _post(url: str, tls: ssl.SSLContext, body: Obj) -> Obj:
    timeout = aiohttp.ClientTimeout(total=_TIMEOUT)
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    async with (
        asyncio.timeout(_TIMEOUT),
        aiohttp.ClientSession(timeout=timeout) as session,
        session.post(url, data=msgspec.json.encode(body), headers=headers, ssl=tls) as reply,
    ):
        if reply.status != 200:
            text = (await reply.text())[:200]
            raise _Refused(f"the server answered {reply.status}: {text}")
        data = await reply.content.read(_MOST)
        answer: Any = msgspec.json.decode(data)
    if not isinstance(answer, dict):
        raise _Refused("its answer is no ConversionReview")
    return answer


def _url(client: Obj) -> str:
    url: str | None = client.get("url")
    if url is not None:
        return url
    service = client.get("service") or {}
    where = f"{service.get('name')}.{service.get('namespace')}.svc:{service.get('port', 443)}"
    raise _Refused(
        f"service {where} cannot be reached: the control plane is not in the pods' network yet; "
        "give the webhook's clientConfig a url instead"
    )


def _tls(client: Obj) -> ssl.SSLContext:
    bundle = client.get("caBundle")
    if not bundle:
        return ssl.create_default_context()
    try:
        return ssl.create_default_context(cadata=base64.b64decode(bundle).decode())
    except (binascii.Error, ValueError, ssl.SSLError) as error:
        raise _Refused(f"its caBundle holds no certificate: {error}") from error


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
