"""`orlop restore FILE`: brings a home back to what it was when `orlop backup` wrote FILE.

Called by people, with the control plane down. What was there is put aside, not deleted. Revisions
leap ahead of all that clients may have seen, so that no client takes an old revision for a new one.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

import click

from ... import wellknown
from ...errors import HomeInUse
from ...settings import Paths, home_from_env
from ..home import archive
from ..home.home_lock import HomeLock, resident
from .up import make_home

LEAP = 1_000_000  # revisions: more than any cluster of ours makes between two backups


@click.command("restore")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
def command(file: Path) -> None:
    """Bring back what a backup holds."""
    paths = home_from_env()
    make_home(paths)
    running = resident(paths)
    if running is not None:
        raise HomeInUse(f"the control plane runs on {running}: stop it with `orlop down` first")
    with HomeLock(paths), tempfile.TemporaryDirectory(dir=paths.run, prefix="restore.") as folder:
        unpacked = Path(folder)
        manifest = archive.unpack(file, unpacked)
        begin_anew(unpacked / wellknown.STATE_FILE)
        aside = put_aside(paths, unpacked)
        for path in unpacked.iterdir():
            if path.name in replaced(unpacked):
                path.rename(paths.home / path.name)
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(manifest["time"]))
    click.echo(f"{paths.home} is as it was on {when}; `orlop up` starts it.")
    if aside is not None:
        click.echo(f"What was there before is in {aside}.")


def begin_anew(state: Path) -> None:
    from ...store.sqlite import Database

    database = Database(state)
    try:
        database.begin_anew(LEAP)
    finally:
        database.close()


def replaced(unpacked: Path) -> list[str]:
    """Return the names that a backup puts in the home."""
    return [path.name for path in unpacked.iterdir() if path.name != "backup.json"]


def put_aside(paths: Paths, unpacked: Path) -> Path | None:
    """Move what would be overwritten, and the files that belong to the old state."""
    companions = [path.name for path in paths.home.glob(f"{wellknown.STATE_FILE}*")]
    wanted = {*replaced(unpacked), *companions, wellknown.KUBECONFIG_FILE}
    there = [paths.home / name for name in wanted if (paths.home / name).exists()]
    if not there:
        return None
    aside = paths.home / time.strftime("before-restore-%Y%m%d-%H%M%S")
    aside.mkdir(mode=0o700)
    for path in there:
        shutil.move(path, aside / path.name)
    return aside
