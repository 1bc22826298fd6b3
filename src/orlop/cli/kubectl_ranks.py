"""`kubectl slurm rank-logs` and `rank-exec`: a single rank of a pod that runs once per task.

Commands of the plugin. What a rank printed is read from the pod's folder, where every line is
marked with its rank; a command beside a rank is kubectl's own `exec`, told by its first word
which one is meant. They change nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import click

from .. import wellknown
from ..api.objects import Obj, key_of, uid_of
from ..errors import ConfigError
from ..settings import home_from_env
from ..slurm.ranks import rank_set
from .kubectl_slurm import CONTEXT, KUBECONFIG, NAMESPACE, connect, pod_named

RANK = click.argument("rank", type=click.IntRange(min=0))


@click.command("rank-logs")
@click.argument("pod")
@RANK
@NAMESPACE
@KUBECONFIG
@CONTEXT
def rank_logs(pod: str, rank: int, namespace: str, kubeconfig: str, context: str) -> None:
    """Print what one rank of a pod has printed."""
    found = pod_named(connect(kubeconfig, context), namespace, pod)
    path = newest_log(found)
    for line in lines_of(path.read_bytes(), rank):
        click.echo(line, nl=False)


def newest_log(pod: Obj) -> Path:
    """The log of the rank container's last run."""
    key, ranks = key_of(pod), _ranks_of(pod)
    folder = home_from_env().pod(key.namespace, key.name, uid_of(pod)) / wellknown.LOGS_DIR
    runs = sorted((folder / ranks).glob("*.log"), key=lambda path: int(path.stem))
    if not runs:
        remedy = "it has not started yet, or ORLOP_HOME is not this cluster's"
        raise ConfigError(f"no log in {folder / ranks}: {remedy}")
    return runs[-1]


def _ranks_of(pod: Obj) -> str:
    found = rank_set(pod)
    if found is None:
        words = "runs its containers once each, without ranks"
        raise ConfigError(f"pod {key_of(pod)} {words}: use `kubectl logs` and `kubectl exec`")
    return found.container


def lines_of(log: bytes, rank: int) -> Iterator[bytes]:
    """The text of those lines that are marked with the rank."""
    mark = f":{rank}".encode()
    for line in log.splitlines():
        words = line.split(b" ", 3)
        if len(words) > 2 and words[2][1:] == mark:
            yield [*words, b""][3] + (b"\n" if words[2].startswith(b"F") else b"")


@click.command("rank-exec", context_settings={"ignore_unknown_options": True})
@click.argument("pod")
@RANK
@click.option("-i", "--stdin", is_flag=True, help="Pass standard input on.")
@click.option("-t", "--tty", is_flag=True, help="With a terminal.")
@NAMESPACE
@KUBECONFIG
@CONTEXT
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def rank_exec(
    pod: str,
    rank: int,
    stdin: bool,
    tty: bool,
    namespace: str,
    kubeconfig: str,
    context: str,
    command: tuple[str, ...],
) -> None:
    """Run a command beside one rank of a pod, on that rank's node."""
    found = pod_named(connect(kubeconfig, context), namespace, pod)
    argv = ["kubectl", "exec", key_of(found).name, "-n", key_of(found).namespace]
    argv += [f"--container={_ranks_of(found)}"]
    argv += [f"--kubeconfig={kubeconfig}"] if kubeconfig else []
    argv += [f"--context={context}"] if context else []
    argv += [flag for flag, is_given in (("-i", stdin), ("-t", tty)) if is_given]
    os.execvp(argv[0], [*argv, "--", f"@{rank}", *command])
