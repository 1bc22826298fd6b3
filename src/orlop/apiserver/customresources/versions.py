"""Custom resources on their way between the store and their clients: one object, many versions.

Called by `conversion` for kinds that a definition made. Objects are kept in the storage version of
their time; whoever reads one sees it in the version asked for, pruned and completed by the schema
of today. What a webhook has to convert is asked for beforehand, by `ready`, and then remembered.
As apiextensions' conversion and its schema-coercing decoder.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterable

import msgspec

from ...api.kinds import Kind
from ...api.objects import Obj
from ...api.structural import CustomResource
from ...errors import InternalError
from ...store import Record
from . import webhook

_AT_ONCE = 200  # objects of one review
_REMEMBERED = 10_000
_Key = tuple[CustomResource, bytes]
# By a definition's version and a digest of what is kept: what its webhook made of it.
_converted: OrderedDict[_Key, bytes] = OrderedDict()


def read(kind: Kind, custom: CustomResource, record: Record) -> Obj:
    """A stored object as clients of `kind` see it; a fresh copy."""
    obj = record.decode()
    if obj["apiVersion"] != kind.api_version and custom.conversion.strategy == "Webhook":
        known = _converted.get(_key(custom, record))
        if known is None:
            raise InternalError(
                f"{kind.resource} {record.key} was not converted to {kind.version} beforehand"
            )
        obj = msgspec.json.decode(known)
    obj["apiVersion"] = kind.api_version
    return custom.read(obj)


async def ready(kind: Kind, custom: CustomResource, records: Iterable[Record]) -> None:
    """Have everything converted that `read` will be asked for."""
    if custom.conversion.strategy != "Webhook":
        return
    waiting: dict[_Key, Obj] = {}
    for record in records:
        obj, key = record.decode(), _key(custom, record)
        if obj["apiVersion"] != kind.api_version and key not in _converted:
            waiting[key] = obj
    keys = list(waiting)
    for start in range(0, len(keys), _AT_ONCE):
        some = keys[start : start + _AT_ONCE]
        objects = [waiting[key] for key in some]
        answers = await webhook.convert(kind, custom, objects, kind.api_version)
        for key, answer in zip(some, answers, strict=True):
            _converted[key] = msgspec.json.encode(answer)
    while len(_converted) > max(_REMEMBERED, len(keys)):
        _converted.popitem(last=False)


async def write(kind: Kind, custom: CustomResource, obj: Obj) -> Obj:
    """An object of `kind` as it is kept."""
    version = f"{kind.group}/{custom.conversion.storage}"
    if obj["apiVersion"] != version and custom.conversion.strategy == "Webhook":
        return (await webhook.convert(kind, custom, [obj], version))[0]
    return {**obj, "apiVersion": version}


async def between(kind: Kind, custom: CustomResource, obj: Obj, wanted: Kind) -> Obj:
    """An object of one served version as another one shows it."""
    copy: Obj = msgspec.json.decode(msgspec.json.encode(obj))
    new = (await webhook.convert(kind, custom, [copy], wanted.api_version))[0]
    return new if wanted.custom is None else wanted.custom.read(new)


def _key(custom: CustomResource, record: Record) -> _Key:
    return custom, hashlib.blake2b(record.data, digest_size=16).digest()
