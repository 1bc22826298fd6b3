"""The short answers of subresources that have no object to show.

Used by binding and eviction. Nothing here fails.
"""

from __future__ import annotations

from ...api.objects import Obj


def created() -> Obj:
    """Make the metav1.Status of an action that was done."""
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
