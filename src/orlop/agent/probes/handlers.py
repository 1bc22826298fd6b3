"""Carries out what probes and hooks do to a container: one look or one command, with a time-out.

Owned by the supervisor and used in its thread. Commands run in the container as those of `kubectl
exec` do; what goes over the network runs in a thread of its own, which answers through
`Supervisor.call`. Whoever asks hears exactly once, unless the container ended before.
"""

from __future__ import annotations

import os

from ..exec.processes import Exec
from ..linux.fast_imports import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..pod.supervisor import Supervisor

    Done = Callable[["Outcome"], None]

MAX_OUTPUT = 10 * 1024  # as pkg/probe: what is kept of an answer

SUCCESS, WARNING, FAILURE, ERROR = "success", "warning", "failure", "error"


@value
class Outcome:
    """The result of a check; `error`: it could not be tried, which says nothing of containers."""

    result: str
    words: str = ""
    cause: str = ""  # the same without what the container said: that may hold secrets


class Check:
    """One check that is under way."""

    def __init__(self, checks: Checks, container: str, deadline: float | None, done: Done) -> None:
        self._checks, self.container, self.deadline = checks, container, deadline
        self._done: Done | None = done

    def start(self) -> None:
        """Begin; it may be over at once."""

    def finish(self, outcome: Outcome) -> None:
        done, self._done = self._done, None
        self._checks.forget(self)
        self.release()
        if done is not None:
            done(outcome)

    def drop(self) -> None:
        """End it, as nobody wants to know any more."""
        self._done = None
        self.finish(Outcome(ERROR))

    def expire(self) -> None:
        """End it, as its time is over."""
        self.finish(Outcome(FAILURE, "timed out"))

    def release(self) -> None:
        """Give back what it holds, and end what it has begun."""


class Pause(Check):
    """The hook that sleeps: for it, the end of its time is a success."""

    def expire(self) -> None:
        self.finish(Outcome(SUCCESS))


class CommandCheck(Check):
    def __init__(
        self, checks: Checks, container: str, argv: list[str], timeout: float | None, done: Done
    ) -> None:
        supervisor = checks.supervisor
        deadline = None if timeout is None else supervisor.now() + timeout
        super().__init__(checks, container, deadline, done)
        self._argv, self._timeout, self._output = argv, timeout, b""
        self._supervisor = supervisor
        self._read_end, write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        supervisor.watch(self._read_end, self._read)
        null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self._exec = Exec(container, argv, (null, write_end, write_end), self._on_news)

    def start(self) -> None:
        assert self._supervisor.execs is not None, "commands can be run by now"
        self._supervisor.execs.start(self._exec)

    def _read(self) -> bool:
        """Read all there is now; return False at the end of it."""
        while True:
            try:
                data = os.read(self._read_end, 65536)
            except BlockingIOError:
                return True
            if not data:
                self._supervisor.unwatch(self._read_end)
                return False
            self._output = (self._output + data)[:MAX_OUTPUT]

    def _on_news(self, command: Exec) -> None:
        if self._done is None:
            return
        if command.error:
            self.finish(Outcome(ERROR, f"failed to exec in container: {command.error}"))
        elif command.code is not None:
            self._read()
            words, cause = self._output.decode(errors="replace"), f"exit code {command.code}"
            result = SUCCESS if command.code == 0 else FAILURE
            self.finish(Outcome(result, words or cause, cause))

    def expire(self) -> None:
        words = " ".join(self._argv)
        seconds = f"{self._timeout:g}s"
        self.finish(Outcome(FAILURE, f'command timed out: "{words}" timed out after {seconds}'))

    def release(self) -> None:
        self._supervisor.unwatch(self._read_end)
        os.close(self._read_end)
        if self._supervisor.execs is not None and self._exec.code is None:
            self._supervisor.execs.kill(self._exec)


class NetworkCheck(Check):
    def __init__(
        self, checks: Checks, container: str, action: dict[str, Any], timeout: float, done: Done
    ) -> None:
        from .network import Reach

        super().__init__(checks, container, checks.supervisor.now() + timeout, done)
        self._reach = Reach(action, timeout)
        self._call = checks.supervisor.call

    def start(self) -> None:
        import threading  # here already: the kubelet connection is a thread

        threading.Thread(target=self._try, name=f"check {self.container}", daemon=True).start()

    def _try(self) -> None:
        outcome = Outcome(*self._reach.attempt())
        self._call(lambda: self.finish(outcome))

    def expire(self) -> None:
        self.finish(Outcome(FAILURE, self._reach.late()))

    def release(self) -> None:
        self._reach.abandon()


class Checks:
    """All checks that are under way."""

    def __init__(self, supervisor: Supervisor) -> None:
        self.supervisor = supervisor
        self._running: list[Check] = []

    def begin(
        self, container: str, action: dict[str, Any], timeout: float | None, done: Done
    ) -> None:
        """Do what a probe or hook says; `timeout` None gives a command all the time it wants."""
        check: Check
        if "exec" in action:
            argv = [str(word) for word in action["exec"].get("command") or []]
            check = CommandCheck(self, container, argv, timeout, done)
        elif "sleep" in action:
            until = self.supervisor.now() + float(action["sleep"].get("seconds") or 0)
            check = Pause(self, container, until, done)
        else:
            action = self._where(container, action)
            check = NetworkCheck(self, container, action, timeout or 3600.0, done)
        self._running.append(check)
        check.start()

    def _where(self, container: str, action: dict[str, Any]) -> dict[str, Any]:
        """Return the action, for ranks with a host: their ports are their node's, not the pod's."""
        run = self.supervisor.run_of(container)
        if run is None or not run.launch.leads:
            return action
        found = {"host": "127.0.0.1"}
        return {
            kind: {**found, **what} if isinstance(what, dict) else what
            for kind, what in action.items()
        }

    def forget(self, check: Check) -> None:
        if check in self._running:
            self._running.remove(check)

    def drop(self, container: str) -> None:
        """Drop the checks of a container whose run is over."""
        for check in [check for check in self._running if check.container == container]:
            check.drop()

    def next_deadline(self) -> float | None:
        times = [check.deadline for check in self._running if check.deadline is not None]
        return min(times, default=None)

    def tick(self, now: float) -> None:
        for check in list(self._running):
            if check.deadline is not None and now >= check.deadline:
                check.expire()
