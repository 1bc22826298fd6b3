"""Fields that a kind does not have, or that were said twice: refused, warned of, or ignored.

Called by the write verbs with the decoded object, which it brings into upstream's canonical form.
`fieldValidation` decides what becomes of the findings: Strict lists them all in one BadRequest,
Warn (the default) makes a Warning header of each.
"""

from __future__ import annotations

from ...api.objects import Obj
from ...api.reading import OutOfBounds, check
from ...api.schema import strict
from ...errors import BadRequest
from ..registry import Call, Registry

LEVELS = ("Strict", "Warn", "Ignore")


def within_bounds(obj: Obj) -> None:
    """Raise BadRequest where patches or merges have made more of an object than one may be."""
    try:
        check(obj)
    except OutOfBounds as error:
        raise BadRequest(f"the object is too large: {error}") from error


def checked(registry: Registry, call: Call, obj: Obj) -> Obj:
    """Return the object in canonical form, within the bounds of `api.reading`; changed in place."""
    within_bounds(obj)
    unknown = registry.schema.decode(call.kind, obj)
    if call.field_validation == "Ignore" or not (unknown or call.duplicates):
        return obj
    if call.field_validation == "Strict":
        raise strict.strict_error(call.kind, unknown, call.duplicates)
    findings = strict.warnings(unknown, call.duplicates)
    call.warnings += [text for text in findings if text not in call.warnings]
    return obj
