"""Brings PodGroups: that of scheduling.x-k8s.io, and the built-in one beside its Workload.

The original API server has the built-in kinds itself, where it has any at all; pods that name them
are gangs all the same.
"""

from __future__ import annotations

from ..extension import Extension, controllers_of
from .controller import BuiltInPodGroups, PodGroups
from .groups import BUILT_IN_DEFINITIONS, GANGS

EXTENSION = Extension(
    controllers=controllers_of(PodGroups, BuiltInPodGroups),
    built_in_upstream=BUILT_IN_DEFINITIONS,
    gangs=GANGS,
)
