"""Says what a kind adds to the cluster roles admin, edit and view.

Brought by extensions, and made into roles when a cluster's first objects are made. Data; nothing is
decided.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class AggregatedRole:
    """A cluster role that is summed into another: several of one name are one role."""

    name: str  # `system:aggregated-…`, which is summed after upstream's own
    adds_to: Literal["admin", "edit", "view"]
    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...] = ("get", "list", "watch")
