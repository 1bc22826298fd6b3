"""Custom resources on their way between the store and their clients: one object, many versions.

Called by `conversion` for kinds that a definition made. Objects are kept in the storage version of
their time; whoever reads one sees it in the version asked for, pruned and completed by the schema
of today. As apiextensions' conversion and its schema-coercing decoder.
"""

from __future__ import annotations

from ...api.kinds import Kind
from ...api.objects import Obj
from ...api.structural import CustomResource
from ...store import Record


def read(kind: Kind, custom: CustomResource, record: Record) -> Obj:
    """A stored object as clients of `kind` see it; a fresh copy."""
    obj = record.decode()
    obj["apiVersion"] = kind.api_version
    return custom.read(obj)


def write(kind: Kind, custom: CustomResource, obj: Obj) -> Obj:
    """An object of `kind` as it is kept."""
    return {**obj, "apiVersion": f"{kind.group}/{custom.conversion.storage}"}
