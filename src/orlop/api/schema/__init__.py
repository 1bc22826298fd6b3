"""The types of every built-in kind: fields, their types, how they merge, what they mean.

`load` gives the Schema the API server decodes with; it is built from the installed model package
once and then kept by the caller in a compact form. Custom resources bring their own.
"""

from __future__ import annotations

from .model import FieldType, Schema, StructType
from .source import build, fingerprint

__all__ = ["FieldType", "Schema", "StructType", "build", "fingerprint", "load"]


def load(cached: bytes | None) -> Schema:
    """Load the schema from what `Schema.dumps` gave earlier; build it anew where that is outdated.

    `Schema.is_fresh` then says whether the caller should keep its `dumps()` for the next start.
    """
    if cached is not None:
        schema = Schema.loads(cached)
        if schema is not None and schema.fingerprint == fingerprint():
            return schema
    return build()
