"""Decides which cores each container of a pod runs on: its own, where it asks for whole ones.

Asked once by `container_setup`. The kubelet plans `cores` for the containers of a Guaranteed pod;
here they are dealt from those that Slurm bound the job to, and containers without share what is
left. Where the job is bound to no cores, all containers share all.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from ..plan import Container

OF_JOB = "SLURM_CPUS_ON_NODE"


def bound_cores(environ: Mapping[str, str] = os.environ) -> list[int]:
    """Return the cores of this job; none where it may run on others' too."""
    allowed = sorted(os.sched_getaffinity(0))
    return allowed if str(len(allowed)) == environ.get(OF_JOB) else []


def dealt(containers: Collection[Container], cores: list[int]) -> dict[str, list[int]]:
    """Map containers to their cores; empty where nothing is to be dealt, or not enough is there."""
    # An init container that ends has the whole job: none of the others runs yet.
    together = [one for one in containers if not one.init or one.restart_policy == "Always"]
    wants = {one.name: one.cores for one in together if one.cores}
    if not wants or sum(wants.values()) > len(cores):
        return {}
    left = list(cores)
    found = {}
    for name, count in wants.items():
        found[name], left = left[:count], left[count:]
    shared = {one.name: left for one in together if one.name not in wants}
    return {**found, **(shared if left else {})}


def pinned(body: Callable[[], object], cores: Collection[int]) -> Callable[[], object]:
    """Wrap the body of a child so that it runs on these cores; anywhere if there are none."""
    if not cores:
        return body

    def run() -> object:
        os.sched_setaffinity(0, cores)
        return body()

    return run
