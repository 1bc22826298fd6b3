"""`orlop up`: makes a cluster from nothing, and tells what was found on the way.

Called by people, again and again: where a control plane runs already it says so and changes
nothing. It starts the control plane and then ends; with the flag for it, it runs one in the
foreground.
"""

from __future__ import annotations

import asyncio
import shlex
import sys
import time

import click

from ... import __version__
from ...errors import ApiError, ConfigError, HomeInUse
from ...settings import Paths, Settings, home_from_env, load
from ..control_plane import in_job, launch
from ..control_plane.engines import LOCAL, SLURM, chosen_engine
from ..doctor_checks import survey
from ..home.home_lock import LEASE, in_use, resident, silence
from ..home.record import Record
from ..kubeapi import KubeApi

START_TIME = (
    30.0  # seconds in which a control plane that starts elsewhere must have declared itself
)


@click.command("up")
@click.option("--engine", type=click.Choice([SLURM, LOCAL]), help="What gives pods their machines.")
@click.option("--port", type=click.IntRange(1, 65535), help="Port of the API server.")
@click.option(
    "--control-plane",
    type=click.Choice(["embedded", "upstream"]),
    help="Orlop's own API server, or the site's kube-apiserver and etcd.",
)
@click.option("--foreground", is_flag=True, help="Stay in this terminal, log to it.")
@click.option("--in-job", "as_job", is_flag=True, help="Run the control plane as a Slurm job.")
@click.option("--flags", default="", help='With --in-job: more flags of sbatch, "--time=1-0 …".')
def command(
    engine: str | None,
    port: int | None,
    control_plane: str | None,
    foreground: bool,
    as_job: bool,
    flags: str,
) -> None:
    """Start the control plane, unless it runs already."""
    if flags and not as_job:
        raise click.UsageError("--flags are sbatch's: they go with --in-job")
    paths = home_from_env()
    make_home(paths)
    overrides = {"engine": engine, "port": port, "control_plane": control_plane}
    settings = load(paths, {key: value for key, value in overrides.items() if value})
    running = wait_for_verdict(paths)
    if running is not None:
        greet_running(paths, running, engine, foreground or as_job)
        return
    click.echo(f"Orlop {__version__} in {paths.home}")
    chosen, _ = asyncio.run(look_around(paths, settings))
    given = {"engine": chosen, "port": port, "control-plane": control_plane}
    arguments = [f"--{name}={value}" for name, value in given.items() if value]
    if foreground:
        run_here(paths, settings, chosen)
        return
    began = time.monotonic()
    if as_job:
        record = in_job.start(paths, settings, chosen, arguments, flags)
    else:
        try:
            record = launch.start(paths, arguments)
        except HomeInUse:
            greet_running(paths, quicker_one(paths), engine, wants_own=False)
            return
    took = time.monotonic() - began
    line("API server", f"{record.url} on {record}, ready after {took:.1f} s")
    how_to_go_on(paths, record)


def make_home(paths: Paths) -> None:
    """Make the folder, or make it private (0700), whatever it was before."""
    try:
        paths.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        if paths.home.stat().st_mode & 0o077:
            paths.home.chmod(0o700)
        paths.run.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        remedy = "set ORLOP_HOME to a folder of yours that compute nodes see"
        raise ConfigError(f"cannot use {paths.home}: {error.strerror}; {remedy}") from error


def wait_for_verdict(paths: Paths) -> Record | None:
    """Return the running control plane, or None once it is sure that there is none.

    One on another host that does not answer may be dead or cut off from here; its lease decides, so
    it is waited for.
    """
    told = False
    while (running := resident(paths)) is not None:
        if running.is_of_this_host or answers(paths):
            return running
        if not told:
            left = max(0.0, LEASE - silence(paths))
            click.echo(f"The control plane on {running} does not answer; it is given {left:.0f} s.")
            told = True
        time.sleep(1)  # a heartbeat on a shared file system cannot be waited for otherwise
    return None


def quicker_one(paths: Paths) -> Record:
    """Return the control plane of another `up` that was a moment earlier, once it has started."""
    deadline = time.monotonic() + START_TIME
    while (running := resident(paths)) is None:
        if time.monotonic() > deadline:
            raise in_use(paths.home, None)
        time.sleep(0.2)  # it may be on another host, with but files in common
    return running


def answers(paths: Paths) -> bool:
    try:
        KubeApi.at(paths.kubeconfig).get("/readyz", timeout=3)
    except (ApiError, ConfigError, OSError):
        return False
    return True


def greet_running(paths: Paths, running: Record, engine: str | None, wants_own: bool) -> None:
    if wants_own:
        raise in_use(paths.home, running)
    if engine and engine != running.engine:
        text = f"the control plane on {running} uses the engine {running.engine}, not {engine}"
        raise HomeInUse(f"{text}: stop it with `orlop down` first")
    click.echo(f"Orlop is already up on {running}, at {running.url}")
    how_to_go_on(paths, running)


async def look_around(paths: Paths, settings: Settings) -> tuple[str, survey.Survey]:
    chosen = await chosen_engine(settings, paths)
    found = await survey.survey(chosen, paths, settings)
    for subject, words in found.lines():
        line(subject, words)
    return chosen, found


def run_here(paths: Paths, settings: Settings, engine: str) -> None:
    from ..control_plane.readiness import Readiness
    from ..control_plane.serve import run

    where = shlex.quote(str(paths.kubeconfig))
    click.echo(f"Ctrl-C ends it. Elsewhere: export KUBECONFIG={where}", err=True)
    sys.stdout.flush()
    run(paths, settings, engine, Readiness())


def how_to_go_on(paths: Paths, record: Record) -> None:
    if record.job:
        port = record.port
        click.echo("\nFrom your own machine, with a copy of `orlop kubeconfig --raw`:")
        click.echo(f"  ssh -N -L {port}:{record.host}:{port} <login node of this cluster>")
        click.echo(f"  kubectl --kubeconfig <the copy> --server https://127.0.0.1:{port} get pods")
        click.echo("\nOn this cluster:")
    click.echo(f"\nexport KUBECONFIG={shlex.quote(str(paths.kubeconfig))}")


def line(subject: str, words: str) -> None:
    click.echo(f"  {subject:<11} {words}")
