"""Builds an MPIJob without a launcher: one pod whose ranks srun starts.

Asked by the MPIJob controller, for the annotation `slurm.orlop.dev/launcher`. Pure. What is left of
the launcher's command once mpirun and its options are taken off is what each rank runs; the shape
comes from the workers. How a pod becomes a set of ranks is the business of the annotations
`ntasks`, `ntasks-per-node` and `nodes`.
"""

from __future__ import annotations

import shlex

from ...api.objects import Obj, annotations_of, meta
from ...api.quantity import NANO, Quantity, parse
from ...controllers.workloads.pod_control import deep_copy
from ...slurm.numbers import whole
from ...wellknown import LABEL, SLURM_PREFIX, SRUN_FLAGS
from ..training.run_policy import inherited, is_suspended
from .children import CONFIG_VOLUME, labels, launcher_job, launcher_name, replicas, slots
from .mpirun_arguments import NotStripped, Stripped, strip

LAUNCHER = SLURM_PREFIX + "launcher"
SRUN, MPIRUN = "srun", "mpirun"


def is_by_srun(job: Obj) -> bool:
    return annotations_of(job).get(LAUNCHER, MPIRUN).lower() == SRUN


def rank_set_job(job: Obj) -> Obj:
    """Return the launcher's Job with a rank set: a worker's template and the ranks' command."""
    made = launcher_job(job)
    specs = job["spec"]["mpiReplicaSpecs"]
    launcher = specs["Launcher"]["template"]["spec"]["containers"][0]
    words = [*(launcher.get("command") or []), *(launcher.get("args") or [])]
    try:
        stripped = strip([str(word) for word in words])
    except NotStripped as problem:
        raise NotStripped(f"{LAUNCHER}: {SRUN} {problem}") from None
    template = deep_copy((specs.get("Worker") or specs["Launcher"])["template"])
    spec, metadata = template["spec"], template.setdefault("metadata", {})
    container = spec["containers"][0]
    for field in ("args", "readinessProbe", "livenessProbe", "startupProbe"):
        container.pop(field, None)
    container["command"] = stripped.argv
    _as_oneself(spec, container)
    _merge(container, launcher, stripped)
    _merge_volumes(spec, container, specs["Launcher"]["template"]["spec"])
    spec["restartPolicy"] = made["spec"]["template"]["spec"]["restartPolicy"]
    spec["hostname"], spec["subdomain"] = launcher_name(job), meta(job)["name"]
    metadata["labels"] = {**(metadata.get("labels") or {}), **labels(job, "launcher")}
    given = {**inherited(job), **(metadata.get("annotations") or {})}
    asked = shape(job, stripped)
    metadata["annotations"] = {**_srun_annotations(stripped), **given, **asked}
    _share(container, _ranks_of_node(asked[SLURM_PREFIX + "ntasks-per-node"]))
    made["spec"]["template"] = template
    assert CONFIG_VOLUME not in str(spec.get("volumes")), "a rank set has no hostfile"
    if is_suspended(job):
        made["spec"]["suspend"] = True
    return made


def _as_oneself(spec: Obj, container: Obj) -> None:
    """Run as the user whose srun it is: PMIx answers no other user."""
    for holder in (spec, container):
        context = holder.get("securityContext") or {}
        kept = {name: value for name, value in context.items() if not name.startswith("runAs")}
        holder.pop("securityContext", None)
        if kept:
            holder["securityContext"] = kept


def _ranks_of_node(text: str) -> int:
    number = whole(text)
    if not number:
        raise NotStripped(f"{SLURM_PREFIX}ntasks-per-node: expected a number, found {text[:50]!r}")
    return number


def _share(container: Obj, ranks: int) -> None:
    """Divide what a worker asks for among its ranks: a rank set's container is each one's."""
    resources = container.get("resources") or {}
    for given in (resources.get("limits") or {}, resources.get("requests") or {}):
        for name, text in given.items():
            whole = parse(text)
            unit = NANO // 1000 if name == "cpu" else NANO
            part = whole.nanos // unit // ranks * unit
            is_counted = name not in ("cpu", "memory", "ephemeral-storage")
            if is_counted and part * ranks != whole.nanos:
                raise NotStripped(
                    f"{LAUNCHER}: {SRUN} cannot divide {text} {name} of a worker among its {ranks} "
                    f"ranks; ask for a multiple of them, or for none and {SLURM_PREFIX}gres"
                )
            given[name] = str(Quantity(part, whole.form))


def _srun_annotations(stripped: Stripped) -> dict[str, str]:
    """Return annotations for what mpirun was told of binding and output, in srun's words."""
    flags = {SRUN_FLAGS: shlex.join(stripped.flags)} if stripped.flags else {}
    return flags | ({LABEL: "true"} if stripped.is_labelled else {})


def shape(job: Obj, stripped: Stripped) -> dict[str, str]:
    """Return how many ranks, and how many to a node: mpirun's own words before the slots."""
    workers = (replicas(job, "Worker") or 1) + bool(job["spec"].get("runLauncherAsWorker"))
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


def _merge(container: Obj, launcher: Obj, stripped: Stripped) -> None:
    """Take variables and folder from the launcher, which was to start the program."""
    env = {one["name"]: one for one in container.get("env") or []}
    env |= {one["name"]: one for one in launcher.get("env") or []}
    env |= {name: {"name": name, "value": value} for name, value in stripped.env.items()}
    sources = [*(container.get("envFrom") or []), *(launcher.get("envFrom") or [])]
    folder = stripped.folder or launcher.get("workingDir") or container.get("workingDir")
    found = {"env": list(env.values()), "envFrom": sources, "workingDir": folder}
    container |= {name: value for name, value in found.items() if value}


def _merge_volumes(spec: Obj, container: Obj, launcher: Obj) -> None:
    """Add volumes that only the launcher mounts; of two with one name the worker's stays."""
    mounts = container.get("volumeMounts") or []
    taken = {one["mountPath"] for one in mounts}
    launchers = launcher["containers"][0].get("volumeMounts") or []
    more = [one for one in launchers if one["mountPath"] not in taken]
    names = {one["name"] for one in spec.get("volumes") or []}
    wanted = {one["name"] for one in more} - names
    volumes = [one for one in launcher.get("volumes") or [] if one["name"] in wanted]
    if more:
        container["volumeMounts"] = [*mounts, *more]
        spec["volumes"] = [*(spec.get("volumes") or []), *volumes]
