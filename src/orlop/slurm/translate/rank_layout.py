"""Lays out a rank set's job where other containers of the pod ask for CPUs of their own.

Used by `job`; pure. Slurm knows of tasks that are all alike, and of nothing that runs beside them:
the job asks for CPUs as if they were tasks, and srun is told which of them the ranks are. It
changes nothing where ranks are all that asks for CPUs.
"""

from __future__ import annotations

import math
from copy import deepcopy

from ... import wellknown
from ...api.objects import Obj
from . import resources
from .ranks import Options, RankSet, least, tasks_per_node

# Counted by tasks, so that tasks which are no ranks would be counted, too.
_BY_TASK = (
    "gpus-per-task", "ntasks-per-gpu", "ntasks-per-socket", "ntasks-per-core", "tres-per-task",
    "cpus-per-gpu", "extra-node-info", "sockets-per-node", "cores-per-socket",
)  # fmt: skip
_DISTRIBUTION = ("-m", "--distribution")
_MEMORY = frozenset({"mem", "mem-per-cpu", "mem-per-gpu"})
_TASKS, _CPUS = "--ntasks", "--cpus-per-task"
_NODES = wellknown.SLURM_PREFIX + "nodes"

Variables = dict[str, str]


def add(wanted: Options, asked: Options, pod: Obj, ranks: RankSet) -> tuple[Variables, list[str]]:
    """Make room for the others in `wanted`; return what the agent must tell srun, and warnings.

    What is `asked` for in so many words is not changed for their memory.
    """
    each = least(wanted.get("cpus-per-task") or "") or 1
    tasks = tasks_per_node(wanted)
    is_shared = "overcommit" in wanted  # all ranks of a node then have what one of them asks for
    others = _beside(pod, ranks, each * (1 if is_shared else tasks or 1))
    if not others or "mincpus" in wanted:
        return _uneven(wanted), []
    if "exclusive" in wanted and wanted["exclusive"] is None:
        # All CPUs of a node are the job's: there must only be enough.
        wanted["mincpus"] = str((tasks or 1) * each + others)
        return _uneven(wanted), []
    if is_shared and tasks is None:  # Slurm would take one node, since so many may share it
        wanted["nodes"], tasks = "1", least(wanted.get("ntasks") or "") or 1
    rivals = [name for name in _BY_TASK if name in wanted]
    if tasks is None and (wanted.get("distribution") or _is_arranged(ranks)):
        rivals.append("distribution")
    if rivals:
        return _uneven(wanted), [_shared(others, rivals[0], has_nodes=tasks is not None)]
    if tasks is None:
        spare = math.ceil(others / each)
        memory = _memory(pod, ranks, each, 1 + spare)
        if memory and not asked.keys() & _MEMORY:
            wanted["mem-per-cpu"] = f"{memory}M"
        return _anywhere(wanted, each, spare), []
    return _on_each_node(wanted, each, tasks, others), []


def _beside(pod: Obj, ranks: RankSet, cpus: int) -> int:
    """Return the CPUs that all others on a node need beyond those that its ranks have."""
    copy = deepcopy({"spec": pod["spec"]})
    rank = next(one for one in copy["spec"]["containers"] if one["name"] == ranks.container)
    rank["resources"] = {"requests": {"cpu": str(cpus)}}
    return max(resources.demand(copy).cpus - cpus, 0)


def _on_each_node(wanted: Options, each: int, tasks: int, others: int) -> Variables:
    """Give every node the CPUs of its ranks and of the others, which run on the first alone."""
    words = _of_step(wanted, each)
    cpus = tasks * each + others
    if "overcommit" in wanted:
        del wanted["overcommit"]
        words.append("--overcommit")
        cpus = each + others
    wanted.update({"ntasks": str(_nodes(wanted, tasks) * cpus), "ntasks-per-node": str(cpus)})
    wanted.pop("cpus-per-task", None)
    return _told(words)


def _anywhere(wanted: Options, each: int, spare: int) -> Variables:
    """Ask for more tasks, where Slurm chooses the nodes, and for so many on each node that the
    first, whichever that is, holds the others beside a rank.
    """
    tasks = least(wanted.get("ntasks") or "") or 1
    wanted["ntasks"] = str(tasks)
    words = _of_step(wanted, each)
    wanted["ntasks"] = str(tasks + spare)
    wanted["mincpus"] = str((1 + spare) * each)
    return _told(words) | {wellknown.SPARE_ENV: str(spare)}


def _memory(pod: Obj, ranks: RankSet, each: int, tasks: int) -> int:
    """Return MiB for each CPU: enough for a rank on its own, and for all others beside one on
    `tasks`.
    """
    rank = next(one for one in pod["spec"]["containers"] if one["name"] == ranks.container)
    alone = resources.demand({"spec": {"containers": [rank]}}).memory_mib
    return max(math.ceil(alone / each), math.ceil(resources.demand(pod).memory_mib / each / tasks))


def _of_step(wanted: Options, each: int) -> list[str]:
    """Return the tasks that the pod asked for, in srun's words."""
    tasks, per_node = least(wanted.get("ntasks") or ""), least(wanted.get("ntasks-per-node") or "")
    words = [f"{_TASKS}={tasks}"] if tasks else [f"--ntasks-per-node={per_node or 1}"]
    # srun spreads ranks evenly, and warns of a number that does not come out even.
    if tasks and per_node and _is_even(wanted, tasks, per_node):
        words.append(f"--ntasks-per-node={per_node}")
    return [*words, f"{_CPUS}={each}"]


def _told(words: list[str]) -> Variables:
    """Return what the agent is told; and what the other containers would be told without all
    this.
    """
    numbers = dict(word.split("=") for word in words if "=" in word)
    found = {wellknown.RANKS_ENV: " ".join(words), "SLURM_CPUS_PER_TASK": numbers[_CPUS]}
    return found | ({"SLURM_NTASKS": numbers[_TASKS]} if _TASKS in numbers else {})


def _uneven(wanted: Options) -> Variables:
    """Return what keeps srun from warning, in the container's log, of tasks per node that do not
    come out even.
    """
    tasks, per_node = least(wanted.get("ntasks") or ""), least(wanted.get("ntasks-per-node") or "")
    if not (tasks and per_node and wanted.get("nodes")):
        return {}
    if _is_even(wanted, tasks, per_node):
        return {}
    cpus = wanted.get("cpus-per-task")
    words = [f"{_TASKS}={tasks}", *([f"{_CPUS}={cpus}"] if cpus else [])]
    return {wellknown.RANKS_ENV: " ".join(words)}


def _is_even(wanted: Options, tasks: int, per_node: int) -> bool:
    """Return whether tasks come out even, on whichever number of nodes Slurm chooses, where it may
    choose.
    """
    has_choice = not (wanted.get("nodes") or "1").strip().isdecimal()
    return not has_choice and tasks == per_node * _nodes(wanted, per_node)


def _nodes(wanted: Options, per_node: int) -> int:
    tasks = least(wanted.get("ntasks") or "")
    nodes = least(wanted.get("nodes") or "")
    return min(nodes, tasks or nodes) if nodes else math.ceil((tasks or 1) / per_node)


def _is_arranged(ranks: RankSet) -> bool:
    return any(word.partition("=")[0] in _DISTRIBUTION for word in ranks.flags)


def _shared(others: int, rival: str, *, has_nodes: bool) -> str:
    what = f"{others} CPUs that containers beside the ranks ask for are not in the job"
    remedy = "ask for more cpus-per-task" + ("" if has_nodes else f", or say {_NODES}")
    return f"{what}: with --{rival} Slurm cannot be asked for them; {remedy}"
