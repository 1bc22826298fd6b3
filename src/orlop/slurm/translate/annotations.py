"""Reads what annotations say in Slurm's words: options of sbatch, wherever the annotations are.

Used by `job` for pods and by `policy` for namespaces and priority classes; pure. Raw flags are
weaker than single options, and annotations of earlier systems weaker than ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ... import wellknown
from . import aliases, sbatch_options

Options = dict[str, str | None]

# Options of srun, which are given to the job's environment.
OF_SRUN = {
    wellknown.SLURM_PREFIX + "mpi": "SLURM_MPI_TYPE",
    wellknown.SLURM_PREFIX + "cpu-bind": "SLURM_CPU_BIND",
}
# Written by Orlop under the same prefix, or not meant for sbatch.
_NOT_OPTIONS = {
    wellknown.FLAGS,
    wellknown.JOB_ID,
    wellknown.NODE_LIST,
    wellknown.HOSTS,
    wellknown.END_TIME,
    wellknown.EXPIRING,
    wellknown.REPLACE,
    wellknown.ON_TIMEOUT,
    wellknown.RESTART_COUNT,
    wellknown.DISTRIBUTED,
    wellknown.DISTRIBUTED_PORT,
    wellknown.GANG,
    wellknown.GANG_SIZE,
    wellknown.GANG_ROOM,
    wellknown.MPI_CONTAINER,
    wellknown.LABEL,
    wellknown.SRUN_FLAGS,
    wellknown.MAX_TIME,
    wellknown.MAX_NODES,
    wellknown.MIRROR_QUOTA,
    *OF_SRUN,
}


def from_annotations(annotations: Mapping[str, str], warnings: list[str]) -> Options:
    found: Options = {}
    raw = aliases.flags(annotations)
    if wellknown.FLAGS in annotations:
        raw.append((wellknown.FLAGS, annotations[wellknown.FLAGS]))
    for where, text in raw:
        found |= without_ignored(sbatch_options.from_flags(text, where), warnings)
    found |= without_ignored(aliases.bridge_options(annotations, warnings), warnings)
    for key, value in sorted(annotations.items()):
        name = key.removeprefix(wellknown.SLURM_PREFIX)
        if name == key or key in _NOT_OPTIONS:
            continue
        option = sbatch_options.from_annotation(name, value, key)
        if option is None:
            found.pop(name, None)
        else:
            found |= without_ignored([option], warnings)
    return found


def without_ignored(found: Iterable[sbatch_options.Option], warnings: list[str]) -> Options:
    kept: Options = {}
    for name, value in found:
        if name in sbatch_options.IGNORED:
            warnings.append(f"--{name} is ignored: {sbatch_options.IGNORED[name]}")
        else:
            kept[name] = value
    return kept
