"""Decides the lifecycle of a pod on its node, without any I/O: events in, actions out.

The supervisor tells it what happened (`observe`) and does what it answers; `next_deadline` says
when it wants to be woken. Init containers in order, sidecars among them, then the containers;
restarts by policy with back-off, probes and hooks, the active deadline, termination with grace and
in order, the phase at the end. Times are the caller's; it reads no clock.
"""

from __future__ import annotations

from ... import wellknown
from ..container.container_state import (
    BACK_OFF,
    ENDED,
    HOOKING,
    POST_START,
    READINESS,
    RUNNING,
    STARTING,
    STARTUP,
    WAITING,
    Member,
    Spec,
)
from ..linux.fast_imports import signal, value
from . import lifecycle_events
from .lifecycle_events import Finish, Record, RunHook, Signal, Start, Watch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .lifecycle_events import Action, Event

# As pkg/kubelet: MaxContainerBackOff and containerBackOffPeriod; a container that lasted twice
# the maximum starts afresh (client-go/util/flowcontrol: hasExpired).
PAST_DEADLINE = "Pod was active on the node longer than the specified deadline"
BACK_OFF_START = 10.0
BACK_OFF_MAX = 300.0
BACK_OFF_RESET = 2 * BACK_OFF_MAX
KILL_AGAIN = 5.0  # a KILL that may have met nobody is repeated
# From the stop signal to KILL where a hook, or the containers that go first, took all of the
# grace. As pkg/kubelet/kuberuntime: minimumGracePeriodInSeconds.
LAST_GRACE = 2.0


@value
class PodSpec:
    title: str  # name_namespace(uid), as upstream's messages have it
    restart_policy: str
    grace: float = 30.0
    deadline: float = 0.0  # seconds the pod may be active; 0: no limit
    active_since: float = 0.0  # when it first was, over all its restarts by the engine
    warning: int = 0  # the signal that containers get when the time limit is near; 0: none
    term_after: float = 0.0  # seconds from then to the end of the pod; 0: the engine ends it


class Life:
    """The state machine of a pod's lifecycle; feed it Begin first."""

    def __init__(self, pod: PodSpec, specs: list[Spec]) -> None:
        self.pod = pod
        self.members = {spec.name: Member(spec) for spec in specs}
        self.terminating = ""  # why
        self.is_winding_down = False  # the containers have ended, and the sidecars are to
        self._words = ""  # of an eviction
        self._term_at: float | None = None  # when it is to end, after a warning
        self.is_finished = False
        self._actions: list[Action] = []

    @property
    def inits(self) -> list[Member]:
        return [member for member in self.members.values() if member.spec.init]

    @property
    def mains(self) -> list[Member]:
        members = self.members.values()
        return [m for m in members if not m.spec.init and not m.spec.ephemeral]

    @property
    def is_ending(self) -> bool:
        return bool(self.terminating) or self.is_winding_down

    def remember(self, records: list[dict[str, Any]]) -> None:
        """Take over restart counts and ends from earlier runs of this job, which was requeued.

        What ended because the engine ended the job has not ended for good, nor what failed once it
        was warned of that; what was running then is recorded as lost.
        """
        last: dict[str, dict[str, Any]] = {}
        is_ending = is_warned = False
        for record in records:
            if record["type"] in ("started", "terminating"):
                is_ending = record["type"] == "terminating"
                is_warned = is_warned and is_ending
            elif record.get("condition") == wellknown.TIME_LIMIT:
                is_warned = record["status"] == "True"
            elif record["type"] == "container" and record["name"] in self.members:
                has_met_limit = is_warned and record.get("exitCode") != 0
                last[record["name"]] = {**record, "interrupted": is_ending or has_met_limit}
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
        if member.spec.init or is_lost or member.restarts(self.pod.restart_policy):
            member.restart += 1
        else:
            member.state = ENDED

    def observe(self, event: Event, now: float) -> list[Action]:
        """Return what to do, in order, now that `event` happened."""
        if self.is_finished:
            return []
        handler = _HANDLERS[type(event)]
        handler(self, event, now)
        if not self.is_finished:
            self._advance(now)
        actions, self._actions = self._actions, []
        return actions

    def next_deadline(self) -> float | None:
        """Return when to observe a Tick, at the latest."""
        if self.is_finished:
            return None
        times = [m.kill_at for m in self.members.values() if m.is_alive and m.kill_at is not None]
        times += [m.retry_at for m in self.members.values() if m.state == BACK_OFF]
        if self.pod.deadline and not self.is_ending:
            times.append(self.pod.active_since + self.pod.deadline)
        if self._term_at is not None and not self.is_ending:
            times.append(self._term_at)
        return min(times, default=None)

    # Events: containers

    def _begin(self, event: lifecycle_events.Begin, now: float) -> None:
        if self.inits:
            for member in self.mains:
                if member.state == WAITING:
                    self._record(member, "waiting", reason="PodInitializing")

    def _add(self, event: lifecycle_events.Add, now: float) -> None:
        if event.spec.name not in self.members and not self.is_ending:
            self.members[event.spec.name] = Member(event.spec)

    def _started(self, event: lifecycle_events.Started, now: float) -> None:
        member = self.members[event.container]
        member.started_at = now
        self._event("Normal", "Started", f"Started container {member.spec.name}", member)
        if POST_START in member.spec.hooks and not member.is_stopping:
            member.state = HOOKING
            self._actions.append(RunHook(member.spec.name, member.restart, POST_START))
        else:
            self._run(member, now)

    def _run(self, member: Member, now: float) -> None:
        """Go on after the start and its hook: the container may be probed now, or asked to stop."""
        probes = member.spec.probes
        member.state = RUNNING
        if STARTUP not in probes:
            member.has_started = member.was_started = True
            member.is_ready = READINESS not in probes
        self._record(member, "running", startedAt=member.started_at, **member.health)
        if probes and not member.is_stopping:
            self._actions.append(Watch(member.spec.name, member.restart, member.started_at))
        if member.is_signalled:  # the KILL met its launcher, which had done its work
            member.kill_at = now
            self._kill_overdue(now)
        self._signal_if_due(member, now)  # it was asked to before there was anything to signal

    def _not_started(self, event: lifecycle_events.NotStarted, now: float) -> None:
        member = self.members[event.container]
        self._event("Warning", "Failed", f"Error: {event.message}", member)
        fields = {"reason": "StartError", "message": event.message, "exitCode": 128}
        self._ended(member, now, 128, {**fields, "startedAt": now})

    def _exited(self, event: lifecycle_events.Exited, now: float) -> None:
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
        member.code = code
        restarts = not self.is_ending and member.restarts(self.pod.restart_policy)
        member.begin_run()
        self._record(member, "terminated", **fields, finishedAt=now)
        if restarts:
            self._back_off(member, now)
        else:
            member.state = ENDED

    # Events: probes and hooks

    def _probed(self, event: lifecycle_events.Probed, now: float) -> None:
        member = self.members[event.container]
        if member.state != RUNNING or member.restart != event.restart:
            return  # of a run that is over
        if event.probe == READINESS:
            member.is_ready = event.is_good
            self._record_health(member)
        elif not event.is_good:
            self._fail(member, event.probe, now)
        elif event.probe == STARTUP:
            member.has_started = member.was_started = True
            member.is_ready = READINESS not in member.spec.probes
            self._record_health(member)

    def _fail(self, member: Member, probe: str, now: float) -> None:
        """Act on a failed probe, as pkg/kubelet/kuberuntime does.

        See computePodActions and computeInitContainerActions there.
        """
        if member.is_stopping:
            return
        member.is_unhealthy = True
        who = "Init container" if member.spec.init else "Container"
        words = f"{who} {member.spec.name} failed {probe} probe"
        if not member.spec.init and member.restarts(self.pod.restart_policy):
            words += ", will be restarted"
        grace = member.spec.probes[probe]
        self._stop(member, self.pod.grace if grace < 0 else grace, now, words)

    def _hooked(self, event: lifecycle_events.Hooked, now: float) -> None:
        member = self.members[event.container]
        if not member.is_alive or member.restart != event.restart:
            return
        is_start = event.hook == POST_START
        if event.error and not member.is_signalled:
            word = "PostStartHook" if is_start else "PreStopHook"
            self._event("Warning", f"Failed{word}", f"{word} failed: {event.error}", member)
        if not is_start:
            member.has_hook_run = True
            self._signal_if_due(member, now)
        elif member.state == HOOKING and not member.is_stopping:
            if event.error:
                self._stop(member, self.pod.grace, now, "FailedPostStartHook")
            else:
                self._run(member, now)

    # Events: the end

    def _terminate(self, event: lifecycle_events.Terminate, now: float) -> None:
        if self.is_ending:
            for member in self.members.values():
                if member.is_alive:
                    member.shorten(now, event.grace)
        else:
            if event.why == "evicted":
                self._words = event.message
                told = {"kind": "Warning", "reason": "Evicted", "message": event.message}
                self._actions.append(Record({"type": "event", **told}))
            self._begin_termination(event.why, event.grace, now)
        self._kill_overdue(now)

    def _warn(self, event: lifecycle_events.Warn, now: float) -> None:
        """Tell every container that runs; what it does about the warning is its own affair."""
        if self.is_ending:
            return
        told = {"condition": wellknown.TIME_LIMIT, "status": "True", "reason": "Near"}
        message = f"signal {self.pod.warning} was sent ahead of the time limit"
        self._actions.append(Record({"type": "condition", **told, "message": message}))
        words = {"kind": "Normal", "reason": "TimeLimitNear", "message": message}
        self._actions.append(Record({"type": "event", **words}))
        for member in self.members.values():
            if member.state in (HOOKING, RUNNING):
                self._actions.append(Signal(member.spec.name, self.pod.warning))
        if self.pod.term_after and self._term_at is None:
            self._term_at = now + self.pod.term_after

    def _begin_termination(self, why: str, grace: float, now: float) -> None:
        self.terminating = why
        self._actions.append(Record({"type": "terminating", "why": why, "grace": grace}))
        self._stop_all(grace, now)

    def _stop_all(self, grace: float, now: float) -> None:
        for member in self.members.values():
            if member.is_alive:
                self._stop(member, grace, now)
            else:
                member.state = ENDED

    def _tick(self, event: lifecycle_events.Tick, now: float) -> None:
        limit = self.pod.active_since + self.pod.deadline if self.pod.deadline else now + 1
        if now >= limit and not self.is_ending:
            self._event("Normal", "DeadlineExceeded", PAST_DEADLINE)  # as active_deadline.go
            self._begin_termination("deadline", self.pod.grace, now)
        if self._term_at is not None and now >= self._term_at and not self.is_ending:
            self._begin_termination("signal", self.pod.grace, now)
        self._kill_overdue(now)
        for member in self.members.values():
            if member.state == BACK_OFF and now >= member.retry_at:
                member.state = WAITING

    # Parts

    def _back_off(self, member: Member, now: float) -> None:
        """Wait as kubelet's doBackOff: the first restart is at once, the following wait longer."""
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

    def _stop(self, member: Member, grace: float, now: float, words: str = "") -> None:
        """Run the hook, send the stop signal, then KILL, each in turn and all within the grace."""
        if member.is_stopping:
            member.shorten(now, grace)
            return
        member.begin_stop(now, grace)
        name = member.spec.name
        self._event("Normal", "Killing", words or f"Stopping container {name}", member)
        if not member.has_hook_run:
            self._actions.append(RunHook(name, member.restart, "preStop"))
        self._signal_if_due(member, now)

    def _signal_if_due(self, member: Member, now: float) -> None:
        is_running = member.state in (HOOKING, RUNNING) and member.is_stopping
        if not is_running or member.is_signalled or not member.has_hook_run:
            return
        if not self._must_wait(member):
            self._signal(member)

    def _signal(self, member: Member) -> None:
        member.is_signalled = True
        self._actions.append(Signal(member.spec.name, member.spec.stop_signal))

    def _must_wait(self, member: Member) -> bool:
        """Return whether it must outlive others: sidecars end after the containers, the last first.

        As pkg/kubelet/kuberuntime/kuberuntime_termination_order.go.
        """
        if not member.spec.is_sidecar or not self.is_ending:
            return False
        inits = self.inits
        later = [m for m in inits[inits.index(member) + 1 :] if m.spec.is_sidecar]
        return any(m.is_alive for m in [*self.mains, *later])

    def _kill_overdue(self, now: float) -> None:
        for member in self.members.values():
            if member.is_alive and member.kill_at is not None and now >= member.kill_at:
                if member.is_signalled or member.state == STARTING:
                    member.is_signalled = True
                    self._actions.append(Signal(member.spec.name, int(signal.SIGKILL)))
                    member.kill_at = now + KILL_AGAIN
                else:
                    self._signal(member)
                    member.kill_at = now + LAST_GRACE

    def _advance(self, now: float) -> None:
        """Start what may start now; finish when nothing is left to do."""
        if not self.is_ending and self._is_done():
            self.is_winding_down = True
            self._stop_all(self.pod.grace, now)
        if self.is_ending:
            for member in self.members.values():
                self._signal_if_due(member, now)
            if not any(member.is_alive for member in self.members.values()):
                self._finish()
            return
        for member in self._due():
            member.state = STARTING
            self._actions.append(Start(member.spec.name, member.restart))

    def _due(self) -> list[Member]:
        members = self.members.values()
        due = [m for m in members if m.spec.ephemeral and m.state == WAITING]
        for member in self.inits:
            is_past = member.was_started if member.spec.is_sidecar else member.has_succeeded
            if member.state == WAITING:
                due.append(member)
            if not is_past:
                return due
        return due + [member for member in self.mains if member.state == WAITING]

    def _is_done(self) -> bool:
        """Return whether no container has anything left to do; sidecars and ephemeral ones may."""
        failed = (m for m in self.inits if m.state == ENDED and m.code != 0)
        return any(failed) or all(member.state == ENDED for member in self.mains)

    def _finish(self) -> None:
        self.is_finished = True
        counted = [*(m for m in self.inits if not m.spec.is_sidecar), *self.mains]
        failed = [m for m in counted if m.code != 0]
        phase, reason, message = "Failed" if failed else "Succeeded", "", ""
        if self.terminating == "deadline":
            phase, reason, message = "Failed", "DeadlineExceeded", PAST_DEADLINE
        elif self.terminating == "signal":
            phase, reason = "Failed", "Terminated"
            message = "The job that ran this pod was told to end"
        elif self.terminating == "evicted":
            phase, reason, message = "Failed", "Evicted", self._words
        fields = {"type": "finished", "phase": phase, "reason": reason, "message": message}
        code = next((m.code for m in failed if m.code), 1) if phase == "Failed" else 0
        self._actions += [Record(fields), Finish(code)]

    def _record(self, member: Member, state: str, **fields: Any) -> None:
        head = {"type": "container", "name": member.spec.name, "init": member.spec.init}
        self._actions.append(Record({**head, "restart": member.restart, "state": state, **fields}))

    def _record_health(self, member: Member) -> None:
        head = {"type": "health", "name": member.spec.name, "restart": member.restart}
        self._actions.append(Record({**head, **member.health}))

    def _event(self, kind: str, reason: str, message: str, member: Member | None = None) -> None:
        fields = {"type": "event", "kind": kind, "reason": reason, "message": message}
        whose = {"container": member.spec.name} if member is not None else {}
        self._actions.append(Record({**fields, **whose}))


_HANDLERS: dict[type, Any] = {
    lifecycle_events.Begin: Life._begin,
    lifecycle_events.Add: Life._add,
    lifecycle_events.Started: Life._started,
    lifecycle_events.NotStarted: Life._not_started,
    lifecycle_events.Exited: Life._exited,
    lifecycle_events.Probed: Life._probed,
    lifecycle_events.Hooked: Life._hooked,
    lifecycle_events.Warn: Life._warn,
    lifecycle_events.Terminate: Life._terminate,
    lifecycle_events.Tick: Life._tick,
}


def _duration(seconds: float) -> str:
    """Format seconds as Go prints a duration: 10s, 1m20s, 5m0s."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
