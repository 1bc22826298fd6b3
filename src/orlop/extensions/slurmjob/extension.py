"""Brings SlurmJobs, and all other jobs of the user as objects, where the engine is Slurm.

Each controller runs while the kind is ours; the queue is asked for all of them.
"""

from __future__ import annotations

from ...api.aggregated_roles import AggregatedRole
from ...api.dependencies import AwaitedKind
from ...api.objects import Obj
from ...controllers.framework.controller import Runnable
from ..extension import Controllers, Extension, Host
from .controller import Site, SlurmJobs, number_of, phase_of
from .kinds import FAILED, FOLDER, GROUP, SLURM_JOB, SUCCEEDED, USER
from .queue import Queue
from .queue_mirror import ShownJobs


def controllers(host: Host) -> list[Controllers]:
    slurm, settings = host.slurm, host.settings.slurm
    if slurm is None:
        return []
    api = host.client(USER)
    queue = Queue(slurm, busy=settings.busy_tick, idle=settings.idle_tick, clock=host.clock)
    site = Site(slurm, queue, host.paths, settings)

    def jobs() -> list[Runnable]:
        made = SlurmJobs(api, host.informers, site, clock=host.clock)
        host.show_outputs(made.output_of)
        return [made]

    def shown() -> list[Runnable]:
        return [ShownJobs(api, host.informers, slurm, queue, clock=host.clock)]

    needed = (SLURM_JOB.resource,)
    made = [Controllers((), lambda: [queue]), Controllers(needed, jobs)]
    return [*made, Controllers(needed, shown)] if settings.show_queue else made


def has_succeeded(job: Obj) -> bool | None:
    """Return whether a SlurmJob has succeeded; None while it has not ended."""
    return {SUCCEEDED: True, FAILED: False}.get(phase_of(job))


EXTENSION = Extension(
    controllers=controllers,
    needs_slurm=True,
    # What became of jobs; who submits some runs programs as Orlop's user.
    roles=(
        AggregatedRole(
            "system:aggregated-slurm-reader",
            "view",
            GROUP,
            (SLURM_JOB.plural, f"{SLURM_JOB.plural}/status"),
        ),
    ),
    awaited=(AwaitedKind(SLURM_JOB, has_succeeded, number_of),),
    home_folders=(FOLDER,),
)
