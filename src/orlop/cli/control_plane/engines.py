"""Chooses which engine a home uses, and makes that engine ready for it.

Called by `up`, `serve`, `status`, `doctor` and `down`. An engine once used stays the home's engine,
because its pods live there; it does not change without the user's knowledge.
"""

from __future__ import annotations

import uuid

from ...engine import Engine
from ...errors import ConfigError, EngineUnavailable
from ...files import write_private
from ...settings import Paths, Settings
from ..home import record

SLURM, LOCAL = "slurm", "local"


def known_engine(settings: Settings, paths: Paths) -> str:
    """Return the one asked for, else the one this home has used; empty if there is neither."""
    last = record.read(paths)
    return settings.engine or (last.engine if last is not None else "")


async def chosen_engine(settings: Settings, paths: Paths) -> str:
    """Return Slurm where there is one, else this host itself.

    A Slurm that is there but silent is no reason to run pods on a login node: it raises then.
    """
    known = known_engine(settings, paths)
    if known:
        return known
    from ...slurm.commands import Commands
    from ...slurm.query import detect

    try:
        await detect.slurm(Commands.of_process(settings.slurm.command_timeout))
    except EngineUnavailable as error:
        if _is_absent(str(error)):
            return LOCAL
        remedy = "wait for it, or run pods on this host with `orlop up --engine local`"
        raise EngineUnavailable(
            f"Slurm is installed but does not answer: {error}; {remedy}"
        ) from error
    return SLURM


def _is_absent(words: str) -> bool:
    """Return whether Slurm is not in use here: no commands, or none with a configuration."""
    return "is not in PATH" in words or "slurm.conf is found" in words


def engine_for(name: str, settings: Settings, paths: Paths) -> Engine:
    """Return the engine of that name, for this home's cluster."""
    if name == SLURM:
        from ...slurm.commands import Commands
        from ...slurm.jobs import SlurmEngine

        commands = Commands.of_process(settings.slurm.command_timeout)
        return SlurmEngine(settings, paths, cluster_uid(paths), commands)
    if name == LOCAL:
        from ...engine.local import LocalEngine

        return LocalEngine(paths)
    raise ConfigError(f"the engine {name!r} is not known; it is `slurm` or `local`")


def cluster_uid(paths: Paths) -> str:
    """Return the id of this cluster; empty before its first start."""
    try:
        return paths.cluster_uid.read_text().strip()
    except FileNotFoundError:
        return ""


def ensure_cluster_uid(paths: Paths) -> str:
    """Return the id; it is made once, and kept even if the database is lost."""
    if not cluster_uid(paths):
        write_private(paths.cluster_uid, f"{uuid.uuid4()}\n")
    return cluster_uid(paths)
