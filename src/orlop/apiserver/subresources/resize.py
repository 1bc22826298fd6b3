"""resize: other resources for a pod that runs, which a job of a batch system cannot have.

Called for PUT and PATCH on `pods/<name>/resize`, by `kubectl patch --subresource resize` and by
vertical autoscalers. It always refuses, and says what to do instead.
"""

from __future__ import annotations

from ...api.validation import invalid
from ...api.validation.errors import forbidden
from ...errors import Invalid
from ..registry import Call, Registry

WORDS = (
    "a pod's resources are those of its Slurm job, which cannot change while it exists; make the "
    "pod anew with other requests and limits"
)


def refuse_resize(registry: Registry, call: Call) -> Invalid:
    """Return the error to raise: Invalid with the remedy; NotFound if there is no such pod."""
    registry.find(call)
    return invalid(call.kind, call.name, [forbidden("spec.containers[*].resources", WORDS)])
