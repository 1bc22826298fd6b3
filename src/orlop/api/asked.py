"""Lists the annotations of a pod that ask something of Orlop, and so are like fields of its spec.

Used by the strategies and by pod security: who may write a pod's status, or bind it, must not have
it run in another way. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping

from .. import wellknown

_NAMES = frozenset(
    (
        *(wellknown.MIRROR, wellknown.RUNTIME_ANNOTATION, wellknown.GROUP, wellknown.PRE_EXEC),
        *wellknown.FLAGS_ALIASES,
        *wellknown.MPI_FLAGS_ALIASES,
    )
)
_PREFIXES = (wellknown.SLURM_PREFIX, *wellknown.OPTION_ALIAS_PREFIXES)


def is_asked(name: str) -> bool:
    return name in _NAMES or (name.startswith(_PREFIXES) and name not in wellknown.WRITTEN_BACK)


def asked(annotations: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in annotations.items() if is_asked(name)}
