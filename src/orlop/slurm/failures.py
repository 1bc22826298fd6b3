"""Reads what Slurm's commands print when they fail, and says what it means for us.

Used by `commands` and by submissions; pure. Every known message has its class and its remedy; what
is not known is an answer of Slurm's all the same, not silence.
"""

from __future__ import annotations

import re

from ..errors import EngineError, EngineUnavailable, SubmitDeferred, SubmitRejected

# One message for limits of size, which stay, and of queued jobs, which pass; newer Slurms name the
# limit in a line before it.
_POLICY = "accounting/qos policy"
_NAMED_LIMIT = re.compile(r"\b(QOS|Assoc)(Max|Min|Grp)\w+")

# Slurm cannot be asked: nothing may be concluded about any job. (text in lower case, remedy)
_SILENT = (
    ("unable to contact slurm controller", "slurmctld may be restarting; Orlop goes on trying"),
    ("socket timed out", "slurmctld is busy; Orlop goes on trying"),
    ("communication connection failure", "slurmctld may be restarting; Orlop goes on trying"),
    ("zero bytes were transmitted or received", "munged may differ between hosts; tell your site"),
    ("protocol authentication error", "munged may be down on this host; tell your site's support"),
    ("munge encode failed", "munged may be down on this host; tell your site's support"),
    ("munge decode failed", "munged or the clocks may differ between hosts; tell your site"),
    ("authentication credential", "munged or the clocks may differ between hosts; tell your site"),
    ("authentication agent", "munged may be down on this host; tell your site's support"),
    ("configuration source", "no slurm.conf is found; set SLURM_CONF or load the slurm module"),
    ("standby mode", "slurmctld is failing over; Orlop goes on trying"),
    ("incompatible versions of client and server", "use the site's own Slurm commands"),
    ("connection refused", "slurmctld or slurmdbd may be restarting; Orlop goes on trying"),
    ("no route to host", "the network to slurmctld is down; Orlop goes on trying"),
    ("talking to the database", "slurmdbd may be down; Orlop goes on trying"),
    ("unable to connect to database", "slurmdbd may be down; Orlop goes on trying"),
    ("resource temporarily unavailable", "this host is out of processes; close some"),
    ("cannot allocate memory", "this host is out of memory; free some"),
)

# sbatch refused for now.
_DEFERRED = (
    ("temporarily unable to accept job", "Slurm holds as many jobs as it can; Orlop tries again"),
    ("unable to create job record, try again", "Slurm is full; Orlop tries again"),
    ("required partition not available", "the partition is closed; Orlop tries again"),
    ("requested partition configuration not available now", "Orlop tries again"),
    ("required node not available", "the nodes are down or reserved; Orlop tries again"),
    ("submitjob", "it goes on when jobs have left the queue"),
    ("submit limit reached", "it goes on when jobs have left the queue"),
    ("reservation not usable now", "Orlop tries again"),
    ("reservation is in use", "Orlop tries again"),
    ("breached requested qos usage threshold", "use another QOS; Orlop tries again"),
    ("db index is being set", "Orlop tries again"),
    ("i/o error writing script", "slurmctld's disk may be full; tell your site's support"),
    ("slurm internal error", "tell your site's support; Orlop tries again"),
)

# sbatch refused for good: (text, what to change, what may be listed as a help).
_REJECTED = (
    ("invalid partition", "choose a partition with `slurm.orlop.dev/partition`", "partitions"),
    ("no partition specified", "name a partition with `slurm.orlop.dev/partition`", "partitions"),
    ("group not permitted to use this partition", "use another partition", "partitions"),
    ("not in this partition", "correct `nodelist` or the partition", "partitions"),
    ("invalid account", "set `slurm.orlop.dev/account`", "accounts"),
    ("invalid qos", "set `slurm.orlop.dev/qos`", "accounts"),
    (_POLICY, "ask for less, or use another account or QOS", "accounts"),
    ("memory specification", "lower the memory request", "partitions"),
    ("memory required", "lower the memory request", "partitions"),
    ("node configuration is not available", "no node has that much: ask for less", "partitions"),
    ("cpu count", "ask for fewer CPUs", "partitions"),
    ("more processors requested", "ask for fewer CPUs", "partitions"),
    ("node count", "correct `slurm.orlop.dev/nodes`", "partitions"),
    ("requested time limit is invalid", "shorten `slurm.orlop.dev/time`", "partitions"),
    ("time limit specification required", "set `slurm.orlop.dev/time`", "partitions"),
    ("invalid --time", "write `slurm.orlop.dev/time` as minutes or D-HH:MM:SS", ""),
    ("gres", "correct the GPU request or `slurm.orlop.dev/gres`; `sinfo -o %G` lists them", ""),
    ("feature", "correct the constraint; `sinfo -o %f` lists the features", ""),
    ("reservation", "correct `slurm.orlop.dev/reservation`; `scontrol show res` lists them", ""),
    ("license", "correct `slurm.orlop.dev/licenses`; `scontrol show lic` lists them", ""),
    ("dependency", "correct `slurm.orlop.dev/dependency`", ""),
    ("invalid node name", "correct `slurm.orlop.dev/nodelist`; `sinfo -N` lists the nodes", ""),
    ("unrecognized option", "this Slurm's sbatch does not have it; correct the annotation", ""),
    ("ambiguous", "write the option's full name in the annotation", ""),
    ("requires an argument", "give the option a value", ""),
    ("unable to open file", "the pod's folder must be readable; see `orlop doctor`", ""),
)


def unavailable(program: str, text: str) -> EngineUnavailable | None:
    """Return the error of a command that found nobody to ask; None if Slurm did answer."""
    low = text.lower()
    for pattern, remedy in _SILENT:
        if pattern in low:
            return EngineUnavailable(f"{program}: {last_words(text)}; {remedy}")
    return None


def submit_error(text: str) -> tuple[EngineError, str]:
    """Return the error for sbatch's words, and what to list beside it: partitions, accounts or
    nothing.
    """
    silent = unavailable("sbatch", text)
    if silent is not None:
        return silent, ""
    low = text.lower()
    words = last_words(text)
    if _POLICY in low and not _NAMED_LIMIT.search(text):
        remedy = "it may be a limit of queued jobs; Orlop tries again"
        return SubmitDeferred(f"sbatch: {words}; {remedy}"), "accounts"
    for pattern, remedy in _DEFERRED:
        if pattern in low:
            return SubmitDeferred(f"sbatch: {words}; {remedy}"), ""
    for pattern, remedy, help_with in _REJECTED:
        if pattern in low:
            return SubmitRejected(f"sbatch: {words}; {remedy}"), help_with
    return SubmitRejected(f"sbatch: {words or 'failed without a word'}; see `man sbatch`"), ""


def is_policy(text: str) -> bool:
    """Return whether sbatch refused for a limit of accounts, which it may not have named."""
    return _POLICY in text.lower()


def last_words(text: str) -> str:
    """Return what a command said in one line, without its own name and level before each line."""
    lines: list[str] = []
    for line in text.strip().splitlines():
        clean = line.strip()
        program, colon, rest = clean.partition(": ")
        if colon and program.startswith("s") and " " not in program:
            clean = rest
        for level in ("error: ", "fatal: ", "warning: "):
            clean = clean.removeprefix(level)
        if clean and not clean.startswith(("Try ", "If munged is up")) and clean not in lines:
            lines.append(clean)
    return ": ".join(lines[-3:])
