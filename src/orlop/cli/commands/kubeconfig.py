"""`orlop kubeconfig`: tells where the kubeconfig is, what it says, or merges it into the user's.

Called by people and by `export KUBECONFIG=$(orlop kubeconfig)`. With --merge it changes that file.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import click

from ...errors import ConfigError
from ...files import write_private
from ...settings import Paths, home_from_env
from ..home import kubeconfig_file
from ..home.kubeconfig_file import Document


@click.command("kubeconfig")
@click.option("--raw", is_flag=True, help="Print the file itself, with its credentials.")
@click.option("--merge", is_flag=True, help="Add the cluster to ~/.kube/config and switch to it.")
@click.option("--user", default="", help="Make credentials for this user instead of the admin.")
@click.option("--group", "groups", multiple=True, help="A group of that user; may be repeated.")
def command(raw: bool, merge: bool, user: str, groups: tuple[str, ...]) -> None:
    """Print the path of the kubeconfig, or the file itself."""
    paths = home_from_env()
    if not paths.kubeconfig.exists():
        raise ConfigError(f"{paths.kubeconfig} does not exist yet; `orlop up` makes it")
    if not (raw or merge or user):
        click.echo(paths.kubeconfig)
        return
    document = kubeconfig_file.loaded(paths.kubeconfig)
    if user:
        document = _for_user(paths, document, user, groups)
    if merge:
        click.echo(f"merged into {_merge(document)}; current context is {_name(document)}")
    else:
        click.echo(kubeconfig_file.dumped(document), nl=False)


def _name(document: Document) -> str:
    return str(document["current-context"])


def _for_user(paths: Paths, ours: Document, user: str, groups: tuple[str, ...]) -> Document:
    """Make a kubeconfig for a user, who may do what Roles and bindings say: at first nothing."""
    from ... import pki

    made = pki.Pki(paths.pki)
    certificate, key = made.issue(user, groups)
    url = ours["clusters"][0]["cluster"]["server"]
    name = _name(ours)
    return kubeconfig_file.document(
        name, url, made.ca.read_bytes(), certificate, key, user=f"{name}-{user}"
    )


def _merge(document: Document) -> Path:
    target = Path.home() / ".kube" / "config"
    theirs = kubeconfig_file.loaded(target)
    target.parent.mkdir(mode=0o700, exist_ok=True)
    if theirs:
        shutil.copy2(target, target.with_name("config.before-orlop"))
    write_private(target, kubeconfig_file.dumped(kubeconfig_file.merged(theirs, document)))
    return target
