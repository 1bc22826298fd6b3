"""The Pod Security Standards: what a pod may do at each level, in upstream's words.

Used by admission. Pure. As k8s.io/pod-security-admission/policy.
"""

from .levels import LEVELS, PREFIX, PodSecurityLevels, Standard, levels_of, stricter
from .standards import violations

__all__ = [
    "LEVELS",
    "PREFIX",
    "PodSecurityLevels",
    "Standard",
    "levels_of",
    "stricter",
    "violations",
]
