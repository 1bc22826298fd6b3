"""Reads annotations of earlier systems, so that their manifests move over unchanged.

Used by `job`; pure. HPK, KNoC and interLink carry raw flags in one annotation, Slinky's
slurm-bridge one annotation per field of its own naming; what has no meaning here is told, not
hidden. A pod is not refused for an annotation that is not ours.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from ... import wellknown
from ...errors import ConfigError
from . import sbatch_options
from .sbatch_options import Option

# slurm-bridge's names -> sbatch's. Fields of the same name are not listed.
_BRIDGE = {
    "constraints": "constraint",
    "cpu-per-task": "cpus-per-task",
    "mem-per-node": "mem",
    "timelimit": "time",  # minutes, as a lone number is to sbatch
}
_BRIDGE_KNOWN = frozenset({
    "account", "exclusive", "gres", "job-name", "licenses", "partition", "priority", "qos",
    "reservation", "wckey", *_BRIDGE,
})  # fmt: skip
_BRIDGE_NODES = ("min-nodes", "max-nodes")


def flags(annotations: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return (annotation, raw flags) of the earlier spellings, in their order in wellknown."""
    return [(name, annotations[name]) for name in wellknown.FLAGS_ALIASES if name in annotations]


def bridge_options(annotations: Mapping[str, str], warnings: list[str]) -> list[Option]:
    """Return options of slurm-bridge's annotations; one without a meaning here adds to
    `warnings`.
    """
    found: list[Option] = []
    nodes: dict[str, str] = {}
    for prefix in wellknown.OPTION_ALIAS_PREFIXES:
        for key, value in sorted(annotations.items()):
            name = key.removeprefix(prefix)
            if name == key:
                continue
            if name in _BRIDGE_NODES:
                nodes[name] = value.strip()
            elif name in _BRIDGE_KNOWN:
                option = sbatch_options.from_annotation(_BRIDGE.get(name, name), value, key)
                found.extend([option] if option else [])
            else:
                warnings.append(f"{key} has no meaning here and is ignored")
    if nodes:
        least, most = nodes.get("min-nodes", "1"), nodes.get("max-nodes")
        found.append(("nodes", f"{least}-{most}" if most and most != least else least))
    return found


def mpi_launcher(annotations: Mapping[str, str], ntasks: int) -> tuple[str, ...]:
    """Return what KNoC's and interLink's mpi-flags put before a container's command; empty for
    none.

    The value `"true"` means that the image starts MPI itself.
    """
    for name in wellknown.MPI_FLAGS_ALIASES:
        if name in annotations:
            text = annotations[name].strip()
            return () if text == "true" else ("mpiexec", "-np", str(ntasks), *_words(text, name))
    return ()


def _words(text: str, where: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise ConfigError(f"{where}: {text!r} cannot be read: {error}") from None
