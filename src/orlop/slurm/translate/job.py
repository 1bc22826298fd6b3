"""Translates a pod to a `JobSpec`: what sbatch is asked for, as a value.

Called by `jobs` for each submission; pure, so that every rule here is tested as a table. Whether a
request can be met on a partition's real nodes is for Slurm to say.

An option may come from several places. From weakest to strongest:

1. SBATCH_* variables of the user, then `slurm.flags`, `slurm.account` and `slurm.qos` of the
   settings;
2. what the settings, then its own annotations, say of the pod's namespace;
3. the pod's own fields: resources, activeDeadlineSeconds, labels that it selects;
4. what the settings, then its own annotations, say of the pod's PriorityClass;
5. raw flags: those of earlier systems, then `slurm.orlop.dev/flags`;
6. single options: those of slurm-bridge, then `slurm.orlop.dev/<option>`;
7. what the settings lock for the namespace: a pod that asks otherwise is refused;
8. what Orlop keeps for itself (comment, output, …), which cannot be set at all.

Some options are joined instead of replaced: selected features with a `constraint`, the
pod's GPUs, other generic resources and licences with a `gres` or `licenses` that names others, and
the deadline with a `time`: the shorter holds. `slurm.orlop.dev/mpi` and `cpu-bind` are no options
of sbatch but of srun, and become srun's SLURM_MPI_TYPE and SLURM_CPU_BIND.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from ... import wellknown
from ...api.objects import Obj, annotations_of, key_of, uid_of
from ...engine import Surroundings
from ...errors import ConfigError
from ...settings import SlurmSettings
from .. import durations
from . import (
    aliases,
    host_selection,
    placement,
    rank_layout,
    ranks,
    resources,
    sbatch_options,
    signals,
)
from .annotations import OF_SRUN, Options, from_annotations, without_ignored
from .placement import Place
from .policy import Policy
from .signals import EarlySignal

DEFAULT_GRACE = 30
REQUEUE, SUCCESSOR, FAIL = "requeue", "successor", "fail"
_MARGIN = 2  # seconds between the end of the grace and that of the job
_LONG_ENOUGH = 600.0  # seconds of a time limit from which on an early signal costs little of it
# One of these makes no sense beside another of its group.
_RIVALS = (
    frozenset({"cpus-per-task", "cpus-per-gpu"}),
    frozenset({"mem", "mem-per-cpu", "mem-per-gpu"}),
    frozenset({"requeue", "no-requeue"}),
)
_AND_ONLY = re.compile(r"[\w.:=-]+(&[\w.:=-]+)*")


@dataclass(frozen=True, slots=True)
class Site:
    """The facts needed beside the pod: settings, and the limits of the partition it goes to."""

    settings: SlurmSettings
    cluster_uid: str
    path: str = ""  # PATH of the job
    environment: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=dict)  # of the user's SBATCH_* variables
    kill_wait: float = 30.0  # seconds Slurm leaves between TERM and KILL
    default_time: float | None = None
    max_time: float | None = None
    place: Place = field(default_factory=Place)
    around: Surroundings = field(default_factory=Surroundings)


@dataclass(frozen=True, slots=True)
class JobSpec:
    """One batch job; `options` in the order in which they are written into its script."""

    options: tuple[sbatch_options.Option, ...]
    command: tuple[str, ...]
    path: str
    environment: tuple[tuple[str, str], ...]
    prologue: str
    title: str  # for people, in the script's first line
    warnings: tuple[str, ...] = ()

    def value(self, name: str) -> str | None:
        return dict(self.options).get(name)


def comment_of(cluster_uid: str, pod_uid: str) -> str:
    """Return the comment by which a job is known as ours, should everything else be lost."""
    return f"orlop:{cluster_uid}:{pod_uid}"


def pod_uid_of(comment: str, cluster_uid: str) -> str:
    """Return the pod of a job's comment; empty if the job is not of this cluster."""
    prefix = comment_of(cluster_uid, "")
    return comment.removeprefix(prefix) if comment.startswith(prefix) else ""


_ARRAY = "array-"


def array_comment(cluster_uid: str, array: str) -> str:
    """Return the comment of a job array, whose tasks are pods: it has the name of the array's
    folder.
    """
    return comment_of(cluster_uid, _ARRAY + array)


def array_of(comment: str) -> str:
    """Return the array of a job's comment; empty if it is a single pod's."""
    last = comment.rpartition(":")[2]
    return last.removeprefix(_ARRAY) if last.startswith(_ARRAY) else ""


def as_array(spec: JobSpec, name: str, comment: str, folder: str, tasks: int) -> JobSpec:
    """Make a job array of `tasks` jobs like this one; `folder` has a link to each task's pod."""
    changed: Options = {
        "job-name": name,
        "comment": comment,
        "chdir": folder,
        "output": f"{folder}/%a/{wellknown.OUTPUT_FILE}",
        "array": f"0-{tasks - 1}",
    }
    return replace(
        spec,
        options=tuple((dict(spec.options) | changed).items()),
        command=(*spec.command[:-1], folder),
        title=f"{tasks} pods, {name}",
    )


def job_spec(
    pod: Obj, partition: str, folder: str, command: tuple[str, ...], site: Site
) -> JobSpec:
    """Return the job of `pod`; raise ConfigError where it asks for what cannot be."""
    warnings: list[str] = []
    policy = _policy(pod, site)
    own = from_annotations(annotations_of(pod), warnings)
    asked = policy.by_class(warnings) | own
    weaker = _over({**site.defaults, **_from_settings(site.settings)}, policy.defaults(warnings))
    wanted = _over(_over(weaker, _requests(pod, weaker | asked)), asked)
    wanted = _over(wanted, policy.locked(own))
    wanted.setdefault("partition", partition)
    of_node, is_of_tasks = _on_node(pod, weaker | asked)
    warnings += placement.add(wanted, asked, of_node, site.place, is_of_tasks=is_of_tasks)
    of_ranks, shared = _make_room(wanted, asked, pod)
    warnings += shared
    warnings += _add_constraint(wanted, pod, site.place)
    _add_time(wanted, pod, site)
    _keep_to_limits(wanted, own, policy, site)
    early = _early_signal(wanted, pod, site)
    requeue = _requeue(wanted, pod)
    name = str(key_of(pod))
    ours: Options = {
        "job-name": wanted.pop("job-name", None) or name,
        "comment": comment_of(site.cluster_uid, uid_of(pod)),
    }
    last: Options = {
        "chdir": folder,
        # sbatch replaces %j and the like in it, and %% by one.
        "output": f"{folder}/{wellknown.OUTPUT_FILE}".replace("%", "%%"),
        "open-mode": "append",
        "export": "NIL",
        **({"signal": early.option} if early else {}),
        **requeue,
    }
    return JobSpec(
        options=tuple({**ours, **dict(sorted(wanted.items())), **last}.items()),
        command=command,
        path=site.path,
        environment=tuple(sorted((_environment(pod, site, early) | of_ranks).items())),
        prologue=_prologue(pod, site.settings),
        title=f"pod {name}",
        warnings=tuple(warnings),
    )


def requested_partition(pod: Obj) -> str:
    """Return the partition that the pod's own annotations name; empty if it leaves the choice."""
    return requested(pod, "partition")


def requested(pod: Obj, option: str) -> str:
    """Return what the pod's own annotations say of an option; empty where they say nothing."""
    return from_annotations(annotations_of(pod), []).get(option) or ""


def joined_constraint(constraint: str, features: Iterable[str]) -> str:
    """Join both; raise ConfigError where the constraint says more than a list of features."""
    if constraint and not _AND_ONLY.fullmatch(constraint):
        message = f"--constraint={constraint} cannot be joined with a selection of features"
        raise ConfigError(f"{message} ({', '.join(features)}); write them all as one constraint")
    return "&".join(dict.fromkeys([*filter(None, constraint.split("&")), *features]))


def mpi_launcher(pod: Obj) -> tuple[str, ...]:
    """Return what stands before a container's command where an earlier system's mpi-flags ask for
    it.
    """
    annotations = annotations_of(pod)
    asked = from_annotations(annotations, [])
    return aliases.mpi_launcher(annotations, ranks.tasks(asked))


def _from_settings(settings: SlurmSettings) -> Options:
    found = without_ignored(
        sbatch_options.from_words(settings.flags, "slurm.flags in config.yaml"), []
    )
    for name in ("account", "qos"):
        if value := getattr(settings, name):
            found[name] = value
    found.pop("partition", None)  # the node it is bound to decides
    return found


def _over(weaker: Options, stronger: Options) -> Options:
    """Return both, the stronger's word last; it also drives out what it would not go with."""
    driven_out = {name for group in _RIVALS if group & stronger.keys() for name in group}
    return {name: weaker[name] for name in weaker if name not in driven_out} | stronger


def _on_node(pod: Obj, asked: Options) -> tuple[Obj, bool]:
    """Return what is asked of each node; True: of each task, since Slurm says how many a node
    has.
    """
    rank_set = _rank_set(pod)
    if rank_set is None:
        return pod, False
    return ranks.of_node(pod, rank_set, asked), ranks.are_spread_by_slurm(asked)


def _make_room(wanted: Options, asked: Options, pod: Obj) -> tuple[dict[str, str], list[str]]:
    """Make room for containers that run beside ranks; return what the agent must know of that, and
    warnings.
    """
    rank_set = _rank_set(pod)
    return ({}, []) if rank_set is None else rank_layout.add(wanted, asked, pod, rank_set)


def _rank_set(pod: Obj) -> ranks.RankSet | None:
    """Return the rank set if tasks are all ranks: a pod that launches them itself asks for all of
    its node's.
    """
    found = ranks.rank_set(pod)
    return None if found is None or found.launches else found


def _requests(pod: Obj, asked: Options) -> Options:
    rank_set = _rank_set(pod)
    if rank_set is not None:
        return ranks.requests(pod, rank_set, asked)
    demand = resources.demand(pod)
    found: Options = {}
    if demand.cpus:
        found["cpus-per-task"] = str(demand.cpus)
    if demand.memory_mib:
        found["mem"] = f"{demand.memory_mib}M"
    return found


def _add_constraint(wanted: Options, pod: Obj, place: Place) -> list[str]:
    huge, warnings = placement.huge_page_features(pod, place)
    features = host_selection.of_pod(pod).named(wellknown.FEATURE_LABEL_PREFIX)
    if features or huge:
        given = wanted.get("constraint") or ""
        wanted["constraint"] = joined_constraint(given, [*features, *huge])
    return warnings


def _add_time(wanted: Options, pod: Obj, site: Site) -> None:
    """Set the shorter of what is asked for and of the deadline, which the agent keeps to the
    second; Slurm's limit, in minutes, comes after it and its grace period.
    """
    deadline = (pod.get("spec") or {}).get("activeDeadlineSeconds")
    if deadline is None:
        return
    needed = float(deadline) + _grace(pod)
    if site.max_time is not None:
        needed = min(needed, site.max_time)
    asked = _time_of(wanted)
    if asked is None or needed < asked:
        wanted["time"] = durations.limit(needed)


def _policy(pod: Obj, site: Site) -> Policy:
    around = site.around
    priority = (pod.get("spec") or {}).get("priorityClassName") or ""
    return Policy(
        site.settings, key_of(pod).namespace, around.namespace, priority, around.priority_class
    )


def _keep_to_limits(wanted: Options, own: Options, policy: Policy, site: Site) -> None:
    """Apply the limits of the namespace: what the pod itself asks for is refused, what others ask
    is cut.
    """
    policy.check_nodes(own.get("nodes"))
    most, asked = policy.max_time(), _time_of(wanted)
    if most is None or most == durations.UNLIMITED:
        return
    if asked is not None and asked > most and "time" in own:
        words = f"--time={own['time']}: the namespace {policy.namespace} allows"
        limit = durations.in_words(most)
        raise ConfigError(f"{words} {limit}; ask for less, or use another namespace")
    if (asked or site.default_time or durations.UNLIMITED) > most:
        wanted["time"] = durations.limit(most)


def _early_signal(wanted: Options, pod: Obj, site: Site) -> EarlySignal | None:
    """Return the signal that the pod wants ahead of its time limit; else TERM for the agent, where
    Slurm alone would leave too little time, or would signal ranks before their hook has run.

    There is none where the limit is short or unknown: Slurm may send it a whole minute early.
    """
    asked = wanted.pop("signal", None)
    if asked:
        return signals.parse(asked)
    grace = _grace(pod)
    limit = _time_of(wanted) or site.default_time or site.max_time
    is_enough = grace <= site.kill_wait and not ranks.has_hook(pod)
    if is_enough or limit is None or limit == durations.UNLIMITED:
        return None
    lead = int(min(grace + 30, limit / 4))
    return EarlySignal(signal.SIGTERM, lead) if limit >= _LONG_ENOUGH else None


def _requeue(wanted: Options, pod: Obj) -> Options:
    """Return what Slurm may do of itself; a pod that is to be requeued at its limit must be let."""
    if on_timeout(pod) == REQUEUE:
        wanted.pop("no-requeue", None)
        return {"requeue": None}
    return {} if "requeue" in wanted or "no-requeue" in wanted else {"no-requeue": None}


def on_timeout(pod: Obj) -> str:
    """Return what the pod's time limit means for it: requeue, successor, or its end."""
    word = annotations_of(pod).get(wellknown.ON_TIMEOUT, FAIL)
    if word not in (REQUEUE, SUCCESSOR, FAIL):
        expected = f"expected {REQUEUE}, {SUCCESSOR} or {FAIL}"
        raise ConfigError(f"{wellknown.ON_TIMEOUT}: {expected}, found {word!r}")
    return word


def _time_of(wanted: Options) -> float | None:
    text = wanted.get("time")
    try:
        return durations.seconds(text) if text else None
    except ValueError as error:
        raise ConfigError(f"--time: {error}") from None


def _grace(pod: Obj) -> int:
    grace = (pod.get("spec") or {}).get("terminationGracePeriodSeconds")
    return DEFAULT_GRACE if grace is None else int(grace)


def _environment(pod: Obj, site: Site, early: EarlySignal | None) -> dict[str, str]:
    """Return what the agent must know of its job; a TERM that comes early leaves the whole grace,
    any other leaves just what Slurm waits.
    """
    annotations = annotations_of(pod)
    found = {name: annotations[key] for key, name in OF_SRUN.items() if annotations.get(key)}
    if found.get("SLURM_MPI_TYPE") == wellknown.MPI_IN_CONTAINER:
        del found["SLURM_MPI_TYPE"]
    if not (early and early.is_term):
        found[wellknown.KILL_WAIT_ENV] = f"{site.kill_wait:g}"
    if early and not early.is_term:
        found[wellknown.WARNING_ENV] = str(early.number)
        after = early.lead - _grace(pod) - _MARGIN
        if _grace(pod) > site.kill_wait and after > 0:
            found[wellknown.TERM_AFTER_ENV] = str(after)
    if count := annotations.get(wellknown.RESTART_COUNT):
        found[wellknown.RESTARTS_ENV] = count
    return {**site.environment, **found}


def _prologue(pod: Obj, settings: SlurmSettings) -> str:
    lines = [settings.prologue.strip(), annotations_of(pod).get(wellknown.PRE_EXEC, "").strip()]
    return "\n".join(filter(None, lines))
