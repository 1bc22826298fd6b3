"""`orlop down`: stops the control plane; with --purge also ends its pods and removes its folder.

Called by people. Without --purge nothing is lost: pods run on, and the next `up` finds them. With
it, consent is asked for, and only files of ours are removed, whatever ORLOP_HOME was set to.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from ... import wellknown
from ...engine import Engine
from ...errors import ConfigError, EngineUnavailable, HomeInUse
from ...extensions.registry import home_folders
from ...settings import Paths, Settings, home_from_env, load
from ...slurm.jobs import SlurmEngine
from ..control_plane import in_job, launch
from ..control_plane.engines import engine_for, known_engine
from ..home.home_lock import resident
from ..home.record import Record

GRACE = 30.0  # seconds for the control plane to end in order
JOBS_GRACE = 60.0  # and for cancelled jobs to leave the queue

# All that Orlop ever makes in its home, beside what extensions keep there, and the database and its
# companions, `state.*`.
OURS = (
    wellknown.CONFIG_FILE,
    wellknown.KUBECONFIG_FILE,
    "cluster-uid",
    "etcd",
    "images",
    "log",
    "pki",
    "arrays",
    "gangs",
    "pods",
    "run",
    "volumes",
)


@click.command("down")
@click.option("--purge", is_flag=True, help="Also end all pods and delete the folder.")
@click.option("--yes", is_flag=True, help="With --purge: do not ask.")
def command(purge: bool, yes: bool) -> None:
    """Stop the control plane; pods run on."""
    paths = home_from_env()
    if purge:
        if not paths.cluster_uid.exists():
            raise ConfigError(f"{paths.home} is no home of Orlop's; set ORLOP_HOME to one")
        if not yes:
            click.confirm(f"End all pods and delete {paths.home}?", abort=True)
    settings = load(paths)
    stop(paths, settings)
    if purge:
        asyncio.run(end_jobs(paths, settings))
        remove(paths)


def stop(paths: Paths, settings: Settings) -> None:
    running = resident(paths)
    if running is None:
        waiting = in_job.cancel_all(paths, settings)
        if waiting:
            click.echo(f"took the control plane's job out of the queue: {', '.join(waiting)}")
        else:
            click.echo("Orlop is not running")
        return
    if not end(running, settings, paths):
        text = f"the control plane on {running} did not end within {GRACE:.0f} s"
        raise HomeInUse(f"{text}; see {paths.log_file}, or end it with `kill -9 {running.pid}`")
    click.echo(f"stopped the control plane on {running}")
    in_job.cancel_all(paths, settings)


def end(running: Record, settings: Settings, paths: Paths) -> bool:
    if running.job:
        return in_job.stop(running, settings, paths, GRACE)
    if not running.is_of_this_host:
        remedy = f"run `ssh {running.host} orlop down`"
        raise HomeInUse(f"the control plane runs on {running}, not on this host: {remedy}")
    return launch.stop(running, GRACE)


async def end_jobs(paths: Paths, settings: Settings) -> None:
    """Cancel every job of this cluster and wait until they are gone, so that none writes on."""
    name = known_engine(settings, paths)
    if not name:
        return
    engine = engine_for(name, settings, paths)
    count = 0
    deadline = time.monotonic() + JOBS_GRACE
    while jobs := await living(engine):
        if time.monotonic() > deadline:
            raise EngineUnavailable(f"{len(jobs)} jobs have not ended; try again in a while")
        for job in jobs:
            await engine.cancel(job)
        count = max(count, len(jobs))
        await asyncio.sleep(0.5)  # Slurm has no way to be waited for
    if count:
        click.echo(f"ended {count} {'job' if count == 1 else 'jobs'}")


async def living(engine: Engine) -> list[Any]:
    """Return jobs of pods and of SlurmJobs that have not ended."""
    of_pods = [id for id, job in (await engine.jobs()).items() if not job.state.has_ended]
    of_objects = engine.of_objects() if isinstance(engine, SlurmEngine) else []
    return [*of_pods, *of_objects]


def remove(paths: Paths) -> None:
    """Remove our own files, then the folder if it is empty."""
    ours = {*OURS, *home_folders()}
    for path in paths.home.iterdir():
        if path.name in ours or path.name.startswith(("state.", "before-restore-")):
            shutil.rmtree(path, onerror=make_writable) if path.is_dir() else path.unlink()
    left = sorted(path.name for path in paths.home.iterdir())
    if left:
        click.echo(f"left {paths.home}: it also holds {', '.join(left[:5])}")
        return
    try:
        paths.home.rmdir()
    except OSError as error:  # a mount point, or in a folder that is not ours
        click.echo(f"emptied {paths.home}; the folder itself stays: {error.strerror}")
        return
    click.echo(f"removed {paths.home}")


def make_writable(function: Callable[..., Any], path: str, _: object) -> None:
    """Make folders writable for rmtree: images hold some that their owner may not write to."""
    for folder in (Path(path).parent, Path(path)):
        if folder.is_dir() and not folder.is_symlink():
            folder.chmod(0o700)
    if function in (os.open, os.scandir, os.listdir):
        shutil.rmtree(path)
    else:
        function(path)
