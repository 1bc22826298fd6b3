"""Asks admission about what is posted to a subresource, or connected to.

Used by subresources whose body is no object of their resource: a Binding, an Eviction, a
TokenRequest, the options of a connection. What such a request then does to the object itself was
admitted with it and is not asked about again.
"""

from __future__ import annotations

from dataclasses import replace

from ...api.objects import Obj
from ..admission import Operation
from ..registry import Call, Registry

Type = tuple[str, str, str]


async def admit(
    registry: Registry, call: Call, body: Obj, of: Type, operation: Operation = "CREATE"
) -> None:
    """Let admission change or refuse `body`, which is of the type `of`."""
    attributes = replace(call.attributes(operation, body, None), object_kind=of)
    await registry.admission.admit(attributes)
    await registry.admission.validate(attributes)
    call.is_admitted = True
