"""Checks what else must hold before a write: a chain of small plugins, mutating ones first.

Called by the write verbs after defaulting. A plugin changes the object it is given, or refuses it
with an ApiError; none of them writes.
"""

from .chain import Admission, Attributes, Operation, Plugin
from .plugins import Means, standard

__all__ = ["Admission", "Attributes", "Means", "Operation", "Plugin", "standard"]
