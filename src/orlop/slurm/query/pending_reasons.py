"""Says in plain words why Slurm lets a job wait, and what to do about it.

Used for the message of a pending job, so that `kubectl describe` answers "why does it not run?".
Pure. Slurm's own word stays the reason; a word without an entry here is shown as it is.
"""

from __future__ import annotations

import re

# What slurmctld writes instead of a word.
_SENTENCES = (
    ("uid ", "GroupNotAllowed"),  # uid 1000 not in group permitted to use …, since Slurm 23
    ("nodes required for job are down", "NodesNotAvailable"),
    ("launch failed requeued held", "LaunchFailedRequeuedHeld"),
    ("job requeued in held state", "JobHeldAdmin"),
    ("job held by", "JobHeldUser"),
    ("burst buffer", "BurstBufferResources"),
)

_PLAIN: dict[str, tuple[str, str]] = {
    "None": ("Slurm has not looked at it yet", ""),
    "Priority": ("jobs of higher priority are before it", ""),
    "Resources": ("it is first in line and waits for resources to become free", ""),
    "NodesNotAvailable": (
        "the nodes it needs are down, drained or reserved",
        "see `sinfo -R`; another partition or fewer demands may start it sooner",
    ),
    "ReqNodeNotAvail": (
        "nodes it asks for are not available now (down, drained or kept for maintenance)",
        "ask for other nodes, or a time limit that ends before the maintenance",
    ),
    "Dependency": ("it depends on a job that has not ended", ""),
    "DependencyNeverSatisfied": (
        "it depends on a job that ended otherwise than it asks",
        "delete the pod, or clear the dependency with `scontrol update`",
    ),
    "BeginTime": ("its earliest start time has not come", ""),
    "Cleaning": ("it was requeued and its last run is still being cleaned up", ""),
    "JobHeldUser": ("it is held by its user", "`scontrol release JOBID` lets it go"),
    "JobHeldAdmin": ("it is held by an administrator", "ask your site's support"),
    "LaunchFailedRequeuedHeld": (
        "its launch failed on a compute node, so Slurm holds it",
        "`scontrol release JOBID` tries again; tell your site's support if it recurs",
    ),
    "BadConstraints": (
        "no node can ever satisfy what it asks for",
        "lower the requests or correct the constraint",
    ),
    "Licenses": ("it waits for a licence", ""),
    "Reservation": ("it waits for its reservation to start", ""),
    "ReservationDeleted": ("its reservation was deleted", "ask without the reservation"),
    "JobArrayTaskLimit": ("the limit of tasks of its array that run at once is reached", ""),
    "MaxMemPerLimit": ("it asks for more memory than may be asked for", "lower its memory request"),
    "PartitionDown": ("its partition is down", "use another partition, or wait"),
    "PartitionInactive": ("its partition is inactive", "use another partition, or wait"),
    "PartitionNodeLimit": (
        "it asks for more than its partition allows or has",
        "lower its requests or use another partition",
    ),
    "PartitionConfig": (
        "it asks for more than its partition allows or has",
        "lower its requests or use another partition",
    ),
    "GroupNotAllowed": (
        "its partition is for groups of which you are in none",
        "use another partition",
    ),
    "PartitionTimeLimit": (
        "its time limit is longer than its partition allows",
        "shorten `slurm.orlop.dev/time` or use another partition",
    ),
    "InvalidAccount": ("its account is not valid", "set `slurm.orlop.dev/account`"),
    "InvalidQOS": ("its QOS is not valid", "set `slurm.orlop.dev/qos`"),
    "QOSNotAllowed": ("its QOS may not be used with its partition or account", "use another QOS"),
    "QOSUsageThreshold": ("its QOS' usage threshold is breached", "use another QOS"),
    "QOSTimeLimit": ("its QOS' time limit is reached", "use another QOS"),
    "AssociationJobLimit": ("your account's limit of jobs is reached", ""),
    "AssociationResourceLimit": ("your account's limit of resources is reached", ""),
    "AssociationTimeLimit": ("your account's limit of time is reached", "ask for more time"),
    "NodeDown": ("a node it needs is down", ""),
    "Prolog": ("the site's prolog runs", ""),
    "FrontEndDown": ("no front end node can run it", "tell your site's support"),
    "SchedDefer": ("slurmctld defers scheduling under load", ""),
    "DeadLine": ("it cannot end before its deadline", "delete the pod"),
    "BurstBufferResources": ("it waits for the burst buffer", ""),
    "BurstBufferStageIn": ("its burst buffer is being filled", ""),
    "Configuring": ("its nodes are being booted or prepared", ""),
}

# What does not pass by waiting: the job, or the site, must change first.
_NEVER = frozenset({
    "AccountNotAllowed", "BadConstraints", "DeadLine", "DependencyNeverSatisfied",
    "GroupNotAllowed", "InvalidAccount", "InvalidQOS", "MaxMemPerLimit", "PartitionConfig",
    "PartitionNodeLimit", "PartitionTimeLimit", "QOSNotAllowed", "QOSTimeLimit", "QosNotAllowed",
    "ReservationDeleted",
})  # fmt: skip
_OF_ONE_JOB = ("PerJob", "PerJobLimit", "PerNode", "PerNodeLimit")

_THINGS = (
    ("Submit", "submitted jobs"),
    ("Jobs", "running jobs"),
    ("Wall", "run time"),
    ("Cpu", "CPUs"),
    ("Mem", "memory"),
    ("Node", "nodes"),
    ("GRES", "generic resources such as GPUs"),
    ("Billing", "billing units"),
    ("License", "licences"),
    ("Energy", "energy"),
    ("BB", "burst buffer"),
)


def word_of(text: str) -> str:
    """Return Slurm's reason as one word fit for a condition: `ReqNodeNotAvail, Unavailable…` loses
    its tail, and the few whole sentences get a word.
    """
    clean = text.strip().strip("()")
    if not clean or clean in ("None", "null", "N/A"):
        return ""
    low = clean.lower().replace("_", " ")  # scontrol has them between words
    for beginning, word in _SENTENCES:
        if low.startswith(beginning):
            return word
    first = re.match(r"[A-Za-z][A-Za-z0-9_]*", clean)
    if first is None:
        return "Other"
    # A sentence we have not met: its words joined, as reasons are CamelCase words.
    if " " in clean and "," not in clean.split(" ", 1)[0]:
        return "".join(part.capitalize() for part in re.findall(r"[A-Za-z0-9]+", clean)[:6])
    return first.group()


def is_never(text: str) -> bool:
    """Return whether a job with this reason cannot start, however long it waits."""
    word = word_of(text)
    is_limit = word.startswith(("QOS", "Assoc")) and word.endswith(_OF_ONE_JOB)
    return word in _NEVER or is_limit


def is_shared_limit(text: str) -> bool:
    """Return whether the reason is a limit on several jobs together, which one alone may be
    beyond.
    """
    word = word_of(text)
    is_size = "Jobs" not in word and "Submit" not in word and "Minutes" not in word
    return word.startswith(("QOS", "Assoc")) and is_size and not is_never(word)


def in_words(text: str) -> tuple[str, str]:
    """Return what the reason means, and what to do about it; both may be empty."""
    word = word_of(text) or "None"
    if word in _PLAIN:
        return _PLAIN[word]
    if word.startswith(("QOS", "Assoc")):
        return _limit_in_words(word)
    return "", ""


def _limit_in_words(word: str) -> tuple[str, str]:
    """Make the words for QOSMaxCpuPerUserLimit and its eighty relatives: both are built of
    parts.
    """
    owner = "your QOS" if word.startswith("QOS") else "your account"
    thing = next((plain for key, plain in _THINGS if key.lower() in word.lower()), "resources")
    if "minutes" in word.lower():
        thing = f"minutes of {thing}"
    if word.endswith(_OF_ONE_JOB):
        return (
            f"it asks for more {thing} than {owner} allows a single job",
            "lower its requests, or use another QOS or account",
        )
    return f"the limit of {thing} of {owner} is reached", "it starts when other jobs have ended"
