"""`orlop backup FILE`: puts the cluster's state and keys in one file, running or down.

Called by people and by cron. A running control plane makes the copy itself, wherever it runs, so
that it is of one moment; pods and clients notice nothing.
"""

from __future__ import annotations

import http.client
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

import click

from ... import wellknown
from ...errors import ConfigError, Unavailable
from ...settings import Paths, home_from_env
from ..home import archive
from ..home.home_lock import HomeLock, resident
from ..kubeapi import KubeApi

_PIECE = 1 << 20
_TIMEOUT = 120.0


@click.command("backup")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
def command(file: Path) -> None:
    """Write the cluster's state and keys into a file."""
    paths = home_from_env()
    if not paths.state.exists():
        raise ConfigError(f"{paths.home} has no state to back up; set ORLOP_HOME to one that has")
    if not file.absolute().parent.is_dir():
        raise ConfigError(f"{file.absolute().parent} is no folder: make it, or give another FILE")
    with tempfile.TemporaryDirectory(dir=paths.run, prefix="backup.") as folder:
        copy = Path(folder) / wellknown.STATE_FILE
        if resident(paths) is not None:
            fetch(KubeApi.at(paths.kubeconfig), copy)
        else:
            copy_at_rest(paths, copy)
        try:
            archive.write(file, paths, copy)
        except OSError as error:
            remedy = "free some space, or give another FILE"
            raise ConfigError(f"cannot write {file}: {error.strerror}; {remedy}") from error
    size = file.stat().st_size / 1e6
    click.echo(f"Backed up {paths.home} to {file} ({size:.1f} MB). It holds the cluster's keys.")


def fetch(api: KubeApi, copy: Path) -> None:
    """Fetch the state as the running control plane copies it."""
    parts = urlsplit(api.url)
    connection = http.client.HTTPSConnection(
        parts.hostname or "", parts.port or 443, timeout=_TIMEOUT, context=api.tls
    )
    try:
        connection.request("GET", wellknown.STATE_PATH, headers=api.headers)
        answer = connection.getresponse()
        if answer.status != 200:
            words = answer.read(2000).decode(errors="replace")
            raise Unavailable(f"{api.url} does not give its state ({answer.status}): {words}")
        with copy.open("wb") as file:
            while piece := answer.read(_PIECE):
                file.write(piece)
        if answer.length:  # of what was announced, so much never came
            raise Unavailable(f"{api.url} ended in the middle of its answer; try again")
    except (OSError, http.client.HTTPException) as error:
        raise Unavailable(f"{api.url} does not answer: {error}") from None
    finally:
        connection.close()


def copy_at_rest(paths: Paths, copy: Path) -> None:
    from ...store.sqlite import Database

    with HomeLock(paths):  # so that no control plane starts meanwhile
        database = Database(paths.state)
        try:
            database.copy_to(copy)
        finally:
            database.close()
