"""Carries out the pod lifecycle: starts, signals and reaps containers, keeps the journal.

`main` runs it as the first process of the pod; `pod_lifecycle` decides, and this does, in one
thread that sleeps in poll() until a pipe, a child, the kubelet connection or a deadline wakes it.
Records are durable before anyone is told. It does not wait for the control plane.
"""

from __future__ import annotations

import os
import select
import time

from ... import wellknown
from ..container.container_setup import Workshop
from ..container.logs import forget_runs
from ..container.run import Run
from ..linux.fast_imports import signal
from ..linux.job_output import Sayings
from ..linux.process import children, reaped, session_of
from ..plan import Container, Plan
from . import lifecycle_events
from .journal import Journal
from .pod_lifecycle import Life
from .volumes import VolumeError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..exec.processes import Execs
    from ..netd.netd_supervisor import NetdSupervisor
    from ..probes.handlers import Checks, Outcome
    from ..probes.prober import Prober

JOURNAL_RETRY = 1.0  # seconds between attempts to write to a full disk
JOURNAL_RETRIES = 5  # at the end of the pod, when all else is done


class Clock:
    """Unix time that does not jump: the wall's at start, then the monotonic clock's steps."""

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def now(self) -> float:
        return time.monotonic() + self._offset


class Supervisor:
    def __init__(
        self, plan: Plan, machine: Life, journal: Journal, workshop: Workshop, folder: str
    ) -> None:
        self._plan, self._life, self._journal = plan, machine, journal
        self._workshop, self._folder = workshop, folder
        self._containers = {container.name: container for container in plan.containers}
        self._runs: dict[str, Run] = {}
        self._strangers: dict[int, int] = {}  # ended before their launcher told us of them
        self.now = Clock().now
        self._begun = self.now()
        self._poll = select.poll()
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._poll.register(self._wake_read, select.POLLIN)
        self._inbox: list[lifecycle_events.Event] = []
        self._grace = plan.pod.grace  # what a signal of the engine's leaves of it
        self._exit_code: int | None = None
        self._calls: list[Callable[[], None]] = []
        self._sayings = Sayings("orlop agent")
        self._watches: dict[int, Callable[[], object]] = {}  # descriptor -> what reads it
        self._checks: Checks | None = None
        self._prober: Prober | None = None
        self._network: NetdSupervisor | None = workshop.network
        self.execs: Execs | None = None  # nobody can ask before the kubelet connection is there
        self.on_records: Callable[[], None] = lambda: None
        self.on_log: Callable[[], None] = lambda: None

    # From outside

    def post(self, event: lifecycle_events.Event) -> None:
        """Hand over an event from another thread."""
        self._inbox.append(event)
        self._wake()

    def call(self, what: Callable[[], None]) -> None:
        """Queue a function for this thread; called from another."""
        self._calls.append(what)
        self._wake()

    def _wake(self) -> None:
        try:
            os.write(self._wake_write, b"\0")
        except BlockingIOError:
            pass  # it will wake anyway

    def run_of(self, name: str) -> Run | None:
        """Return the present run of a container, if it has one."""
        return self._runs.get(name)

    def all_runs(self) -> list[Run]:
        """Return the present runs of all containers (asked by the kubelet connection)."""
        return list(self._runs.values())

    def is_log_open(self, name: str, restart: int) -> bool:
        """Return whether more lines may come (asked by the kubelet connection)."""
        run = self._runs.get(name)
        return run is not None and run.box.restart == restart

    @property
    def kubelet(self) -> dict[str, str]:
        """Return where the control plane is, as the plan has it."""
        return self._plan.kubelet

    def add(self, container: Container) -> None:
        """Add an ephemeral container; one that is known already is left as it is."""
        if container.name not in self._containers:
            self._containers[container.name] = container
            self._plan.containers.append(container)  # the kubelet connection serves its log
            self._observe(lifecycle_events.Add(container.spec()))

    def watch(self, fd: int, read: Callable[[], object], events: int = select.POLLIN) -> None:
        """Call `read` whenever a descriptor has something, until it is not watched any more."""
        self._watches[fd] = read
        self._poll.register(fd, events)

    def unwatch(self, fd: int) -> None:
        if self._watches.pop(fd, None) is not None:
            self._poll.unregister(fd)

    def watch_signals(self, kill_wait: float) -> None:
        """Take the engine's signals; `kill_wait` is seconds from TERM to KILL, 0 if not known."""
        grace = self._plan.pod.grace
        self._grace = min(grace, max(kill_wait - 2, 1)) if kill_wait else grace
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_terminate)
        if self._life.pod.warning:
            signal.signal(
                self._life.pod.warning, lambda *_: self._inbox.append(lifecycle_events.Warn())
            )

    def watch_orders(self, fd: int) -> None:
        """Read what the leader of a gang tells its members: signals, a byte each."""
        self.watch(fd, lambda: self._take_orders(fd))

    def _take_orders(self, fd: int) -> None:
        orders = os.read(fd, 64)
        if not orders:
            self.unwatch(fd)
        for number in orders:
            if number == self._life.pod.warning:
                self._inbox.append(lifecycle_events.Warn())
            elif number == signal.SIGTERM:
                self._on_terminate()

    def _on_terminate(self, *_: object) -> None:
        self._inbox.append(lifecycle_events.Terminate("signal", self._grace))

    def record(self, fields: dict[str, Any]) -> None:
        """Add to the journal; durable with the next turn."""
        self._journal.append(fields, self.now())

    # The loop

    def begin(self, started: Callable[[], dict[str, Any]]) -> None:
        """Start what comes first; the journal's opening record is made while that starts."""
        actions = self._life.observe(lifecycle_events.Begin(), self.now())
        starts = [action for action in actions if isinstance(action, lifecycle_events.Start)]
        for start in starts:
            self._act(start)
        if self._network is not None:  # while the runtimes are at work
            self._network.start(self.watch, self.unwatch, self.now)
        self.record(started())
        for action in actions:
            if action not in starts:
                self._act(action)

    def run(self) -> int:
        """Run until the pod is over; return the agent's exit code."""
        self._flush()
        while self._exit_code is None:
            for fd, _ in self._poll.poll(self._timeout()):
                self._on_readable(fd)
            self._turn()
        self._let_go()
        for _ in range(JOURNAL_RETRIES):
            if self._journal.is_behind:
                time.sleep(JOURNAL_RETRY)
                self._flush()
        return self._exit_code

    def _turn(self) -> None:
        """Do all that is due, then write the journal once for all of it."""
        self._reap()
        for run in list(self._runs.values()):
            if run.drain_until is not None and self.now() >= run.drain_until:
                run.stop_draining()
            self._settle(run)
        while self._inbox:
            self._observe(self._inbox.pop(0))
        self._do_calls()
        for each in (self.execs, self._checks, self._prober, self._network):
            if each is not None:
                each.tick(self.now())
        while self._inbox:  # what checks have just found
            self._observe(self._inbox.pop(0))
        deadline = self._life.next_deadline()
        if deadline is not None and self.now() >= deadline:
            self._observe(lifecycle_events.Tick())
        self._flush()

    def _do_calls(self) -> None:
        """Do what others asked for: a request that makes no sense must not end the pod."""
        while self._calls:
            what = self._calls.pop(0)
            try:
                what()
            except Exception as error:
                self._sayings.say(f"not done, as the kubelet asked for it: {error!r}")

    def _let_go(self) -> None:
        """Tell those who ran commands in containers that these have ended."""
        self._do_calls()
        if self.execs is not None:
            self.execs.abandon()
        if self._network is not None:
            self._network.stop()

    def _timeout(self) -> int | None:
        """Return the milliseconds until something is due."""
        times = [run.drain_until for run in self._runs.values()]
        timed = (self.execs, self._checks, self._prober, self._network)
        times += [each.next_deadline() for each in timed if each is not None]
        due = [when for when in (*times, self._life.next_deadline()) if when is not None]
        if self._journal.is_behind:
            due.append(self.now() + JOURNAL_RETRY)
        if self._inbox or self._calls:
            return 0
        return max(0, int((min(due) - self.now()) * 1000) + 1) if due else None

    def _on_readable(self, fd: int) -> None:
        if fd == self._wake_read:
            os.read(fd, 4096)
            return
        if fd in self._watches:
            self._watches[fd]()
            return
        run = next((run for run in self._runs.values() if run.owns(fd)), None)
        if run is not None:  # not closed by what came before it in this turn
            run.on_readable(fd)
            self.on_log()

    def _flush(self) -> None:
        if self._journal.flush():
            self.on_records()

    # What the pod lifecycle wants

    def _observe(self, event: lifecycle_events.Event) -> None:
        for action in self._life.observe(event, self.now()):
            self._act(action)

    def _act(self, action: lifecycle_events.Action) -> None:
        if isinstance(action, lifecycle_events.Record):
            is_last = action.fields["type"] == "finished"
            self.record({**action.fields, "usage": self._used()} if is_last else action.fields)
        elif isinstance(action, lifecycle_events.Start):
            self._start(action.container, action.restart)
        elif isinstance(action, lifecycle_events.Signal):
            self._signal(action.container, action.number)
        elif isinstance(action, lifecycle_events.Watch):
            self._begin_probes(action)
        elif isinstance(action, lifecycle_events.RunHook):
            self._begin_hook(action)
        else:
            self._exit_code = action.code

    def _used(self) -> dict[str, Any]:
        from .final_usage import used

        has_ranks = self._plan.ranks is not None
        return used(self.now() - self._begun, self._workshop.peak_memory(), has_ranks)

    def _start(self, name: str, restart: int) -> None:
        """Launch a container; a failure goes to the pod lifecycle as an event, as all else does."""
        logs = os.path.join(self._folder, wellknown.LOGS_DIR, name)
        try:
            forget_runs(logs, restart)
            container = self._containers[name]
            joins = self._process_of(container.target) if container.target else 0
            prepared = self._workshop.prepare(container, restart, joins)
            log = os.path.join(logs, f"{restart}.log")
            self._runs[name] = Run(prepared, log, self._poll)
        except (VolumeError, OSError) as error:
            self._inbox.append(lifecycle_events.NotStarted(name, str(error)))

    def _process_of(self, name: str) -> int:
        run = self._runs.get(name)
        if run is None or not run.pid or run.has_ended:
            raise OSError(f'the target container "{name}" does not run')
        return run.pid

    def _signal(self, name: str, number: int) -> None:
        run = self._runs.get(name)
        if run is not None:
            run.signal(number)

    def _begin_probes(self, wish: lifecycle_events.Watch) -> None:
        from ..probes.prober import Prober  # a pod without probes does not pay for them

        if self._prober is None:
            self._prober = Prober(self, self._have_checks(), lambda: self._life.is_ending)
        probes = self._containers[wish.container].probes
        self._prober.watch(wish.container, wish.restart, wish.since, probes)

    def _begin_hook(self, wish: lifecycle_events.RunHook) -> None:
        def done(outcome: Outcome) -> None:
            is_good = outcome.result in ("success", "warning")
            error = "" if is_good else outcome.cause or outcome.words
            self.post(lifecycle_events.Hooked(wish.container, wish.restart, wish.hook, error))

        action = {**self._containers[wish.container].hooks[wish.hook], "hook": True}
        self._have_checks().begin(wish.container, action, None, done)

    def _have_checks(self) -> Checks:
        if self._checks is None:
            from ..probes.handlers import Checks

            self._checks = Checks(self)
        return self._checks

    def _drop_checks(self, name: str) -> None:
        if self._prober is not None:
            self._prober.drop(name)
        if self._checks is not None:
            self._checks.drop(name)

    # What happens

    def _reap(self) -> None:
        for pid, status in reaped():
            self._on_exit(pid, status)

    def _on_exit(self, pid: int, status: int) -> None:
        if self.execs is not None and self.execs.on_exit(pid, status):
            return
        if self._network is not None and self._network.on_exit(pid, status):
            return
        for run in self._runs.values():
            if pid == run.launcher:
                run.on_launcher_exit(status, self.now())
                if run.has_ended:
                    self._kill_strays(run)
                if run.pid in self._strangers:
                    run.on_exit(self._strangers.pop(run.pid), self.now())
                return
            if pid == run.pid:
                run.on_exit(status, self.now())
                self._kill_strays(run)
                return
        # The container of a launcher that is still to tell us its number, or nobody's child.
        is_awaited = any(not run.pid for run in self._runs.values())
        self._strangers = {**self._strangers, pid: status} if is_awaited else {}

    def _settle(self, run: Run) -> None:
        """Tell the pod lifecycle what has become of a run since it was last told."""
        if run.pid and not run.is_told:
            run.is_told = True
            self._observe(lifecycle_events.Started(run.name))
        if run.refusal is not None:
            self._end(run)
            self._observe(lifecycle_events.NotStarted(run.name, run.refusal))
        elif run.is_over:
            code, number, is_oom = run.exit()
            message = run.message(code)
            if run.failure is not None and not run.is_told_to_end:
                head = {"type": "event", "kind": "Warning", "reason": "RankFailed"}
                self.record({**head, "message": f"container {run.name}: {run.failure}"})
            self._end(run)
            self._observe(lifecycle_events.Exited(run.name, code, number, is_oom, message))

    def _end(self, run: Run) -> None:
        self._drop_checks(run.name)
        run.close()  # its log too, before the kubelet connection learns that no more comes
        del self._runs[run.name]
        self._workshop.discard(run.box)

    def _kill_strays(self, ended: Run) -> None:
        """Kill what a container left behind, where no process namespace dies with it.

        Those of its own session are known; other orphans become ours, but whose they were cannot be
        told: they go when the last container does.
        """
        if ended.box.has_own_pids:
            return
        for pid in {*session_of(ended.session), *session_of(ended.pid)}:
            _kill(pid)
        if self.execs is not None:
            self.execs.drop(ended.name)
        if ended.box.sandbox.has_own_pids:
            return  # the pod's own dies with us
        is_last = all(run.has_ended for run in self._runs.values())
        own = self._network.pid if self._network is not None else 0
        while is_last and (strays := [pid for pid in children(os.getpid()) if pid != own]):
            for pid in strays:
                _kill(pid)
            for pid in strays:
                _, status = os.waitpid(pid, 0)
                if self.execs is not None:
                    self.execs.on_exit(pid, status)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # quicker than we
