"""`kubectl slurm rank-logs` and `rank-exec`: reach one rank of a pod that runs once per task.

Commands of the plugin, which become kubectl: what a rank printed is asked for as any log, with one
word more; a command beside a rank is kubectl's own `exec`, told by its first word which one is
meant.
"""

from __future__ import annotations

import os
from urllib.parse import urlencode

import click

from ...api.objects import Obj, key_of
from ...errors import ConfigError
from ...settings import home_from_env, load
from ...slurm.translate.ranks import rank_set
from .kubectl_slurm import CONTEXT, KUBECONFIG, NAMESPACE, connect, pod_named

RANK = click.argument("rank", type=click.IntRange(min=0))


@click.command("rank-logs")
@click.argument("pod")
@RANK
@click.option("-f", "--follow", is_flag=True, help="Go on as it prints more.")
@click.option("-p", "--previous", is_flag=True, help="Of its last run before this one.")
@click.option("--tail", type=click.IntRange(min=0), help="The last so many lines only.")
@click.option("--timestamps", is_flag=True, help="With the time of each line.")
@NAMESPACE
@KUBECONFIG
@CONTEXT
def rank_logs(
    pod: str,
    rank: int,
    follow: bool,
    previous: bool,
    tail: int | None,
    timestamps: bool,
    namespace: str,
    kubeconfig: str,
    context: str,
) -> None:
    """Print what one rank of a pod has printed."""
    found = pod_named(connect(kubeconfig, context), namespace, pod)
    flags = {"follow": follow, "previous": previous, "timestamps": timestamps}
    asked = {"container": _ranks_of(found), "rank": rank} | {
        name: "true" for name, is_given in flags.items() if is_given
    }
    asked |= {} if tail is None else {"tailLines": tail}
    key = key_of(found)
    path = f"/api/v1/namespaces/{key.namespace}/pods/{key.name}/log?{urlencode(asked)}"
    argv = ["kubectl", "get", "--raw", path, *_connection(kubeconfig, context)]
    os.execvp(argv[0], argv)


def _ranks_of(pod: Obj) -> str:
    """Return the container of a pod that runs once per task; raise ConfigError if none does."""
    from ...extensions.registry import Extensions  # slow to import, and only asked for here

    # A member of a gang has no ranks, and which kinds are gangs is for extensions to say.
    Extensions(load(home_from_env()).without_kinds).register_pod_references()
    found = rank_set(pod)
    if found is None:
        words = "runs its containers once each, without ranks"
        raise ConfigError(f"pod {key_of(pod)} {words}: use `kubectl logs` and `kubectl exec`")
    return found.container


def _connection(kubeconfig: str, context: str) -> list[str]:
    given = {"kubeconfig": kubeconfig, "context": context}
    return [f"--{name}={value}" for name, value in given.items() if value]


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
    argv += _connection(kubeconfig, context)
    argv += [flag for flag, is_given in (("-i", stdin), ("-t", tty)) if is_given]
    os.execvp(argv[0], [*argv, "--", f"@{rank}", *command])
