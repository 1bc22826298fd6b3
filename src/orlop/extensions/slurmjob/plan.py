"""Turns a SlurmJob into what is handed to sbatch: options, files, folders; as a value.

Called by the controller before submission, and again whenever it wants to know where a job's output
is; pure. An option may come from several places, from weakest to strongest: the settings, what they
and its annotations say of the namespace, the script's `#SBATCH` lines, `options`, `flags`; the
comment, and the dependency on other SlurmJobs, are Orlop's. What is locked for a namespace, and its
limits, hold as they do for pods.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ...api.objects import Obj, meta, uid_of
from ...errors import ConfigError
from ...settings import SlurmSettings
from ...slurm import durations, hostlist
from ...slurm.query.user_jobs import UserJob, comment_of
from ...slurm.submit import user_script
from ...slurm.submit.user_script import Options
from ...slurm.translate.policy import Policy

SCRIPT, PROGRAM, ENVIRONMENT = "job.sh", "script", "env"
WORK, VOLUMES = "work", "volumes"
_ANY = "\0"  # in a file's name: whatever node it will be


@dataclass(frozen=True)
class Plan:
    """One job as it will be, or was, submitted."""

    folder: Path
    lines: tuple[str, ...]  # of the script, for sbatch
    program: str
    args: tuple[str, ...]
    given: Options  # on sbatch's command line
    effective: Options  # with those of the script

    @property
    def script(self) -> Path:
        return self.folder / SCRIPT

    @property
    def work(self) -> Path:
        """Return the folder in which the job starts."""
        return Path(self.effective["chdir"] or "/")

    def text(self, before: Sequence[str] = ()) -> str:
        """Return what sbatch is given; `before` the program the job does this."""
        program, environment = self.folder / PROGRAM, self.folder / ENVIRONMENT
        return user_script.wrapper(self.lines, str(program), str(environment), before)

    def arguments(self, dependency: str = "") -> list[str]:
        """Return the arguments of sbatch, behind its name."""
        given = dict(self.given)
        if dependency:
            own = given.get("dependency") or self.effective.get("dependency")
            given["dependency"] = f"{own},{dependency}" if own else dependency
            # Else it would wait for ever for what can no longer come.
            if "kill-on-invalid-dep" not in self.effective:
                given["kill-on-invalid-dep"] = "yes"
        return [*user_script.flags(given), str(self.script), *self.args]

    @cached_property
    def tasks(self) -> tuple[int, ...]:
        """Return the numbers of an array's tasks; none if it is no array."""
        array = self.effective.get("array")
        return tuple(user_script.tasks(array)) if array else ()

    @property
    def has_errors_apart(self) -> bool:
        """Return whether what it prints to standard error goes to a file of its own."""
        return self.effective.get("error") not in (None, "", "/dev/null", self.effective["output"])

    def output(self, number: str, task: str = "", seen: UserJob | None = None) -> str:
        """Return the file that a job, or a task, prints to, as far as what was `seen` tells."""
        return self._file(self.effective["output"] or "", number, task, seen)

    def errors(self, number: str, task: str = "", seen: UserJob | None = None) -> str:
        """Return where it prints its errors; empty if to the same file, or to none."""
        template = self.effective.get("error") if self.has_errors_apart else ""
        return self._file(template, number, task, seen) if template else ""

    def is_printed_to(self, file: str, number: str) -> bool:
        """Return whether the job prints to a file, on whichever node it ran."""
        for template in (self.effective["output"], self.effective.get("error")):
            named = self._file(template or "", number, "", None, node=_ANY)
            if template and _is_on_some_node(named, file):
                return True
        return False

    def _file(
        self, template: str, number: str, task: str, seen: UserJob | None, node: str = ""
    ) -> str:
        job = seen.own_number if seen is not None else ""
        nodes = hostlist.expand(seen.node_list) if seen is not None else ()
        facts = {
            "A": number,
            "a": task or "4294967294",
            "j": job or number,
            "J": job or number,
            "N": nodes[0].partition(".")[0] if nodes else node,
            "n": "0",
            "t": "0",
            "s": "batch",
            "u": Path.home().name,
            "x": self.effective.get("job-name") or "",
        }
        return str(self.work / user_script.output_file(template, facts))


def _is_on_some_node(named: str, file: str) -> bool:
    """Return whether `file` is the name with one node put in, the same in each place."""
    places = named.count(_ANY)
    if not places:
        return file == named
    length = (len(file) - len(named)) // places + 1
    begin = named.index(_ANY)
    node = file[begin : begin + length]
    return bool(node) and "/" not in node and named.replace(_ANY, node) == file


def plan_of(
    job: Obj,
    folder: Path,
    settings: SlurmSettings,
    cluster_uid: str,
    policy: Policy | None = None,
) -> Plan:
    """Return the plan; raise ConfigError for what sbatch cannot do.

    Without a `policy` what was allowed once is not judged anew.
    """
    spec = job["spec"]
    script = spec.get("script") or ""
    user_script.refuse_dos(script, "script")
    header = user_script.header(script)
    strong = user_script.from_map(spec.get("options") or {})
    strong |= user_script.from_words(spec.get("flags") or [], "flags")
    if spec.get("array"):
        strong["array"] = spec["array"]
    if spec.get("workingDirectory"):
        strong["chdir"] = spec["workingDirectory"]
    weak = _defaults(settings)
    if policy is not None:
        weak |= _of_namespace(policy)
        strong |= _within(policy, {**header.options, **strong})
    weak |= {"job-name": meta(job)["name"], "chdir": str(folder / WORK)}
    asked = {**header.options, **strong}
    given = {name: value for name, value in weak.items() if name not in asked} | strong
    effective = {**given, **header.options, **strong}
    if not effective.get("output"):
        name = "slurm-%A_%a.out" if effective.get("array") else "slurm-%j.out"
        given["output"] = effective["output"] = str(folder / name)
    chdir = effective.get("chdir") or ""
    if not chdir.startswith("/"):
        found = f"expected an absolute path, found {chdir!r}"
        raise ConfigError(f"workingDirectory: {found}; a relative one has no beginning here")
    given["comment"] = comment_of(cluster_uid, uid_of(job), effective.get("comment") or "")
    plan = Plan(
        folder,
        header.lines,
        user_script.program(script, spec.get("command") or ()),
        tuple(spec.get("args") or ()),
        given,
        effective,
    )
    assert plan.tasks is not None  # an array that cannot be read is refused here
    return plan


def _defaults(settings: SlurmSettings) -> Options:
    named = {
        "partition": settings.partition,
        "account": settings.account,
        "qos": settings.qos,
    }
    flags = user_script.from_words(settings.flags, "the setting slurm.flags")
    return flags | {name: value for name, value in named.items() if value}


def _of_namespace(policy: Policy) -> Options:
    partition = policy.partition()
    return policy.defaults([]) | ({"partition": partition} if partition else {})


def _within(policy: Policy, asked: Options) -> Options:
    """Apply what is fixed for the namespace, and its longest time; raise ConfigError beyond it."""
    fixed = policy.locked(asked)
    policy.check_nodes(asked.get("nodes"))
    most = policy.max_time()
    if most is None or most == durations.UNLIMITED:
        return fixed
    try:
        wanted = durations.seconds(asked.get("time") or "")
    except ValueError as error:
        raise ConfigError(f"--time: {error}") from None
    if wanted is not None and wanted > most:
        words = f"--time={asked['time']}: the namespace {policy.namespace} allows"
        limit = durations.in_words(most)
        raise ConfigError(f"{words} {limit}; ask for less, or use another namespace")
    return fixed if wanted is not None else {**fixed, "time": durations.limit(most)}


def as_pod(job: Obj) -> Obj:
    """Return the variables and volumes of a SlurmJob in the shape in which a pod has them."""
    spec = job["spec"]
    container = {key: spec[key] for key in ("env", "envFrom") if key in spec}
    volumes: Sequence[Obj] = spec.get("volumes") or []
    return {
        "metadata": {key: meta(job)[key] for key in ("name", "namespace", "uid")},
        "spec": {"containers": [{"name": "job", **container}], "volumes": list(volumes)},
    }
