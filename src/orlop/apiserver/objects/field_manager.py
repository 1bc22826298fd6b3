"""The field manager of one call: whose write it is, of what shape, and what becomes of the owners.

Called by create and update after defaulting, by apply and scale in place of it. What admission and
the server itself add afterwards belongs to nobody, as upstream has it.
"""

from __future__ import annotations

from ...api.managedfields import conflicts, entries, last_applied, manager
from ...api.managedfields.builtin import Shapes
from ...api.managedfields.write import View, Write
from ...api.objects import Obj, meta
from ..registry import Call, Registry
from .conversion import bucket_of, converted

# Actions upon an object, not writes of it: nobody comes to own what they change.
_UNTRACKED = ("binding", "eviction")


def write_of(registry: Registry, call: Call) -> Write:
    shapes = registry.shapes
    return Write(
        manager=call.manager,
        api_version=call.kind.api_version,
        shape=shapes.of(call.kind, call.subresource),
        now=registry.timestamp(),
        subresource=call.subresource,
        other=lambda version: _view(registry, shapes, call, version),
    )


def _view(registry: Registry, shapes: Shapes, call: Call, api_version: str) -> View | None:
    """Return another version under which the same object is served."""
    kind = registry.kinds.by_kind(api_version, call.kind.kind)
    if kind is None or bucket_of(kind) != bucket_of(call.kind):
        return None
    if kind.custom is not None and kind.custom.conversion.strategy == "Webhook":
        return None  # nobody can be asked from here: ownership stays with the version written
    return View(
        shapes.of(kind, call.subresource),
        lambda obj: converted(call.kind, obj, kind),
        lambda obj: converted(kind, obj, call.kind),
    )


def track(registry: Registry, call: Call, old: Obj | None, new: Obj) -> None:
    """Note in `new` who manages what, after a write that is no apply."""
    if call.subresource not in _UNTRACKED:
        manager.update(write_of(registry, call), old, new)


def applied(write: Write, live: Obj | None, config: Obj, *, force: bool) -> Obj:
    """Apply a configuration to `live` and return the object; Conflict where others own it."""
    try:
        return last_applied.apply_with_last_applied(write, live, config, force=force)
    except conflicts.Conflicts as found:
        raise conflicts.error(found) from found


def is_same(new: Obj, old: Obj) -> bool:
    """Return whether nothing changed but perhaps the times of managed fields."""
    if len(new) != len(old) or _differs(new, old, "metadata"):
        return False
    mine, former = meta(new), meta(old)
    if _differs(mine, former, "managedFields") or _differs(former, mine, "managedFields"):
        return False
    managed, before = mine.get("managedFields"), former.get("managedFields")
    return managed == before or entries.without_times(managed) == entries.without_times(before)


def _differs(one: Obj, other: Obj, but_for: str) -> bool:
    return any(
        name not in other or value != other[name] for name, value in one.items() if name != but_for
    )
