"""Keeps the state of one container: what it is, and where in its runs it stands.

Used by `pod_lifecycle`. It knows the restart policy of its container; what concerns several
containers is decided there.
"""

from __future__ import annotations

from ..linux.fast_imports import signal, value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

WAITING, STARTING, HOOKING = "waiting", "starting", "hooking"
RUNNING, BACK_OFF, ENDED = "running", "backoff", "ended"

STARTUP, LIVENESS, READINESS = "startup", "liveness", "readiness"
POST_START, PRE_STOP = "postStart", "preStop"


@value
class Rule:
    """A container's own rule on what follows some exit codes: another run."""

    operator: str  # In or NotIn
    codes: Sequence[int]

    def matches(self, code: int) -> bool:
        return (code in self.codes) == (self.operator == "In")


@value
class Spec:
    """The facts about one container that the pod lifecycle needs."""

    name: str
    init: bool = False
    stop_signal: int = int(signal.SIGTERM)
    policy: str = ""  # its own restart policy; empty: the pod's
    rules: Sequence[Rule] = ()
    # Probe -> seconds from the stop signal to KILL if it fails; negative: as the pod has it.
    probes: Mapping[str, float] = {}
    hooks: Sequence[str] = ()
    ephemeral: bool = False

    @property
    def is_sidecar(self) -> bool:
        """Return whether it is an init container that stays and runs beside those after it."""
        return self.init and self.policy == "Always"


class Member:
    """One container's state."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.state = WAITING
        self.restart = 0
        self.code: int | None = None  # of the last run
        self.was_started = False  # in any run of this job
        self.delay = 0.0
        self.delayed_at = 0.0  # when `delay` was last raised
        self.retry_at = 0.0
        self.begin_run()

    def begin_run(self) -> None:
        """Forget what was true of the previous run."""
        self.started_at = 0.0
        self.has_started = False  # its startup probe has succeeded, if it has one
        self.is_ready = False
        self.is_unhealthy = False  # a probe failed: it is to run anew, however it ends
        self.is_stopping = False
        self.has_hook_run = False  # that before its stop
        self.is_signalled = False
        self.kill_at: float | None = None

    @property
    def is_alive(self) -> bool:
        return self.state in (STARTING, HOOKING, RUNNING)

    @property
    def has_succeeded(self) -> bool:
        return self.state == ENDED and self.code == 0

    @property
    def health(self) -> dict[str, bool]:
        """Return the results of its probes; empty where no probe has a say."""
        if STARTUP not in self.spec.probes and READINESS not in self.spec.probes:
            return {}
        return {"started": self.has_started, "ready": self.is_ready}

    def restarts(self, pod_policy: str) -> bool:
        """Return whether the policy gives a container that has ended another run."""
        spec, code = self.spec, self.code
        if spec.ephemeral:
            return False
        if code is not None and any(rule.matches(code) for rule in spec.rules):
            return True
        policy = spec.policy or pod_policy
        if policy == "Never":
            return False
        if spec.is_sidecar or self.is_unhealthy:
            return True
        return code != 0 or (policy == "Always" and not spec.init)

    def begin_stop(self, now: float, grace: float) -> None:
        self.is_stopping = True
        self.kill_at = now + grace
        can_hook = PRE_STOP in self.spec.hooks and self.state != STARTING and grace > 0
        self.has_hook_run = not can_hook
        self.is_signalled = grace <= 0  # the next thing it gets is a KILL

    def shorten(self, now: float, grace: float) -> None:
        """Let it take at most `grace` seconds from now, as it is being stopped."""
        if self.kill_at is not None:
            self.kill_at = min(self.kill_at, now + grace)
        if grace <= 0:
            self.is_signalled = True
