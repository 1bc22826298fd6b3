"""`kubectl slurm`: shows pods as Slurm sees them, for people who know squeue.

kubectl finds it on PATH as a plugin. It asks the API server of the current context, and Slurm's
commands or the pod's folder where the API has no answer; `sbatch` makes a SlurmJob.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import click

from ... import wellknown
from ...api.objects import (
    Obj,
    annotations_of,
    condition_of,
    controller_of,
    is_terminal,
    key_of,
    meta,
    phase_of,
    uid_of,
)
from ...errors import ConfigError, EngineError, Error
from ...printable import lines, one_line
from ...settings import home_from_env, load
from ..home.kubeconfig_file import loaded
from ..kubeapi import KubeApi, default_config
from ..table import table
from .usage import Usage, noted, usage_of

NAMESPACE = click.option("-n", "--namespace", default="", help="Namespace; default: the context's.")
KUBECONFIG = click.option("--kubeconfig", default="", help="The kubeconfig to use.")
CONTEXT = click.option("--context", default="", help="The context of it to use.")
ALL = click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="All namespaces.")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def slurm() -> None:
    """Pods as Slurm sees them."""


def main() -> None:
    from . import sbatch  # adds its commands

    assert sbatch.sbatch.name in slurm.commands, "it adds them when it is imported"
    from .ranks import rank_exec, rank_logs  # they need what is here

    for command in (rank_exec, rank_logs):
        slurm.add_command(command)
    try:
        slurm(prog_name="kubectl slurm")
    except Error as error:
        raise SystemExit(f"error: {lines(str(error))}") from None


def connect(kubeconfig: str, context: str) -> KubeApi:
    config = loaded(Path(kubeconfig)) if kubeconfig else default_config()
    return KubeApi.of(config, context)


def pods_in(api: KubeApi, namespace: str, everywhere: bool) -> list[Obj]:
    scope = "" if everywhere else f"/namespaces/{quote(namespace or api.namespace)}"
    return api.items(f"/api/v1{scope}/pods")


def pod_named(api: KubeApi, namespace: str, name: str) -> Obj:
    name = name.removeprefix("pod/").removeprefix("pods/")
    return api.get(f"/api/v1/namespaces/{quote(namespace or api.namespace)}/pods/{quote(name)}")


def job_of(pod: Obj) -> str:
    return annotations_of(pod).get(wellknown.JOB_ID, "")


def partition_of(pod: Obj) -> str:
    return str((pod.get("spec") or {}).get("nodeName", ""))


@slurm.command()
@NAMESPACE
@ALL
@KUBECONFIG
@CONTEXT
def queue(namespace: str, everywhere: bool, kubeconfig: str, context: str) -> None:
    """List pods that wait or run, as squeue does."""
    api = connect(kubeconfig, context)
    pods = [pod for pod in pods_in(api, namespace, everywhere) if not is_terminal(pod)]
    if not pods:
        click.echo("nothing waits or runs")
        return
    header = ("JOB", "PARTITION", "POD", "PHASE", "NODES", "REASON")
    click.echo(table(header, [queue_row(pod, everywhere) for pod in pods]))


def queue_row(pod: Obj, everywhere: bool) -> tuple[str, ...]:
    key = key_of(pod)
    allocated = condition_of(pod, wellknown.ALLOCATED) or {}
    waits = allocated.get("status") == "False"
    return (
        job_of(pod) or "-",
        partition_of(pod) or "-",
        str(key) if everywhere else key.name,
        phase_of(pod) or "Pending",
        annotations_of(pod).get(wellknown.NODE_LIST, "-"),
        allocated.get("reason", "") if waits else "",
    )


@slurm.command()
@click.argument("pod")
@NAMESPACE
@KUBECONFIG
@CONTEXT
def why(pod: str, namespace: str, kubeconfig: str, context: str) -> None:
    """Say why a pod waits, or why it ended."""
    api = connect(kubeconfig, context)
    found = pod_named(api, namespace, pod)
    click.echo("\n".join(map(one_line, story(found, events_of(api, found)))))


def events_of(api: KubeApi, pod: Obj) -> list[Obj]:
    key = key_of(pod)
    selector = quote(f"involvedObject.uid={uid_of(pod)}")
    return api.items(f"/api/v1/namespaces/{quote(key.namespace)}/events?fieldSelector={selector}")


def story(pod: Obj, events: list[Obj]) -> list[str]:
    """Return the pod's state in a sentence, each condition that is not well, and its events."""
    status = pod.get("status") or {}
    job = f"job {job_of(pod)}" if job_of(pod) else "no job yet"
    where = annotations_of(pod).get(wellknown.NODE_LIST, "")
    place = f" on {where}" if where else ""
    partition = f" in partition {partition_of(pod)}" if partition_of(pod) else ", not yet scheduled"
    lines = [f"{key_of(pod)} is {phase_of(pod) or 'Pending'}: {job}{partition}{place}"]
    if status.get("reason") or status.get("message"):
        lines.append(f"  {status.get('reason', '')}: {status.get('message', '')}")
    unwell = [c for c in status.get("conditions") or [] if c.get("status") != "True"]
    lines += [
        f"  {c['type']}: {c.get('reason')}: {c['message']}" for c in unwell if c.get("message")
    ]
    lines += [f"  container {name}: {words}" for name, words in troubles(status)]
    lines += [f"  {e.get('type')}: {e.get('reason')}: {e.get('message')}" for e in events]
    return lines


def troubles(status: Obj) -> list[tuple[str, str]]:
    """Return containers that wait or have failed, with the reason in Kubernetes' words."""
    found = []
    for container in (status.get("initContainerStatuses") or []) + (
        status.get("containerStatuses") or []
    ):
        state = container.get("state") or {}
        waiting, ended = state.get("waiting"), state.get("terminated")
        if waiting and waiting.get("message"):
            found.append((container["name"], f"{waiting.get('reason')}: {waiting['message']}"))
        elif ended and ended.get("exitCode"):
            message = f": {ended['message']}" if ended.get("message") else ""
            words = f"{ended.get('reason')}, exit code {ended['exitCode']}{message}"
            found.append((container["name"], words))
    return found


@slurm.command()
@click.argument("pod")
@NAMESPACE
@KUBECONFIG
@CONTEXT
def script(pod: str, namespace: str, kubeconfig: str, context: str) -> None:
    """Print the job script of a pod."""
    found = pod_named(connect(kubeconfig, context), namespace, pod)
    paths = home_from_env()
    key = key_of(found)
    path = paths.pod(key.namespace, key.name, uid_of(found)) / wellknown.SCRIPT_FILE
    owner = controller_of(found)
    if owner is not None and wellknown.MIRROR in annotations_of(found):
        path = (
            paths.home / "slurmjobs" / f"{key.namespace}_{owner['name']}_{owner['uid']}" / "script"
        )
    try:
        click.echo(path.read_text(), nl=False)
    except FileNotFoundError:
        remedy = "it has not been submitted yet, or ORLOP_HOME is not this cluster's"
        raise ConfigError(f"no job script at {path}: {remedy}") from None


@slurm.command()
@click.argument("pods", nargs=-1)
@NAMESPACE
@ALL
@KUBECONFIG
@CONTEXT
def usage(
    pods: tuple[str, ...], namespace: str, everywhere: bool, kubeconfig: str, context: str
) -> None:
    """Show what pods have used: time, CPUs, memory, energy, as Slurm counted."""
    api = connect(kubeconfig, context)
    found = [pod_named(api, namespace, name) for name in pods]
    found = found or pods_in(api, namespace, everywhere)
    with_job = {job_of(pod): pod for pod in found if job_of(pod)}
    if not with_job:
        click.echo("no pod here has a job")
        return
    try:
        names = {job: str(key_of(pod)) for job, pod in with_job.items()}
        used = asyncio.run(usage_of(names, load(home_from_env()).slurm.command_timeout))
    except EngineError as error:
        raise ConfigError(f"Slurm cannot be asked from here: {error}") from error
    rows = [usage_row(pod, job, used.get(job), everywhere) for job, pod in with_job.items()]
    is_measured = any(row[-1] != "-" for row in rows)  # few sites measure energy
    width = len(USAGE) if is_measured else len(USAGE) - 1
    click.echo(table(USAGE[:width], [row[:width] for row in rows]))


USAGE = ("POD", "JOB", "STATE", "ELAPSED", "CPUS", "REQUESTED", "CPU-TIME", "MAX-RSS", "ENERGY")


def usage_row(pod: Obj, job: str, used: Usage | None, everywhere: bool) -> tuple[str, ...]:
    name = str(key_of(pod)) if everywhere else str(meta(pod)["name"])
    on_pod = noted(pod)
    used = used or replace(on_pod, state="forgotten")
    cpu, memory = used.cpu_time or on_pod.cpu_time, used.max_rss or on_pod.max_rss
    energy = used.energy or on_pod.energy
    cells = (used.state, used.elapsed, used.cpus, used.requested, cpu, memory, energy)
    return (name, job, *(cell or "-" for cell in cells))
