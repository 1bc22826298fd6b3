"""Writes the status of jobs of kubeflow.org: conditions, replica counts, events.

Used by the modules that say what is known of an MPIJob or a PyTorchJob. Pure: the moment is passed
in. What a pod's end means for its job is theirs to say.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from ...api.objects import Obj, condition_of, meta
from ...api.times import rfc3339
from ...controllers.framework.status import condition, is_true, with_condition
from .run_policy import is_suspended

EventType = Literal["Normal", "Warning"]
MAX_MESSAGE = 1024


class News(NamedTuple):
    """A condition that is new, and told in an Event."""

    about: str  # the condition
    type: EventType
    reason: str
    message: str


def is_finished(job: Obj) -> bool:
    conditions = (job.get("status") or {}).get("conditions") or []
    return is_true(conditions, "Succeeded") or is_true(conditions, "Failed")


def finished_time(job: Obj) -> str | None:
    """Return when it ended, as its status has it."""
    for kind in ("Succeeded", "Failed"):
        found = condition_of(job, kind)
        if found is not None and found["status"] == "True":
            return str(found["lastTransitionTime"])
    return None


class Statement:
    """The status as it is to be, and what is to be told of it; reasons begin with the kind."""

    def __init__(self, job: Obj, now: float) -> None:
        self.job, self.now, self.kind = job, now, str(job["kind"])
        self.title = f"{self.kind} {meta(job)['namespace']}/{meta(job)['name']}"
        self.status: Obj = {**(job.get("status") or {})}
        self.news: list[News] = []

    def says(self, kind: str) -> bool:
        return is_true(self.status.get("conditions") or [], kind)

    @property
    def is_over(self) -> bool:
        return self.says("Succeeded") or self.says("Failed")

    def say(
        self, kind: str, status: str, reason: str, message: str, told: EventType | None = None
    ) -> bool:
        """Set a condition; return whether that is new. `told` is the type of its Event, if any."""
        former: list[Obj] = self.status.get("conditions") or []
        new = {**condition(kind, status, reason, message[:MAX_MESSAGE], self.now)}
        new["lastUpdateTime"] = new["lastTransitionTime"]
        changed = with_condition(former, new)
        is_news = changed != former
        # The last to change comes last, which is what `kubectl get` shows.
        changed.sort(key=lambda one: one["type"] == kind and is_news)
        self.status["conditions"] = changed
        if is_news and told is not None:
            self.news.append(News(kind, told, reason, message))
        return bool(is_news)

    def renew(self, kind: str) -> None:
        """Report once more what a condition says, though it never ceased to be so."""
        conditions: list[Obj] = self.status["conditions"]
        news = {"lastUpdateTime": rfc3339(self.now)}
        self.status["conditions"] = [
            {**one, **news} if one["type"] == kind else one for one in conditions
        ]

    def begin(self) -> None:
        """Write that it is there, whether it is suspended, and since when it may run."""
        if condition_of(self.job, "Created") is None:
            reason = f"{self.kind}Created"
            self.say("Created", "True", reason, f"{self.title} is created.", "Normal")
        if is_suspended(self.job):
            reason = f"{self.kind}Suspended"
            self.say("Suspended", "True", reason, f"{self.kind} suspended", "Normal")
            return
        if condition_of(self.job, "Suspended") is not None:
            reason = f"{self.kind}Resumed"
            if self.say("Suspended", "False", reason, f"{self.kind} resumed", "Normal"):
                self.status["startTime"] = rfc3339(self.now)
        self.status.setdefault("startTime", rfc3339(self.now))

    def end(self, kind: str, reason: str, message: str) -> None:
        """Write Succeeded or Failed; conditions that held while it ran do not any more."""
        self.status.setdefault("completionTime", rfc3339(self.now))
        for former in ("Running", "Restarting"):
            if self.says(former):
                self.say(former, "False", f"{self.kind}Finished", f"{self.title} is over.")
        self.say(kind, "True", reason, message, "Normal" if kind == "Succeeded" else "Warning")

    def count(self, role: str, selector: dict[str, str], **numbers: int) -> None:
        counts: Obj = {name: number for name, number in numbers.items() if number}
        counts["selector"] = ",".join(f"{key}={value}" for key, value in selector.items())
        self.status["replicaStatuses"] = {
            **(self.status.get("replicaStatuses") or {}),
            role: counts,
        }
