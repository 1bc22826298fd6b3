"""Tells what counts against a ResourceQuota, and which objects a quota is about.

Used by admission, which charges, and by the quota controller, which counts anew. Pure. As
pkg/quota/v1/evaluator/core.
"""

from .scopes import matches
from .usage import KINDS_WITH_USAGE, charged_on_update, constraint, resources_of, usage

__all__ = [
    "KINDS_WITH_USAGE",
    "charged_on_update",
    "constraint",
    "matches",
    "resources_of",
    "usage",
]
