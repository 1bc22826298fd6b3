"""Fields that a kind does not have, or that were said twice: refused, warned of, or ignored.

Called by the write verbs with the decoded object, which it brings into upstream's canonical form.
`fieldValidation` decides what becomes of the findings: Strict lists them all in one BadRequest,
Warn (the default) makes a Warning header of each.
"""

from __future__ import annotations

from ..api.objects import Obj
from ..api.schema import strict
from .registry import Call, Registry

LEVELS = ("Strict", "Warn", "Ignore")


def checked(registry: Registry, call: Call, obj: Obj) -> Obj:
    unknown = registry.schema.decode(call.kind, obj)
    if call.field_validation == "Ignore" or not (unknown or call.duplicates):
        return obj
    if call.field_validation == "Strict":
        raise strict.strict_error(call.kind, unknown, call.duplicates)
    findings = strict.warnings(unknown, call.duplicates)
    call.warnings += [text for text in findings if text not in call.warnings]
    return obj
