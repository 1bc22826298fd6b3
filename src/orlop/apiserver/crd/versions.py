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

from ...api.crd import CustomResource
from ...api.kinds import Kind
from ...api.objects import Obj
from ...errors import InternalError
from ...store import Record
from . import webhook

_AT_ONCE = 200  # objects of one review
_REMEMBERED = 10_000
_REMEMBERED_BYTES = 128 << 20
_Key = tuple[CustomResource, bytes]


class _Converted:
    """Answers of conversion webhooks, by a definition's version and a digest of what is kept.

    Many small objects or a few large ones, the oldest of which are forgotten first; but never those
    that whoever is adding some is about to read.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[_Key, bytes] = OrderedDict()
        self._size = 0

    def get(self, key: _Key) -> bytes | None:
        return self._kept.get(key)

    def touch(self, key: _Key) -> bool:
        """Return whether the key is kept; if it is, it counts as newly used."""
        if key in self._kept:
            self._kept.move_to_end(key)
        return key in self._kept

    def add(self, key: _Key, data: bytes) -> None:
        self._size += len(data) - len(self._kept.pop(key, b""))
        self._kept[key] = data

    def trim(self, needed: int) -> None:
        while len(self._kept) > needed and (
            len(self._kept) > _REMEMBERED or self._size > _REMEMBERED_BYTES
        ):
            self._size -= len(self._kept.popitem(last=False)[1])


_converted = _Converted()


def read(kind: Kind, custom: CustomResource, record: Record) -> Obj:
    """Return a stored object as clients of `kind` see it; a fresh copy."""
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
    """Convert everything that `read` will be asked for."""
    if custom.conversion.strategy != "Webhook":
        return
    waiting: dict[_Key, Obj] = {}
    needed = 0
    for record in records:
        obj, key = record.decode(), _key(custom, record)
        if obj["apiVersion"] != kind.api_version:
            needed += 1
            if not _converted.touch(key):
                waiting[key] = obj
    keys = list(waiting)
    for start in range(0, len(keys), _AT_ONCE):
        some = keys[start : start + _AT_ONCE]
        objects = [waiting[key] for key in some]
        answers = await webhook.convert(kind, custom, objects, kind.api_version)
        for key, answer in zip(some, answers, strict=True):
            _converted.add(key, msgspec.json.encode(answer))
    _converted.trim(needed)


async def write(kind: Kind, custom: CustomResource, obj: Obj) -> Obj:
    """Return an object of `kind` as it is kept."""
    version = f"{kind.group}/{custom.conversion.storage}"
    if obj["apiVersion"] != version and custom.conversion.strategy == "Webhook":
        return (await webhook.convert(kind, custom, [obj], version))[0]
    return {**obj, "apiVersion": version}


async def between(kind: Kind, custom: CustomResource, obj: Obj, wanted: Kind) -> Obj:
    """Convert an object of one served version to another one."""
    copy: Obj = msgspec.json.decode(msgspec.json.encode(obj))
    new = (await webhook.convert(kind, custom, [copy], wanted.api_version))[0]
    return new if wanted.custom is None else wanted.custom.read(new)


def _key(custom: CustomResource, record: Record) -> _Key:
    return custom, hashlib.blake2b(record.data, digest_size=16).digest()
