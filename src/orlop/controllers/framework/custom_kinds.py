"""The kinds that definitions have made, for controllers that look after objects of every kind.

Used by the garbage collector and the namespace controller. A kind here is just its names, in one
served version; schemas are the API server's business. As upstream's discovery of resources, but
read from the definitions themselves.
"""

from __future__ import annotations

from ...api.kinds import Kind, version_priority
from ...api.objects import Obj
from .status import is_true


def kind_of(definition: Obj) -> Kind | None:
    """Return the kind of an established definition; None where nothing of it is served."""
    status, spec = definition.get("status") or {}, definition["spec"]
    if not is_true(status.get("conditions") or (), "Established"):
        return None
    served = [one for one in spec["versions"] if one.get("served")]
    if not served:
        return None
    names = spec["names"]
    # As it is kept, where that is served: nothing has then to be converted.
    best = max(served, key=lambda one: (bool(one.get("storage")), version_priority(one["name"])))
    return Kind(
        spec["group"],
        best["name"],
        names["kind"],
        names["plural"],
        spec["scope"] == "Namespaced",
        keeps_generation=True,
    )
