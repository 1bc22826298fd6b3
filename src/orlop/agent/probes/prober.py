"""Schedules probes: when each is due, what follows from its results, and what is told of them.

The supervisor begins with a container when the pod lifecycle says so, and ticks; thresholds are
counted here, and what they make of the results is told to the pod lifecycle. Nothing of this is
imported in a pod that has no probes. As pkg/kubelet/prober/worker.go.
"""

from __future__ import annotations

from ..container.container_state import LIVENESS, READINESS, STARTUP
from ..linux.fast_imports import value
from ..pod.lifecycle_events import Probed
from .handlers import ERROR, FAILURE, WARNING, Checks, Outcome

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from ..pod.supervisor import Supervisor

# One object may have 25 events at once, then one now and then, as client-go's spam filter has it:
# some are left for what is not a probe's.
BURST, REFILL = 20, 300.0


@value
class ProbeSpec:
    kind: str
    action: dict[str, Any]
    delay: float
    period: float
    timeout: float
    successes: int
    failures: int


def probe_spec(kind: str, raw: Mapping[str, Any]) -> ProbeSpec:
    """Return a probe of the plan, which has the form that the pod's has."""
    return ProbeSpec(
        kind,
        dict(raw),
        delay=float(raw.get("initialDelaySeconds") or 0),
        period=float(raw.get("periodSeconds") or 10),
        timeout=float(raw.get("timeoutSeconds") or 1),
        successes=int(raw.get("successThreshold") or 1),
        failures=int(raw.get("failureThreshold") or 3),
    )


class Probe:
    """One probe of one run: pure."""

    def __init__(self, spec: ProbeSpec, since: float) -> None:
        self.spec = spec
        self.next_at = since + spec.delay
        self.is_under_way = False
        # What a container is taken for before anything is known.
        self.verdict: bool | None = {LIVENESS: True, READINESS: False}.get(spec.kind)
        self._last: bool | None = None
        self._run = 0

    def begin(self, now: float) -> None:
        self.is_under_way = True
        self.next_at = now + self.spec.period

    def end(self, now: float, is_good: bool | None) -> bool:
        """Take a result, or that there was none; return whether it has changed the verdict."""
        self.is_under_way = False
        self.next_at = max(self.next_at, now)
        if is_good is None:
            return False
        self._run = self._run + 1 if is_good == self._last else 1
        self._last = is_good
        threshold = self.spec.successes if is_good else self.spec.failures
        if self._run < threshold or is_good == self.verdict:
            return False
        self.verdict = is_good
        return True


class _Watched:
    """The probes of one run of a container."""

    def __init__(self, restart: int, probes: list[Probe]) -> None:
        self.restart = restart
        self.probes = {probe.spec.kind: probe for probe in probes}

    def due(self, is_ending: bool) -> list[Probe]:
        """Return those that may run now: before it has started, just the startup probe."""
        startup = self.probes.get(STARTUP)
        if startup is not None and startup.verdict is not True:
            return [] if startup.verdict is False or is_ending else [startup]
        found = [probe for kind, probe in self.probes.items() if kind != STARTUP]
        if is_ending or any(p.spec.kind == LIVENESS and p.verdict is False for p in found):
            # It is being stopped: whether it should be is asked no more.
            found = [probe for probe in found if probe.spec.kind == READINESS]
        return [probe for probe in found if not probe.is_under_way]


class Allowance:
    """Limits how many events may be told: many at once, then few."""

    def __init__(self, now: float) -> None:
        self._left, self._filled_at = float(BURST), now

    def take(self, now: float) -> bool:
        self._left = min(float(BURST), self._left + (now - self._filled_at) / REFILL)
        self._filled_at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


class Prober:
    def __init__(
        self, supervisor: Supervisor, checks: Checks, is_ending: Callable[[], bool]
    ) -> None:
        self._supervisor, self._checks, self._is_ending = supervisor, checks, is_ending
        self._watched: dict[str, _Watched] = {}
        self._allowance = Allowance(supervisor.now())

    def watch(
        self, container: str, restart: int, since: float, probes: Mapping[str, Mapping[str, Any]]
    ) -> None:
        specs = [probe_spec(kind, raw) for kind, raw in probes.items()]
        self._watched[container] = _Watched(restart, [Probe(spec, since) for spec in specs])

    def drop(self, container: str) -> None:
        self._watched.pop(container, None)

    def next_deadline(self) -> float | None:
        is_ending = self._is_ending()
        times = [probe.next_at for w in self._watched.values() for probe in w.due(is_ending)
                 if not probe.is_under_way]  # fmt: skip
        return min(times, default=None)

    def tick(self, now: float) -> None:
        is_ending = self._is_ending()
        for container, watched in list(self._watched.items()):
            for probe in watched.due(is_ending):
                if now >= probe.next_at and not probe.is_under_way:
                    self._begin(container, watched, probe, now)

    def _begin(self, container: str, watched: _Watched, probe: Probe, now: float) -> None:
        def done(outcome: Outcome) -> None:
            if self._watched.get(container) is watched:
                self._on_outcome(container, watched, probe, outcome)

        probe.begin(now)
        self._checks.begin(container, probe.spec.action, probe.spec.timeout, done)

    def _on_outcome(
        self, container: str, watched: _Watched, probe: Probe, outcome: Outcome
    ) -> None:
        now = self._supervisor.now()
        self._tell(container, probe.spec.kind, outcome, now)
        is_good = None if outcome.result == ERROR else outcome.result != FAILURE
        if not probe.end(now, is_good):
            return
        verdict = Probed(container, watched.restart, probe.spec.kind, bool(is_good))
        self._supervisor.post(verdict)

    def _tell(self, container: str, kind: str, outcome: Outcome, now: float) -> None:
        """Tell an event for every look that was not well, as pkg/kubelet/prober/prober.go does."""
        word = kind.capitalize()
        if outcome.result == FAILURE:
            event = ("Unhealthy", f"{word} probe failed: {outcome.words}")
        elif outcome.result == ERROR:
            words = f"{word} probe errored and resulted in unknown state: {outcome.words}"
            event = ("Unhealthy", words)
        elif outcome.result == WARNING:
            event = ("ProbeWarning", f"{word} probe warning: {outcome.words}")
        else:
            return
        if self._allowance.take(now):
            fields = {"type": "event", "kind": "Warning", "reason": event[0]}
            self._supervisor.record({**fields, "message": event[1], "container": container})
