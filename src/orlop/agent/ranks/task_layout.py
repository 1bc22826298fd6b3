"""Says which of a job's tasks are ranks, where some stand for other containers' CPUs.

Asked by the leader as it starts srun. The job's script says how many there are, and srun spreads
them evenly; where Slurm has chosen the nodes, the CPUs that are not for ranks are left free on the
first, where the other containers are. It asks for no more than the job has.
"""

from __future__ import annotations

import os

from ...wellknown import RANKS_ENV, SPARE_ENV
from ..container.runtimes import find
from ..linux.process import run_quickly
from ..pod.gang import counts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import MutableMapping

# What the job asked for is not what srun shall do.
_OF_JOB = ("SLURM_NTASKS", "SLURM_NPROCS", "SLURM_NTASKS_PER_NODE", "SLURM_TASKS_PER_NODE")


def of_ranks(environ: MutableMapping[str, str], folder: str) -> list[str]:
    """Return options for srun, and remove variables from its environment that contradict them."""
    for name in _OF_JOB:
        environ.pop(name, None)
    words = environ[RANKS_ENV].split()
    spare = int(environ.get(SPARE_ENV) or 0)
    if not spare:
        return words
    code, text = run_quickly(
        [find(["scontrol"]) or "scontrol", "show", "hostnames", environ["SLURM_JOB_NODELIST"]]
    )
    if code:
        raise OSError(f"Slurm does not tell the nodes of the job: {text.strip()}")
    numbers = {name: int(value) for name, _, value in (word.partition("=") for word in words)}
    each = numbers["--cpus-per-task"]
    rooms = [cpus // each for cpus in counts(environ["SLURM_JOB_CPUS_PER_NODE"])]
    path = os.path.join(folder, "places")
    with open(path, "w") as file:
        file.write("\n".join(places(text.split(), rooms, spare, numbers["--ntasks"])) + "\n")
    environ["SLURM_HOSTFILE"] = path
    return [*words, "--distribution=arbitrary"]


def places(hosts: list[str], rooms: list[int], spare: int, tasks: int) -> list[str]:
    """Return the node of each rank, node after node; on the first, `spare` are left out."""
    found: list[str] = []
    for host, room in zip(hosts, rooms):  # noqa: B905
        found += [host] * (room if found else max(room - spare, 1))
    return found[:tasks]
