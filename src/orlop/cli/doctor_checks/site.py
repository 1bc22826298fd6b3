"""Asks the site: Slurm, its partitions and accounts, container runtimes.

Called by `doctor`, each for one or more findings. They ask what any user may ask, and submit
nothing.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Iterator

from ...engine import Machine
from ...errors import EngineError, EngineUnavailable
from ...runtime.detect import runtimes as find_runtimes
from ...settings import Paths, Settings
from ...slurm.commands import Commands
from ...slurm.query import detect
from ..control_plane.engines import LOCAL, SLURM, chosen_engine, engine_for
from .findings import Finding, note, ok, problem
from .survey import described

NEEDED = ("sbatch", "squeue", "scancel", "sinfo", "scontrol")
NO_SLURM = "load the site's module (`module load slurm`) or log in to a node that has Slurm"


async def engine(paths: Paths, settings: Settings) -> list[Finding]:
    try:
        name = await chosen_engine(settings, paths)
    except EngineUnavailable as error:
        return [problem("slurmctld", str(error), "`scontrol ping` shows when it is back")]
    if name == LOCAL:
        remedy = f"as wished; if there is a Slurm: {NO_SLURM}"
        return [note("engine", "local: pods run on this very host", remedy)]
    return [finding async for finding in _slurm(paths, settings)]


async def _slurm(paths: Paths, settings: Settings) -> AsyncIterator[Finding]:
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if missing:
        yield problem("slurm", f"not on PATH: {', '.join(missing)}", NO_SLURM)
        return
    commands = Commands.of_process(settings.slurm.command_timeout)
    try:
        facts = await detect.slurm(commands)
    except EngineError as error:
        remedy = "running pods go on; wait, or tell the site's support if it lasts"
        yield problem("slurmctld", str(error), remedy)
        return
    yield ok("slurm", f"{facts.version}, cluster {facts.cluster or 'without a name'}")
    for machine in await engine_for(SLURM, settings, paths).machines():
        yield _partition(machine)
    yield await _accounting(facts, commands)


def _partition(machine: Machine) -> Finding:
    words = described(machine)
    if machine.is_ready and machine.is_schedulable:
        return ok("partition", words)
    remedy = "its pods wait; choose another with the annotation slurm.orlop.dev/partition"
    return note("partition", words, remedy)


async def _accounting(facts: detect.Slurm, commands: Commands) -> Finding:
    if not facts.has_accounting:
        found = f"none: Slurm forgets an ended job after {facts.min_job_age:.0f} s"
        remedy = "keep the control plane running while pods run: it then sees every end itself"
        return note("accounting", found, remedy)
    accounts = [found.account for found in await detect.associations(commands)]
    if not accounts and facts.enforces_accounts:
        remedy = "ask the site for an account; jobs are refused without one"
        return problem("accounting", "you have no account, and this site demands one", remedy)
    return ok("accounting", f"sacct answers; accounts: {', '.join(accounts) or 'none needed'}")


def runtimes(settings: Settings) -> Iterator[Finding]:
    found = find_runtimes(settings.agent)
    for runtime in found:
        yield ok("runtime", str(runtime))
    if not found:
        remedy = (
            "Orlop then makes containers itself, by user namespaces; if compute nodes have a "
            "runtime in a module, load it in `slurm.prologue` of config.yaml"
        )
        yield note("runtime", "neither crun nor apptainer on this host's PATH", remedy)
