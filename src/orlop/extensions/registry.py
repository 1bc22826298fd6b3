"""Lists all extensions that need no Slurm: the next one is a folder, and a line here.

Called when the control plane is put together. The kinds of Slurm's own jobs, which share one queue,
are put together in slurmjob/assembly.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from ..client.api import Api
from ..client.clock import Clock
from ..client.informer import Informers
from ..controllers.framework.controller import Runnable
from .bundled import BundledKinds, RunWhileInstalled
from .extension import Extension
from .jobset import controller as jobset
from .leaderworkerset import controller as leaderworkerset
from .mpijob import controller as mpijob
from .podgroup import controller as podgroup
from .pytorchjob import controller as pytorchjob

EXTENSIONS: tuple[Extension, ...] = (
    *mpijob.EXTENSIONS,
    *pytorchjob.EXTENSIONS,
    *jobset.EXTENSIONS,
    *leaderworkerset.EXTENSIONS,
    *podgroup.EXTENSIONS,
)


def controllers(
    api: Api, informers: Informers, *, clock: Clock, without: Iterable[str] = ()
) -> list[Runnable]:
    """Return what installs the definitions, but those named, and what runs while they are ours."""
    installer = BundledKinds(api, informers, clock=clock, without=tuple(without))
    running = [
        RunWhileInstalled(informers, [each.definition], partial(each.make, api, informers, clock))
        for each in EXTENSIONS
    ]
    return [installer, *running]
