"""Finds pods whose main container runs once for every task of their job, and what they ask for.

Used by `job` and by the kubelet's plan; pure. A pod is one by its own `slurm.orlop.dev/` options;
the raw flags of earlier systems, where a container ran once whatever they said, make none. What
a container asks for is what each of its ranks gets.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass

from ... import wellknown
from ...api.gangs import mark_of
from ...api.objects import Obj, annotations_of
from ...errors import ConfigError
from .. import numbers
from . import gres, placement, resources, sbatch_options
from .annotations import from_annotations

Options = dict[str, str | None]

SHAPE = ("ntasks", "nodes", "ntasks-per-node")
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class RankSet:
    container: str
    mpi: str = ""  # srun's --mpi; empty: to be found out
    is_labelled: bool = False
    flags: tuple[str, ...] = ()  # further options of srun's
    gpus: int = 0  # of each rank; 0: those of its node are all ranks'
    launches: bool = False  # it runs once, and what it calls srun starts tasks on every node

    def planned(self, mpi: str) -> Obj:
        """Return the rank set as the plan has it."""
        return {
            "container": self.container,
            "mpi": self.mpi or mpi,
            "label": self.is_labelled,
            "flags": list(self.flags),
            **({"gpus": self.gpus} if self.gpus else {}),
            **({"launches": True} if self.launches else {}),
        }


def rank_set(pod: Obj) -> RankSet | None:
    """Return the rank set of a pod; None where containers run once each. Raise ConfigError for
    words that make no sense.
    """
    annotations = annotations_of(pod)
    if not pod["spec"].get("containers"):
        return None
    mpi = annotations.get(wellknown.MPI, "").strip()
    if mark_of(pod) is not None:  # a member of a gang, whose pods are single tasks
        return None
    if mpi == wellknown.MPI_IN_CONTAINER or _has_mpi_flags(annotations):
        return _launcher(pod, annotations)
    if not mpi and not any(least(value) > 1 for value in _shape(annotations).values()):
        return None
    flags = _words(annotations.get(wellknown.SRUN_FLAGS, ""))
    label = annotations.get(wellknown.LABEL, "").strip().lower() in ("true", "yes")
    name = _container(pod, annotations)
    return RankSet(name, mpi, label, flags, _gpus(pod, name, annotations))


def has_hook(pod: Obj) -> bool:
    """Return whether something is to be done before its ranks are told to end."""
    found = rank_set(pod)
    containers = pod["spec"]["containers"] if found is not None else []
    main = [one for one in containers if found is not None and one["name"] == found.container]
    return any((one.get("lifecycle") or {}).get("preStop") for one in main)


def _launcher(pod: Obj, annotations: Mapping[str, str]) -> RankSet | None:
    """Return the rank set of an image that has no srun of the site's, for tasks on several
    nodes.
    """
    name = _container(pod, annotations)
    image = next(one for one in pod["spec"]["containers"] if one["name"] == name).get("image")
    is_host = wellknown.HOST_IMAGE in (image, annotations.get(wellknown.RUNTIME_ANNOTATION))
    nodes = from_annotations(annotations, []).get("nodes") or ""
    return None if is_host or least(nodes) < 2 else RankSet(name, mpi="none", launches=True)


def _has_mpi_flags(annotations: Mapping[str, str]) -> bool:
    """Return whether an earlier system's annotation is there: mpiexec in the container starts what
    there is to start.
    """
    return any(name in annotations for name in wellknown.MPI_FLAGS_ALIASES)


def _shape(annotations: Mapping[str, str]) -> dict[str, str]:
    flags = sbatch_options.from_flags(annotations.get(wellknown.FLAGS, ""), wellknown.FLAGS)
    found = {name: value or "" for name, value in flags if name in SHAPE}
    for name in SHAPE:
        if wellknown.SLURM_PREFIX + name in annotations:
            found[name] = annotations[wellknown.SLURM_PREFIX + name]
    return found


def _container(pod: Obj, annotations: Mapping[str, str]) -> str:
    names = [str(one["name"]) for one in pod["spec"]["containers"]]
    asked = annotations.get(wellknown.MPI_CONTAINER, "").strip()
    if asked and asked not in names:
        expected = f"expected one of {', '.join(names)}"
        raise ConfigError(f"{wellknown.MPI_CONTAINER}: {expected}, found {asked!r}")
    return asked or names[0]


def _gpus(pod: Obj, name: str, annotations: Mapping[str, str]) -> int:
    """Return how many GPUs each rank asks for by resources; those asked for in Slurm's words are
    dealt out by Slurm.
    """
    asked = from_annotations(annotations, [])
    if any(option in asked for option in placement.GPU_OPTIONS) or "gpu" in (
        placement.gres_names(asked.get("gres"))
    ):
        return 0
    container = next(one for one in pod["spec"]["containers"] if one["name"] == name)
    amounts = resources.amounts({"spec": {"containers": [container]}})
    kinds = {resource: gres.wanted(resource, ()) for resource in amounts}
    of_gpus = [amounts[resource] for resource, one in kinds.items() if one and one.name == "gpu"]
    return math.ceil(sum(of_gpus) / 1000)


def _words(text: str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise ConfigError(f"{wellknown.SRUN_FLAGS}: {text!r} cannot be read: {error}") from None
    if words and not words[0].startswith("-"):
        expected = "expected options such as --distribution=cyclic"
        raise ConfigError(f"{wellknown.SRUN_FLAGS}: {expected}, found {words[0]!r}")
    return words


def least(value: str) -> int:
    """Return the least number of `4`, `2-8` or `2-8:2`; sbatch judges all else."""
    return numbers.leading(value.lstrip())


def requests(pod: Obj, ranks: RankSet, asked: Options) -> Options:
    """Return CPUs, memory and tasks of the job, from what one rank and the pod's other containers
    ask.

    Slurm gives every node the same, so that the others are counted on each. Where it is left to
    Slurm how many tasks a node has, memory goes with CPUs, and the others are counted with each.
    """
    rank = next(one for one in pod["spec"]["containers"] if one["name"] == ranks.container)
    one = resources.demand({"spec": {"containers": [rank]}})
    found: Options = {"cpus-per-task": str(one.cpus)} if one.cpus else {}
    tasks = tasks_per_node(asked)
    if tasks is None:
        memory = resources.demand(pod).memory_mib
        per_cpu = math.ceil(memory / (least(asked.get("cpus-per-task") or "") or one.cpus or 1))
        return found | ({"mem-per-cpu": f"{per_cpu}M"} if memory else {})
    # With --overcommit Slurm would want as many CPUs for it as if they were not shared.
    if tasks > 1 and "ntasks-per-node" not in asked and "overcommit" not in asked:
        found["ntasks-per-node"] = str(tasks)
    memory = resources.demand(of_node(pod, ranks, asked)).memory_mib
    return found | ({"mem": f"{memory}M"} if memory else {})


def tasks_per_node(asked: Options) -> int | None:
    """Return the most tasks that a node has; None where it is left to Slurm."""
    if asked.get("ntasks-per-node"):
        return least(asked["ntasks-per-node"] or "") or None
    nodes = least(asked.get("nodes") or "")
    if not nodes:
        return None
    return math.ceil((least(asked.get("ntasks") or "") or nodes) / nodes)


def are_spread_by_slurm(asked: Options) -> bool:
    """Return whether so many tasks are asked for, on as many nodes as Slurm likes."""
    return bool(asked.get("ntasks")) and tasks_per_node(asked) is None


def tasks(asked: Options) -> int:
    """Return the tasks of the whole job, as SLURM_NTASKS will have it."""
    nodes = least(asked.get("nodes") or "") or 1
    per_node = least(asked.get("ntasks-per-node") or "") or 1
    return least(asked.get("ntasks") or "") or nodes * per_node


def of_node(pod: Obj, ranks: RankSet, asked: Options) -> Obj:
    """Return the pod as one node sees it: its rank container asks for all ranks that are there."""
    tasks = tasks_per_node(asked)
    if tasks is None or tasks < 2:
        return pod
    copy = deepcopy({"spec": pod["spec"], "metadata": pod.get("metadata") or {}})
    rank = next(one for one in copy["spec"]["containers"] if one["name"] == ranks.container)
    amounts = resources.amounts({"spec": {"containers": [rank]}})
    rank["resources"] = {
        "requests": {name: f"{amount * tasks}m" for name, amount in amounts.items()}
    }
    return copy
