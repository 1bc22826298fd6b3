"""Records who asked for what, and what came of it: an audit log in upstream's format, by a policy.

`Auditor` is asked by the handler for every request that has a user; without one nothing is kept.
"""

from .log import AuditLog
from .policy import AuditPolicy, load_policy
from .trail import ANNOTATIONS, Auditor, Trail

__all__ = ["ANNOTATIONS", "AuditLog", "AuditPolicy", "Auditor", "Trail", "load_policy"]
