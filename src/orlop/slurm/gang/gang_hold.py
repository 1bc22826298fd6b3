"""Holds the job of a gang while a member is missing, and lets it go when all are there again.

Called where a member leaves a job that waits, and where another takes its place. A held job holds
nothing of Slurm's.
"""

from __future__ import annotations

from ...log import logger
from ..commands import CommandFailed, Commands
from .gang_folder import Gang

log = logger(__name__)

_HELD = "held"  # file of a gang's folder: its job waits for a member that has left


async def hold(commands: Commands, gang: Gang) -> None:
    """Hold the gang's job: it must not start with fewer than all."""
    (gang.folder / _HELD).touch(mode=0o600)
    await _control(commands, "hold", gang.job())


async def release(commands: Commands, gang: Gang) -> None:
    """Release the gang's job, if it was held and all are there."""
    there = sum(not member.has_left for member in gang.members())
    if there >= gang.kept.size and (gang.folder / _HELD).exists():
        await _control(commands, "release", gang.job())
        (gang.folder / _HELD).unlink(missing_ok=True)


async def _control(commands: Commands, verb: str, job: str) -> None:
    try:
        await commands.run("scontrol", verb, job)
    except CommandFailed as error:
        log.info("job is not waiting any more", job=job, verb=verb, error=error)
