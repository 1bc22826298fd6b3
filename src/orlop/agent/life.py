"""The life of a pod on its node, without any I/O: events in, actions out.

The supervisor tells it what happened (`observe`) and does what it answers; `next_deadline` says
when it wants to be woken. Init containers in order, then the containers, restarts by policy with
back-off, the active deadline, termination with grace, the phase at the end. Times are the
caller's; it reads no clock.
"""

from __future__ import annotations

from .lean import signal, value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Union

# As pkg/kubelet: MaxContainerBackOff and containerBackOffPeriod; a container that lasted twice
# the maximum starts afresh (client-go/util/flowcontrol: hasExpired).
BACK_OFF_START = 10.0
BACK_OFF_MAX = 300.0
BACK_OFF_RESET = 2 * BACK_OFF_MAX
KILL_AGAIN = 5.0  # a KILL that met a container just being started is repeated

WAITING, STARTING, RUNNING, BACK_OFF, ENDED = "waiting", "starting", "running", "backoff", "ended"


@value
class Begin:
    """The sandbox is ready."""


@value
class Started:
    container: str


@value
class NotStarted:
    """The runtime refused; its own words."""

    container: str
    message: str


@value
class Exited:
    container: str
    code: int  # 128 + signal if a signal ended it
    signal: int = 0
    is_oom: bool = False
    message: str = ""


@value
class Terminate:
    """End the pod; `why` is deleted, signal or deadline. May come again with less grace."""

    why: str
    grace: float


@value
class Tick:
    """Time has passed."""


@value
class Start:
    container: str
    restart: int


@value
class Signal:
    container: str
    number: int


@value
class Record:
    """To be written to the journal."""

    fields: dict[str, Any]


@value
class Finish:
    """The pod is over; the agent exits with `code`."""

    code: int


if TYPE_CHECKING:
    Event = Union[Begin, Started, NotStarted, Exited, Terminate, Tick]
    Action = Union[Start, Signal, Record, Finish]


@value
class Spec:
    """What Life needs to know of one container."""

    name: str
    init: bool = False
    stop_signal: int = int(signal.SIGTERM)


@value
class PodSpec:
    title: str  # name_namespace(uid), as upstream's messages have it
    restart_policy: str
    grace: float = 30.0
    deadline: float = 0.0  # seconds the pod may be active; 0: no limit
    active_since: float = 0.0  # when it first was, over all its restarts by the engine


class Member:
    """One container's state."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.state = WAITING
        self.restart = 0
        self.started_at = 0.0
        self.code: int | None = None  # of the last run
        self.delay = 0.0
        self.delayed_at = 0.0  # when `delay` was last raised
        self.retry_at = 0.0
        self.kill_at: float | None = None

    @property
    def is_alive(self) -> bool:
        return self.state in (STARTING, RUNNING)

    @property
    def has_succeeded(self) -> bool:
        return self.state == ENDED and self.code == 0


class Life:
    """The state machine; feed it Begin first."""

    def __init__(self, pod: PodSpec, specs: list[Spec]) -> None:
        self.pod = pod
        self.members = {spec.name: Member(spec) for spec in specs}
        self.terminating = ""  # why
        self.is_finished = False
        self._actions: list[Action] = []

    @property
    def inits(self) -> list[Member]:
        return [member for member in self.members.values() if member.spec.init]

    @property
    def mains(self) -> list[Member]:
        return [member for member in self.members.values() if not member.spec.init]

    def remember(self, records: list[dict[str, Any]]) -> None:
        """Take over restart counts and ends from earlier runs of this job, which was requeued.

        What ended because the engine ended the job has not ended for good; what was running then
        is recorded as lost.
        """
        last: dict[str, dict[str, Any]] = {}
        is_ending = False
        for record in records:
            if record["type"] in ("started", "terminating"):
                is_ending = record["type"] == "terminating"
            elif record["type"] == "container" and record["name"] in self.members:
                last[record["name"]] = {**record, "interrupted": is_ending}
        for name, record in last.items():
            self._remember_one(self.members[name], record)

    def _remember_one(self, member: Member, record: dict[str, Any]) -> None:
        member.restart = record["restart"]
        if record["state"] == "waiting":
            return  # counted already: the next start uses this very number
        if record["state"] == "running":
            reason = "ContainerStatusUnknown"
            message = "The container was lost when its job was requeued"
            fields = {"reason": reason, "message": message, "exitCode": 137}
            self._record(member, "terminated", startedAt=record["startedAt"], **fields)
        member.code = record.get("exitCode")
        is_lost = record["state"] == "running" or record["interrupted"]
        if member.spec.init or is_lost or self._restarts(member):
            member.restart += 1
        else:
            member.state = ENDED

    def observe(self, event: Event, now: float) -> list[Action]:
        """What to do, in order, now that `event` happened."""
        if self.is_finished:
            return []
        handler = _HANDLERS[type(event)]
        handler(self, event, now)
        if not self.is_finished:
            self._advance(now)
        actions, self._actions = self._actions, []
        return actions

    def next_deadline(self) -> float | None:
        """When to observe a Tick, at the latest."""
        if self.is_finished:
            return None
        times = [m.kill_at for m in self.members.values() if m.is_alive and m.kill_at is not None]
        times += [m.retry_at for m in self.members.values() if m.state == BACK_OFF]
        if self.pod.deadline and not self.terminating:
            times.append(self.pod.active_since + self.pod.deadline)
        return min(times, default=None)

    # Events

    def _begin(self, event: Begin, now: float) -> None:
        if self.inits:
            for member in self.mains:
                if member.state == WAITING:
                    self._record(member, "waiting", reason="PodInitializing")

    def _started(self, event: Started, now: float) -> None:
        member = self.members[event.container]
        member.state, member.started_at = RUNNING, now
        self._record(member, "running", startedAt=now)
        self._event("Normal", "Started", f"Started container {member.spec.name}", member)
        if self.terminating:  # it was asked to stop before there was anything to signal
            self._signal(member, now)

    def _not_started(self, event: NotStarted, now: float) -> None:
        member = self.members[event.container]
        self._event("Warning", "Failed", f"Error: {event.message}", member)
        fields = {"reason": "StartError", "message": event.message, "exitCode": 128}
        self._ended(member, now, 128, {**fields, "startedAt": now})

    def _exited(self, event: Exited, now: float) -> None:
        member = self.members[event.container]
        reason = "Completed" if event.code == 0 else "Error"
        fields: dict[str, Any] = {"reason": "OOMKilled" if event.is_oom else reason}
        if event.message:
            fields["message"] = event.message
        fields["startedAt"] = member.started_at or now
        fields["exitCode"] = event.code
        if event.signal:
            fields["signal"] = event.signal
        self._ended(member, now, event.code, fields)

    def _ended(self, member: Member, now: float, code: int, fields: dict[str, Any]) -> None:
        member.code, member.kill_at = code, None
        self._record(member, "terminated", **fields, finishedAt=now)
        if self.terminating or not self._restarts(member):
            member.state = ENDED
        else:
            self._back_off(member, now)

    def _terminate(self, event: Terminate, now: float) -> None:
        if self.terminating:
            for member in self.members.values():
                if member.is_alive and member.kill_at is not None:
                    member.kill_at = min(member.kill_at, now + event.grace)
        else:
            self._begin_termination(event.why, event.grace, now)
        self._kill_overdue(now)

    def _begin_termination(self, why: str, grace: float, now: float) -> None:
        self.terminating = why
        self._actions.append(Record({"type": "terminating", "why": why, "grace": grace}))
        for member in self.members.values():
            if member.is_alive:
                member.kill_at = now + grace
                name = member.spec.name
                self._event("Normal", "Killing", f"Stopping container {name}", member)
                if member.state == RUNNING and grace > 0:
                    self._signal(member, now)
            else:
                member.state = ENDED

    def _tick(self, event: Tick, now: float) -> None:
        limit = self.pod.active_since + self.pod.deadline if self.pod.deadline else now + 1
        if now >= limit and not self.terminating:
            self._begin_termination("deadline", self.pod.grace, now)
        self._kill_overdue(now)
        for member in self.members.values():
            if member.state == BACK_OFF and now >= member.retry_at:
                member.state = WAITING

    # Parts

    def _restarts(self, member: Member) -> bool:
        """Whether the policy gives a container that has ended another run."""
        if self.pod.restart_policy == "Never":
            return False
        return member.code != 0 or (self.pod.restart_policy == "Always" and not member.spec.init)

    def _back_off(self, member: Member, now: float) -> None:
        """As kubelet's doBackOff: the first restart is at once, the following wait longer."""
        if not member.delay or now - member.delayed_at > BACK_OFF_RESET:
            member.delay, wait = BACK_OFF_START, 0.0
        else:
            wait = member.delay
            member.delay = min(2 * member.delay, BACK_OFF_MAX)
        member.restart += 1
        member.delayed_at = now + wait
        member.retry_at = now + wait
        member.state = BACK_OFF if wait else WAITING
        if wait:
            name = member.spec.name
            text = f"restarting failed container={name} pod={self.pod.title}"
            message = f"back-off {_duration(wait)} {text}"
            self._record(member, "waiting", reason="CrashLoopBackOff", message=message)
            text = f"Back-off restarting failed container {name} in pod {self.pod.title}"
            self._event("Warning", "BackOff", text, member)

    def _kill_overdue(self, now: float) -> None:
        for member in self.members.values():
            if member.is_alive and member.kill_at is not None and now >= member.kill_at:
                self._actions.append(Signal(member.spec.name, int(signal.SIGKILL)))
                member.kill_at = now + KILL_AGAIN

    def _signal(self, member: Member, now: float) -> None:
        is_overdue = member.kill_at is not None and now >= member.kill_at
        number = int(signal.SIGKILL) if is_overdue else member.spec.stop_signal
        self._actions.append(Signal(member.spec.name, number))

    def _advance(self, now: float) -> None:
        """Start what may start now; finish when nothing is left to do."""
        if self._is_over():
            self._finish()
        elif not self.terminating:
            for member in self._due():
                member.state = STARTING
                self._actions.append(Start(member.spec.name, member.restart))

    def _due(self) -> list[Member]:
        for member in self.inits:
            if not member.has_succeeded:
                return [member] if member.state == WAITING else []
        return [member for member in self.mains if member.state == WAITING]

    def _is_over(self) -> bool:
        if self.terminating or self._failed_init() is not None:
            return not any(member.is_alive for member in self.members.values())
        return all(member.state == ENDED for member in self.mains)

    def _failed_init(self) -> Member | None:
        ended = (m for m in self.inits if m.state == ENDED and m.code != 0)
        return next(ended, None)

    def _finish(self) -> None:
        self.is_finished = True
        failed = [m for m in self.members.values() if m.code != 0]
        phase, reason, message = "Failed" if failed else "Succeeded", "", ""
        if self.terminating == "deadline":
            phase, reason = "Failed", "DeadlineExceeded"
            message = "Pod was active on the node longer than the specified deadline"
        elif self.terminating == "signal":
            phase, reason = "Failed", "Terminated"
            message = "The job that ran this pod was told to end"
        fields = {"type": "finished", "phase": phase, "reason": reason, "message": message}
        code = next((m.code for m in failed if m.code), 1) if phase == "Failed" else 0
        self._actions += [Record(fields), Finish(code)]

    def _record(self, member: Member, state: str, **fields: Any) -> None:
        head = {"type": "container", "name": member.spec.name, "init": member.spec.init}
        self._actions.append(Record({**head, "restart": member.restart, "state": state, **fields}))

    def _event(self, kind: str, reason: str, message: str, member: Member) -> None:
        fields = {"type": "event", "kind": kind, "reason": reason, "message": message}
        self._actions.append(Record({**fields, "container": member.spec.name}))


_HANDLERS: dict[type, Any] = {
    Begin: Life._begin,
    Started: Life._started,
    NotStarted: Life._not_started,
    Exited: Life._exited,
    Terminate: Life._terminate,
    Tick: Life._tick,
}


def _duration(seconds: float) -> str:
    """As Go prints a duration: 10s, 1m20s, 5m0s."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
