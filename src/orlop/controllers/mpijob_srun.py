"""An MPIJob without a launcher: one pod whose ranks srun starts, for `slurm.orlop.dev/launcher`.

Asked by the MPIJob controller. Pure. What is left of the launcher's command once mpirun and its
options are taken off is what each rank runs; the shape comes from the workers. How a pod becomes a
set of ranks is the business of the annotations `ntasks`, `ntasks-per-node` and `nodes`.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import NamedTuple

from ..api.objects import Obj, annotations_of, meta
from ..wellknown import SLURM_PREFIX
from .mpijob_parts import CONFIG_VOLUME, labels, launcher_job, launcher_name, replicas, slots
from .pods import fresh
from .training import inherited, is_suspended

LAUNCHER = SLURM_PREFIX + "launcher"
SRUN, MPIRUN = "srun", "mpirun"
PROGRAMS = ("mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun")
_COUNTS = ("-n", "-np", "--n", "--np", "-c")
_PER_NODE = ("-ppn", "-perhost", "-npernode", "--npernode", "-N", "--ppn")
# Options of OpenMPI's, MPICH's and Intel's launchers that take so many words; all others take none.
_TWO = ("-mca", "--mca", "-gmca", "--gmca", "-prtemca", "--prtemca", "-pmixmca", "--pmixmca")
_SETS = ("-genv", "-env")  # a name and a value
_ONE = (
    "-f", "-H", "-host", "--host", "-hosts", "-hostfile", "--hostfile", "-machinefile",
    "--machinefile", "-bind-to", "--bind-to", "-map-by", "--map-by", "-rank-by", "--rank-by",
    "-wdir", "-wd", "--wdir", "-prefix", "--prefix", "-iface", "-genvlist", "-envlist",
    "-launcher", "-launcher-exec", "-bootstrap", "-bootstrap-exec", "-rmk", "-path", "--path",
    "-outfile-pattern", "-errfile-pattern", "--output-filename", "-output-filename", "-stdin",
    "--stdin", "-rf",
    "--rankfile", "-configfile", "-tune", "--tune", "-am", "--am", "-oversubscribe-to",
)  # fmt: skip


class NotStripped(Exception):
    """The launcher's command is no plain mpirun; the words are for an Event."""


class Stripped(NamedTuple):
    """What mpirun was to start."""

    argv: list[str]
    ranks: int | None
    per_node: int | None
    env: dict[str, str]


def is_by_srun(job: Obj) -> bool:
    return annotations_of(job).get(LAUNCHER, MPIRUN).lower() == SRUN


def strip(words: Sequence[str]) -> Stripped:
    """The program and its arguments, without mpirun and its options."""
    rest = _plain(words)
    if not rest or rest[0].rsplit("/", 1)[-1] not in PROGRAMS:
        raise NotStripped(
            f"{LAUNCHER}: {SRUN} wants a launcher whose command is mpirun or mpiexec, found "
            f"{shlex.join(words)!r}"
        )
    rest = rest[1:]
    ranks: int | None = None
    per_node: int | None = None
    env: dict[str, str] = {}
    while rest and rest[0].startswith("-"):
        option, rest = rest[0], rest[1:]
        if option == "--":
            break
        if option in _COUNTS:
            ranks, rest = _number(option, rest), rest[1:]
        elif option in _PER_NODE:
            per_node, rest = _number(option, rest), rest[1:]
        elif option == "-x":
            name, is_set, value = rest[0].partition("=")
            env |= {name: value} if is_set else {}  # what has no value is in the pod's own
            rest = rest[1:]
        elif option in _SETS:
            env, rest = {**env, rest[0]: rest[1]}, rest[2:]
        elif option in _TWO:
            rest = rest[2:]
        elif option in _ONE:
            rest = rest[1:]
    if not rest or ":" in rest:
        raise NotStripped(f"{LAUNCHER}: {SRUN} wants one program after mpirun, found {rest}")
    return Stripped(rest, ranks, per_node, env)


def _number(option: str, rest: Sequence[str]) -> int:
    if not rest or not rest[0].isdigit():
        raise NotStripped(f"expected a number after {option}, found {list(rest[:1])}")
    return int(rest[0])


def _plain(words: Sequence[str]) -> list[str]:
    """The words of a command; those of a shell's one line where that is no more than one."""
    is_shell = bool(words) and words[0].rsplit("/", 1)[-1] in ("sh", "bash", "dash")
    if not is_shell:
        return list(words)
    if len(words) != 3 or words[1] not in ("-c", "-ec", "-lc"):
        return []
    lexer = shlex.shlex(words[2], posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    found = list(lexer)
    is_simple = not any(set(word) & set(";&|<>()") for word in found) and "$" not in words[2]
    return found if is_simple else []


def rank_set_job(job: Obj) -> Obj:
    """The launcher's Job with the rank set for its pod: a worker's template, the ranks' command."""
    made = launcher_job(job)
    specs = job["spec"]["mpiReplicaSpecs"]
    launcher = specs["Launcher"]["template"]["spec"]["containers"][0]
    words = [*(launcher.get("command") or []), *(launcher.get("args") or [])]
    stripped = strip([str(word) for word in words])
    template = fresh((specs.get("Worker") or specs["Launcher"])["template"])
    spec, metadata = template["spec"], template.setdefault("metadata", {})
    container = spec["containers"][0]
    for field in ("args", "readinessProbe", "livenessProbe", "startupProbe"):
        container.pop(field, None)
    container["command"] = stripped.argv
    _as_oneself(spec, container)
    _merge_env(container, launcher, stripped.env)
    spec["restartPolicy"] = made["spec"]["template"]["spec"]["restartPolicy"]
    spec["hostname"], spec["subdomain"] = launcher_name(job), meta(job)["name"]
    metadata["labels"] = {**(metadata.get("labels") or {}), **labels(job, "launcher")}
    metadata["annotations"] = {
        **inherited(job),
        **(metadata.get("annotations") or {}),
        **shape(job, stripped),
    }
    made["spec"]["template"] = template
    assert CONFIG_VOLUME not in str(spec.get("volumes")), "a rank set has no hostfile"
    if is_suspended(job):
        made["spec"]["suspend"] = True
    return made


def _as_oneself(spec: Obj, container: Obj) -> None:
    """As the user whose srun it is, and not as another: PMIx answers nobody else."""
    for holder in (spec, container):
        context = holder.get("securityContext") or {}
        kept = {name: value for name, value in context.items() if not name.startswith("runAs")}
        holder.pop("securityContext", None)
        if kept:
            holder["securityContext"] = kept


def shape(job: Obj, stripped: Stripped) -> dict[str, str]:
    """How many ranks, and how many to a node: mpirun's own words before the slots."""
    workers = replicas(job, "Worker") or 1
    per_node = stripped.per_node or slots(job) or 1
    ranks = stripped.ranks or workers * per_node
    nodes = min(workers, -(-ranks // per_node))
    found = {"ntasks": ranks, "nodes": nodes, "ntasks-per-node": -(-ranks // nodes)}
    kind = {"OpenMPI": "pmix"}.get(str(job["spec"].get("mpiImplementation") or "OpenMPI"), "pmi2")
    texts = {name: str(number) for name, number in found.items()}
    given = annotations_of(job)
    named = {**texts, "mpi": kind}
    return {
        SLURM_PREFIX + name: given.get(SLURM_PREFIX + name, value) for name, value in named.items()
    }


def _merge_env(container: Obj, launcher: Obj, extra: dict[str, str]) -> None:
    env = {one["name"]: one for one in container.get("env") or []}
    env |= {one["name"]: one for one in launcher.get("env") or []}
    env |= {name: {"name": name, "value": value} for name, value in extra.items()}
    if env:
        container["env"] = list(env.values())
