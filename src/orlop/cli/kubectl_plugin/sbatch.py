"""`kubectl slurm sbatch` and `logs`: run a user's batch script as a SlurmJob, and show its output.

Part of the plugin, a client of that kind as kubectl is of Jobs. A command line is what
`sbatch_line` makes of it; what becomes of it is the SlurmJob's. What sbatch refuses is told at
once, and leaves no object behind.
"""

from __future__ import annotations

import base64
import os
import re
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from urllib.parse import quote

import click

from ...api.objects import Obj, meta, owner_reference
from ...errors import ConfigError, Error, Forbidden, NotFound
from ...printable import one_line
from ...slurm.commands import Commands
from ...slurm.submit import user_script
from ..kubeapi import KubeApi
from .job_output import ERRORS, Output
from .kubectl_slurm import CONTEXT, KUBECONFIG, NAMESPACE, connect, slurm
from .sbatch_line import Asked, manifest, split, taken_along

GROUP = "/apis/slurm.orlop.dev/v1"
ENDED = ("Succeeded", "Failed")
POLL = 0.5
SOON = 0.05
SHELL = "environment"  # the key of a Secret with the variables of a shell
NOBODY_READS = 141  # what a shell says of a command that SIGPIPE has ended
UNTIL_HEARD = 30.0  # seconds in which the control plane should have said something of a new object
_HELP = """\
Usage: kubectl slurm sbatch [OPTIONS] SCRIPT [ARGUMENTS]
       kubectl slurm sbatch [OPTIONS] < SCRIPT
       kubectl slurm sbatch [OPTIONS] --wrap COMMAND

  Run a batch script, with its #SBATCH lines, as a SlurmJob, and print the SlurmJob's name.

  OPTIONS are sbatch's own, as on its command line, and:

  -W, --wait           wait for its end, and end with its exit code; of an array, the largest
  --follow             the same, and show what it prints
  --parsable           print the number of Slurm's job in the place of the name
  --name NAME          of the SlurmJob; default: after the job's name
  --dry-run            print the manifest, and make nothing
  --namespace NAME     default: the context's (-n is sbatch's --ntasks here)
  --context NAME, --kubeconfig FILE

  It starts in the folder you are in, with the variables of your shell as --export says: all of
  them by default, kept in a Secret for as long as the SlurmJob is there. --dependency takes names
  of SlurmJobs as well as numbers.
"""


@slurm.command(
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def sbatch(words: tuple[str, ...]) -> None:
    """Run a batch script, with its #SBATCH lines, as a SlurmJob."""
    if words[:1] in (("-h",), ("--help",)) or (not words and sys.stdin.isatty()):
        click.echo(_HELP, nl=False)
        return
    asked = split(list(words))
    wanted = manifest(asked, Path.cwd(), _incoming, partial(_by_number, asked), _defaults())
    if "dry-run" in asked.own:
        import yaml

        click.echo(yaml.safe_dump(wanted, sort_keys=False), nl=False)
        return
    api, namespace = _place(asked)
    path = _path(namespace)
    _check_dependencies(api, path, wanted)
    name = made(api, namespace, wanted, os.environ)
    status = heard(api, f"{path}/{quote(name)}", needs_number="parsable" in asked.own)
    click.echo(status.get("jobId") if "parsable" in asked.own else name)
    if asked.own.keys() & {"wait", "follow"}:
        sys.exit(_until_its_end(api, namespace, name, follow="follow" in asked.own))
    if not status.get("jobId"):
        click.echo(f"{name} is not submitted yet: {_why(status)}", err=True)


def _check_dependencies(api: KubeApi, path: str, wanted: Obj) -> None:
    """Refuse a dependency that is not there, as sbatch does: it might not come to be."""
    for one in wanted["spec"].get("dependencies") or []:
        try:
            api.get(f"{path}/{quote(one['name'])}")
        except NotFound:
            raise ConfigError(f"--dependency: there is no SlurmJob {one['name']}") from None


def made(api: KubeApi, namespace: str, wanted: Obj, shell: Mapping[str, str]) -> str:
    """Make the object; return its name. A shell's variables go in a Secret that goes with it."""
    secret = _kept_shell(api, namespace, wanted, shell)
    if not secret:
        return str(meta(api.create(_path(namespace), wanted))["name"])
    reference = {"secretKeyRef": {"name": meta(secret)["name"], "key": SHELL}}
    wanted = {**wanted, "spec": {**wanted["spec"], "submitEnvironment": reference}}
    paths = [f"{_secrets(namespace)}/{quote(meta(secret)['name'])}"]
    try:
        job = api.create(_path(namespace), wanted)
        paths.insert(0, f"{_path(namespace)}/{quote(meta(job)['name'])}")
        _give(api, secret, job)
    except BaseException:  # Ctrl-C, too: nobody else would ever remove what has no owner
        for path in paths:
            with suppress(Error):
                api.delete(path)
        raise
    return str(meta(job)["name"])


def _give(api: KubeApi, secret: Obj, job: Obj) -> None:
    """Give the Secret its owner, if the user may change Secrets: the job runs in any case."""
    name, namespace = meta(secret)["name"], meta(job)["namespace"]
    change = {"metadata": {"ownerReferences": [owner_reference(job)]}}
    try:
        api.patch(f"{_secrets(namespace)}/{quote(name)}", change)
    except Forbidden as error:
        remedy = f"`kubectl delete secret {name}` once the job has its number"
        click.echo(f"the variables of this shell stay in a Secret: {error}; {remedy}", err=True)


def _kept_shell(
    api: KubeApi, namespace: str, wanted: Obj, variables: Mapping[str, str]
) -> Obj | None:
    """Keep the shell in a Secret, if the user may make one; else the job has `orlop up`'s."""
    shell = taken_along(wanted["spec"], variables)
    if shell is None:
        return None
    named = meta(wanted).get("generateName") or f"{meta(wanted)['name']}-"
    data = b"\0".join(os.fsencode(f"{name}={value}") for name, value in shell.items())
    kept = {SHELL: base64.b64encode(data).decode()}
    metadata = {"generateName": f"{named}shell-"}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": kept}
    try:
        return api.create(_secrets(namespace), secret)
    except Forbidden as error:
        click.echo(f"the variables of this shell do not come along: {error}", err=True)
        return None


def _secrets(namespace: str) -> str:
    return f"/api/v1/namespaces/{quote(namespace)}/secrets"


def _defaults() -> dict[str, str]:
    """Return options that the user keeps in variables, as sbatch reads them."""
    partition = os.environ.get("SBATCH_PARTITION")
    export = os.environ.get("SBATCH_EXPORT")
    found = Commands(os.environ).sbatch_defaults()
    found |= {"partition": partition} if partition else {}
    return found | ({"export": export} if export else {})


def _incoming() -> bytes:
    if sys.stdin.isatty():
        raise ConfigError("expected the name of a batch script, or one that comes in; see --help")
    return sys.stdin.buffer.read()


def _place(asked: Asked) -> tuple[KubeApi, str]:
    """Return the cluster that is meant, and the namespace."""
    api = connect(asked.own.get("kubeconfig", ""), asked.own.get("context", ""))
    return api, asked.own.get("namespace") or api.namespace


def _path(namespace: str) -> str:
    return f"{GROUP}/namespaces/{quote(namespace)}/slurmjobs"


def _by_number(asked: Asked) -> dict[str, str]:
    """Return the names of SlurmJobs by the numbers of their jobs."""
    api, namespace = _place(asked)
    jobs = api.items(_path(namespace))
    found = {(job.get("status") or {}).get("jobId"): meta(job)["name"] for job in jobs}
    return {number: name for number, name in found.items() if number}


def heard(api: KubeApi, path: str, *, needs_number: bool, patience: float = UNTIL_HEARD) -> Obj:
    """Wait for what sbatch says, or what keeps it from being called; ConfigError if it said no.

    A caller that needs a number waits for it, and is told for what.
    """
    until, told = time.monotonic() + patience, ""
    while True:
        status: Obj = api.get(path).get("status") or {}
        if status.get("phase") == "Failed" and not status.get("jobId"):
            api.delete(path)  # as with sbatch, nothing is left of it
            raise ConfigError(str(status.get("message") or status.get("reason")))
        is_late = time.monotonic() > until
        if status.get("jobId") or ((status.get("reason") or is_late) and not needs_number):
            return status
        if is_late and _why(status) != told:
            told = _why(status)
            click.echo(f"it has no number yet: {told}", err=True)
        time.sleep(POLL if is_late else SOON)


def _why(status: Obj) -> str:
    words = status.get("message") or status.get("reason") or "nobody has looked at it yet"
    return one_line(str(words))


def _until_its_end(api: KubeApi, namespace: str, name: str, *, follow: bool) -> int:
    """Wait until its end; return its exit code, as `sbatch --wait` has it."""
    output: Output | None = None
    while True:
        status = _job(api, namespace, name).get("status") or {}
        phase = status.get("phase")
        if follow and output is None and status.get("podName"):
            output = Output(api, namespace, status["podName"], follow=True)
            _say_what_is_not_shown(name, status, output)
        if output is not None:
            output.show(output.containers(), labelled="arrayTasks" in status)
            if output.is_cut_off:
                return NOBODY_READS
        if phase in ENDED:
            break
        time.sleep(POLL)
    if output is not None and not output.finish():
        return NOBODY_READS
    if phase == "Failed":
        click.echo(f"{name}: {_why(status)}", err=True)
    return int(status.get("exitCode") or 0) or (1 if phase == "Failed" else 0)


def _say_what_is_not_shown(name: str, status: Obj, output: Output) -> None:
    total = (status.get("arrayTasks") or {}).get("total", 0)
    shown = sum(one["name"].startswith("task-") for one in output.containers())
    if shown < total:
        rest = f"kubectl slurm logs {name} --task NUMBER shows others"
        click.echo(f"of {total} tasks the first {shown} are shown here; {rest}", err=True)


def _job(api: KubeApi, namespace: str, name: str) -> Obj:
    return api.get(f"{_path(namespace)}/{quote(name)}")


@slurm.command()
@click.argument("name")
@click.option("--task", default="", help="Of a job array, the number of the task.")
@click.option("-f", "--follow", is_flag=True, help="Go on until its end.")
@NAMESPACE
@KUBECONFIG
@CONTEXT
def logs(name: str, task: str, follow: bool, namespace: str, kubeconfig: str, context: str) -> None:
    """Print what a SlurmJob has printed."""
    api = connect(kubeconfig, context)
    namespace = namespace or api.namespace
    name = name.removeprefix("slurmjobs/").removeprefix("slurmjob/")
    status = _job(api, namespace, name).get("status") or {}
    if not status.get("jobId"):
        why = status.get("message") or status.get("reason") or "it has not been looked at yet"
        raise ConfigError(f"SlurmJob {name} has no job: {why}")
    if status.get("arrayTasks") and not task:
        raise ConfigError(f"SlurmJob {name} is a job array: choose one with --task NUMBER")
    names = (f"task-{task}", f"{ERRORS}-{task}") if task else ("job", ERRORS)
    output = Output(api, namespace, status.get("podName", ""), follow=follow)
    shown = [one for one in output.containers() if one["name"] in names]
    if shown:
        output.show(shown, labelled=False)
        if not output.finish():
            sys.exit(NOBODY_READS)
        return
    for stream, is_error in (("stdout", False), ("stderr", True)):
        if status.get(stream) or not is_error:
            click.echo(_read(status, stream, task), nl=False, err=is_error)


def _read(status: Obj, stream: str, task: str) -> bytes:
    """Read from the file itself, as this host sees it: an array's pod may lack some tasks."""
    pattern = status.get(stream) or ""
    if not pattern or (task and re.search(r"%\d*[jJN]", pattern)):
        raise ConfigError("only the job itself knows where it prints to; see `scontrol show job`")
    facts = {"A": status["jobId"], "j": status["jobId"], "a": task, "x": status.get("jobName", "")}
    file = Path(status.get("workingDirectory", "/")) / user_script.output_file(pattern, facts)
    try:
        return file.read_bytes()
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from None
