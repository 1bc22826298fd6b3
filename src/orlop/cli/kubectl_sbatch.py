"""`kubectl slurm sbatch` and `logs`: a user's own batch script as a SlurmJob, and what it prints.

Part of the plugin. sbatch's command line is taken as sbatch takes it, options before the script's
name and the script's arguments behind it; what becomes of it is the SlurmJob's. Logs are kubectl's
own, of the pod that shows the job.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import click

from ..api.objects import Obj, meta
from ..errors import ConfigError, NotFound
from ..slurm import userscript
from ..slurm.options import NO_VALUE, SHORT, VALUE_MAY_FOLLOW
from .kubeapi import KubeApi
from .kubectl_slurm import CONTEXT, KUBECONFIG, NAMESPACE, connect, slurm

GROUP = "/apis/slurm.orlop.dev/v1"
ENDED = ("Succeeded", "Failed")
POLL = 0.5
_OWN = ("namespace", "kubeconfig", "context", "name")
_OWN_FLAGS = ("wait", "follow", "dry-run")
_HELP = """\
Usage: kubectl slurm sbatch [OPTIONS] SCRIPT [ARGUMENTS]
       kubectl slurm sbatch [OPTIONS] --wrap COMMAND

  Run a batch script, with its #SBATCH lines, as a SlurmJob, and print the SlurmJob's name.

  OPTIONS are sbatch's own, as on its command line, and:

  --wait               wait for its end, and end with its exit code
  --follow             the same, and show what it prints
  --name NAME          of the SlurmJob; default: after the job's name
  --dry-run            print the manifest, and make nothing
  --namespace NAME     default: the context's (-n is sbatch's --ntasks here)
  --context NAME, --kubeconfig FILE

  It starts in the folder you are in. The variables of your shell are not taken along, as they
  would be kept in the object: give those that it needs with --export=NAME=VALUE, or with env and
  envFrom in a manifest.
"""


@dataclass
class Asked:
    """A command line taken apart."""

    own: dict[str, str] = field(default_factory=dict)
    flags: list[str] = field(default_factory=list)
    script: str = ""
    arguments: list[str] = field(default_factory=list)
    wrap: str | None = None


def split(words: list[str]) -> Asked:
    """As sbatch takes its command line apart, and what is ours of it."""
    asked, rest = Asked(), list(words)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word = rest.pop(0)
        if word == "--":
            break
        name, equals, value = word[2:].partition("=") if word.startswith("--") else ("", "", "")
        if not name and word[1:2] in SHORT and SHORT[word[1]] == "wait":
            name = "wait"
        if name in _OWN_FLAGS:
            asked.own[name] = "yes"
        elif name in (*_OWN, "wrap"):
            value = value if equals else _next(rest, word)
            if name == "wrap":
                asked.wrap = value
            else:
                asked.own[name] = value
        else:
            asked.flags.append(word)
            if _takes_next(word) and rest:
                asked.flags.append(rest.pop(0))
    if asked.wrap is None:
        if not rest:
            raise ConfigError("expected the name of a batch script, found none; see --help")
        asked.script, *rest = rest
    asked.arguments = rest
    return asked


def _next(rest: list[str], word: str) -> str:
    if not rest:
        raise ConfigError(f"{word} needs a value, found none")
    return rest.pop(0)


def _takes_next(word: str) -> bool:
    """Whether the value of an option is the next word."""
    if word.startswith("--"):
        name = word[2:]
        return "=" not in word and name not in NO_VALUE and name not in VALUE_MAY_FOLLOW
    name = SHORT.get(word[1], "")
    return len(word) == 2 and name not in NO_VALUE and name not in VALUE_MAY_FOLLOW


def manifest(asked: Asked, folder: Path) -> Obj:
    """The SlurmJob for a command line given in that folder."""
    if asked.wrap is not None:
        text, name = f"#!/bin/sh\n{asked.wrap}\n", "wrap"
    else:
        path = folder / asked.script
        try:
            text = path.read_text()
        except OSError as error:
            raise ConfigError(f"unable to open batch script {path}: {error.strerror}") from None
        except ValueError:
            raise ConfigError(f"{path} is no batch script: expected text, found bytes") from None
        if not text.startswith("#!"):
            expected = "expected a first line like #!/bin/sh"
            raise ConfigError(f"{path} is no batch script: {expected}, found none")
        name = path.name
    given = {**userscript.header(text).options, **userscript.from_words(asked.flags, "sbatch")}
    options = {}
    if not given.get("job-name"):
        options["job-name"] = name
    if not given.get("chdir"):
        options["chdir"] = str(folder)
    if not given.get("output"):
        options["output"] = "slurm-%A_%a.out" if given.get("array") else "slurm-%j.out"
    spec: Obj = {"script": text, "options": options}
    if asked.flags:
        spec["flags"] = asked.flags
    if asked.arguments:
        spec["args"] = asked.arguments
    named = _named(asked, str(given.get("job-name") or name))
    kind = {"apiVersion": "slurm.orlop.dev/v1", "kind": "SlurmJob"}
    return {**kind, "metadata": named, "spec": spec}


def _named(asked: Asked, name: str) -> Obj:
    if asked.own.get("name"):
        return {"name": asked.own["name"]}
    low = re.sub(r"[^a-z0-9]+", "-", name.rpartition("/")[2].lower()).strip("-")[:40]
    return {"generateName": f"{low.strip('-') or 'job'}-"}


@slurm.command(
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def sbatch(words: tuple[str, ...]) -> None:
    """Run a batch script, with its #SBATCH lines, as a SlurmJob."""
    if not words or words[0] in ("-h", "--help"):
        click.echo(_HELP, nl=False)
        return
    asked = split(list(words))
    wanted = manifest(asked, Path.cwd())
    if "dry-run" in asked.own:
        import yaml

        click.echo(yaml.safe_dump(wanted, sort_keys=False), nl=False)
        return
    api = connect(asked.own.get("kubeconfig", ""), asked.own.get("context", ""))
    namespace = asked.own.get("namespace") or api.namespace
    made = api.create(f"{GROUP}/namespaces/{quote(namespace)}/slurmjobs", wanted)
    name = meta(made)["name"]
    click.echo(name)
    if asked.own.keys() & {"wait", "follow"}:
        sys.exit(_until_its_end(api, namespace, name, asked.own))


def _until_its_end(api: KubeApi, namespace: str, name: str, own: dict[str, str]) -> int:
    """Its exit code, as `sbatch --wait` has it."""
    has_shown = "follow" not in own
    while True:
        status = _job(api, namespace, name).get("status") or {}
        phase, pod = status.get("phase"), status.get("podName")
        if not has_shown and pod and phase != "Pending":
            _kubectl(own, namespace, "logs", "-f", pod, "--all-containers")
            has_shown = True
            continue
        if phase in ENDED:
            break
        time.sleep(POLL)
    if phase == "Failed":
        click.echo(f"{name}: {status.get('message') or status.get('reason')}", err=True)
    return int(status.get("exitCode") or 0) or (1 if phase == "Failed" else 0)


def _job(api: KubeApi, namespace: str, name: str) -> Obj:
    return api.get(f"{GROUP}/namespaces/{quote(namespace)}/slurmjobs/{quote(name)}")


def _kubectl(own: dict[str, str], namespace: str, *arguments: str) -> None:
    flags = [f"--{one}={own[one]}" for one in ("kubeconfig", "context") if own.get(one)]
    subprocess.run(["kubectl", *flags, "-n", namespace, *arguments], check=False)


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
    container = f"task-{task}" if task else "job"
    if container in _containers(api, namespace, status.get("podName", "")):
        own = {"kubeconfig": kubeconfig, "context": context}
        more = ["-f"] if follow else []
        _kubectl(own, namespace, "logs", status["podName"], "-c", container, *more)
    else:
        click.echo(_output(status, task), nl=False)


def _containers(api: KubeApi, namespace: str, pod: str) -> list[str]:
    """Of the pod that shows a job; none where there is no pod."""
    try:
        found = api.get(f"/api/v1/namespaces/{quote(namespace)}/pods/{quote(pod)}") if pod else {}
    except NotFound:
        return []
    return [container["name"] for container in (found.get("spec") or {}).get("containers") or []]


def _output(status: Obj, task: str) -> bytes:
    """From the file itself, as this host sees it: an array may have more tasks than its pod."""
    if not status.get("stdout"):
        raise ConfigError("only the job itself knows where it prints to; see `scontrol show job`")
    facts = {"A": status["jobId"], "j": status["jobId"], "a": task, "x": status.get("jobName", "")}
    name = userscript.output_file(status["stdout"], facts)
    file = Path(status.get("workingDirectory", "/")) / name
    try:
        return file.read_bytes()
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from None
