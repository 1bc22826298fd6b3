"""Leads a gang: starts each member's agent as a step of the one job, and says how each ended.

Started by the batch script as `python -I agent.pyz gang <folder>` on the job's first host. Members
are links in the gang's folder; the kubelet may add some while others run, and marks those that are
not wanted any more. When none runs it takes the next number itself, so that nobody joins a gang
that is over. It is woken ahead of the time limit and then tells each member in time. What happens
in a pod is decided by its agent.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time

from ... import wellknown
from ..linux.fast_imports import dumps, loads
from ..linux.process import exit_of, reaped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

LOOK = 1.0  # seconds between two looks for members that came or left
SETTLE = 1.0  # seconds in which a failed step may turn out to be the end of the whole job
PATIENCE = 60.0  # seconds for which a member that left just before the start may be replaced
TRIES = 3  # to create a step
AGAIN = 2.0
USAGE = 64
MOST_NODES = 65536  # as slurm/hostlist.py
# What srun would take as options for all of its steps, and what only the batch step has.
_DROPPED = (
    "SLURM_NTASKS", "SLURM_NPROCS", "SLURM_TASKS_PER", "SLURM_CPUS_PER", "SLURM_MEM", "SLURM_GPU",
    "SLURM_NNODES", "SLURM_TRES", "SLURM_DISTRIBUTION", "SLURM_EXCLUSIVE", "SLURM_EXACT",
    "SLURM_OVERCOMMIT", "SLURM_HINT", "SLURM_CPU_BIND", "SLURM_NODELIST", "SLURM_SPREAD",
    "SLURM_THREADS", "SLURM_CORES", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_GTIDS",
    "SLURM_STEP", "SLURM_EXPORT_ENV", "SLURM_TASK_PID", "SLURM_CPUS_ON_NODE", "SLURM_JOB_GPUS",
    "SRUN_", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL",
)  # fmt: skip
# What srun and slurmstepd print of a step that did not end by itself, and what that means.
_WORDS = (
    ("DUE TO TIME LIMIT", "TIMEOUT"),
    ("DUE TO NODE FAILURE", "NODE_FAIL"),
    ("error: Node failure on", "NODE_FAIL"),  # and srun ends with 0
    ("DUE TO PREEMPTION", "PREEMPTED"),
    ("oom_kill", "OUT_OF_MEMORY"),
    ("Out Of Memory", "OUT_OF_MEMORY"),
    ("CANCELLED AT", "CANCELLED"),
)
_ALARM = signal.Signals["SIG" + wellknown.ALARM]
_SIGNALS = frozenset({signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, _ALARM})
_FILES = resource.getrlimit(resource.RLIMIT_NOFILE)
# By the interpreter of the control plane's host, or by the node's own, as the batch script does.
_START = 'p=$1; [ -x "$p" ] || p=python3; shift; exec "$p" -I -S -c "$@"'


class Step:
    """One member, and the srun that runs it."""

    def __init__(self, number: int, folder: str, given: Mapping[str, Any]) -> None:
        self.number = number
        self.folder = folder
        self.given = given
        self.pid = 0
        self.tries = 0
        self.output_from = 0  # where in the pod's own output this try's begins
        self.code: int | None = None
        self.due = 0.0  # when to try again, or to believe its end; 0: nothing is due
        self.is_over = False
        self.is_warned = False
        self._orders = -1

    def started(self, pid: int, orders: int) -> None:
        """Note that srun runs; what is written to `orders` is its agent's standard input."""
        self.pid, self._orders = pid, orders

    def order(self, number: int) -> None:
        """Tell its agent a signal.

        A signal of Slurm's to the step would also meet the containers, where Slurm finds the
        processes of a step by their parents.
        """
        if self._orders >= 0:
            try:
                os.write(self._orders, bytes([number]))
            except OSError:
                pass  # it is ending

    def ended(self, code: int) -> None:
        self.pid, self.code = 0, code
        if self._orders >= 0:
            os.close(self._orders)
            self._orders = -1

    @property
    def is_claimed(self) -> bool:
        return os.path.exists(os.path.join(self.folder, wellknown.CLAIM_FILE))


class Leader:
    def __init__(self, folder: str, agent: str, environ: Mapping[str, str]) -> None:
        self._folder = folder
        self._agent = agent
        self._environ = environ
        self._job = environ.get("SLURM_JOB_ID", "")
        self._steps: dict[int, Step] = {}
        self._hosts: list[str] = []
        self._is_ending = False
        self._lead = 0.0  # seconds before the time limit at which the alarm comes
        self._alarm: float | None = None  # when it came

    def run(self) -> int:
        """Run until no member is left; return the job's exit code.

        1. Say which host each bundle of resources is on.
        2. Have all members, or none.
        3. Start those that are new, end those that are not wanted, hear of those that ended.
        """
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        # A pipe for each member; their steps keep the limit that there was.
        resource.setrlimit(resource.RLIMIT_NOFILE, (_FILES[1], _FILES[1]))
        self._hosts = hosts_of_bundles(self._environ)  # 1
        self._write(wellknown.BUNDLES_FILE, self._hosts)
        if not self._is_complete():  # 2
            return 1
        while True:  # 3
            if not self._is_ending:
                self._look()
            if all(step.is_over for step in self._steps.values()) and self._close():
                return self._code()
            self._wait()

    # Members

    def _is_complete(self) -> bool:
        """Return whether all are there; wait a while for one that replaces who left just now."""
        kept = self._read(os.path.join(self._folder, wellknown.GANG_FILE))
        size, self._lead = kept["size"], float(kept.get("lead") or 0)
        until = time.monotonic() + PATIENCE
        while True:
            names = os.listdir(self._folder)
            numbers = self._members(names)
            there = [
                n
                for n in numbers
                if f"{n}{wellknown.LEFT_SUFFIX}" not in names and self._has_pod(n)
            ]
            has_begun = any(name.endswith(wellknown.END_SUFFIX) for name in names)
            if len(there) >= size or has_begun:
                return True
            if time.monotonic() > until or self._is_ending or not there:
                words = f"the gang needs {size} members and has {len(there)}: it does not start\n"
                for number in there:
                    self._tell(os.path.join(self._folder, str(number)), words)
                return False
            self._wait()

    def _members(self, names: Iterable[str]) -> list[int]:
        """Return their numbers; one that is no link is the leader's, of a gang that is over."""
        numbers = sorted(int(name) for name in names if name.isdigit())
        return [n for n in numbers if os.path.islink(os.path.join(self._folder, str(n)))]

    def _has_pod(self, number: int) -> bool:
        path = os.path.join(self._folder, str(number), wellknown.MEMBER_FILE)
        return os.path.exists(path)

    def _look(self) -> None:
        names = frozenset(os.listdir(self._folder))
        for number in self._members(names):
            has_left = f"{number}{wellknown.LEFT_SUFFIX}" in names
            step = self._steps.get(number)
            if step is None:
                if f"{number}{wellknown.END_SUFFIX}" not in names:
                    self._admit(number, has_left)
            elif has_left and not step.is_over:
                self._stop(step)

    def _admit(self, number: int, has_left: bool) -> None:
        folder = os.path.realpath(os.path.join(self._folder, str(number)))
        try:
            given = self._read(os.path.join(folder, wellknown.MEMBER_FILE))
        except (OSError, ValueError):
            given, has_left = {}, True  # its pod is gone
        step = self._steps[number] = Step(number, folder, given)
        if has_left:
            step.code = 0
            self._end(step, "CANCELLED")
        else:
            self._start(step)

    def _start(self, step: Step) -> None:
        environment = {k: v for k, v in self._environ.items() if not k.startswith(_DROPPED)}
        environment.update(step.given.get("environment") or {})
        environment["ORLOP_JOB_ID"] = f"{self._job}+{step.number}"
        path = os.path.join(step.folder, wellknown.OUTPUT_FILE)
        bundle = step.given["bundle"]
        host = self._hosts[bundle] if bundle < len(self._hosts) else ""
        argv = [*srun(step.given, host), "/bin/sh", "-c", _START, "orlop"]
        argv += [sys.executable, wellknown.AGENT_LAUNCH, self._agent, step.folder]
        step.tries += 1
        step.code, step.due, step.is_warned = None, 0.0, False
        heard, orders = os.pipe2(os.O_CLOEXEC)
        try:
            with open(path, "ab") as output:
                step.output_from = output.tell()
                child = subprocess.Popen(
                    argv,
                    stdin=heard,
                    stdout=output,
                    stderr=output,
                    env=environment,
                    start_new_session=True,
                    preexec_fn=_as_before,
                )
        except OSError as error:
            os.close(orders)
            self._tell(step.folder, f"srun cannot be started: {error}\n")
            step.code = 127
            self._end(step, "FAILED")
            return
        finally:
            os.close(heard)
        child.returncode = 0  # it is waited for here, and by nobody else
        step.started(child.pid, orders)

    def _stop(self, step: Step) -> None:
        """Send TERM to srun, which ends its step at once."""
        if step.pid:
            _kill(step.pid, signal.SIGTERM)
        elif step.code is None or step.due:
            self._end(step, "CANCELLED")

    # What happens

    def _wait(self) -> None:
        """Wait for a child, a signal, or the next look."""
        now = time.monotonic()
        due = [step.due - now for step in self._steps.values() if step.due]
        due += [self._warn_at(step) - now for step in self._unwarned()]
        got = signal.sigtimedwait(_SIGNALS, max(0.0, min([LOOK, *due])))
        if got is not None and got.si_signo == _ALARM:
            self._alarm = self._alarm or time.monotonic()
        elif got is not None and got.si_signo in (signal.SIGTERM, signal.SIGINT):
            self._terminate()
        self._reap()
        self._warn()
        for step in self._steps.values():
            if step.due and time.monotonic() >= step.due:
                self._decide(step)

    def _unwarned(self) -> list[Step]:
        """Return the steps that want to hear of the time limit, which is near, and have not."""
        if self._alarm is None or self._is_ending:
            return []
        steps = self._steps.values()
        return [s for s in steps if s.pid and s.given.get("signal") and not s.is_warned]

    def _warn_at(self, step: Step) -> float:
        """Return when to warn: as long before the limit as it wants; at once if that is past."""
        assert self._alarm is not None, "asked for once it came"
        return self._alarm + max(0.0, self._lead - float(step.given["lead"]))

    def _warn(self) -> None:
        for step in self._unwarned():
            if time.monotonic() >= self._warn_at(step):
                step.is_warned = True
                step.order(step.given["signal"])

    def _terminate(self) -> None:
        """End all steps with the job: the engine will say why. Steps may not have heard of it."""
        if not self._is_ending:
            self._is_ending = True
            for step in self._steps.values():
                step.order(signal.SIGTERM)

    def _reap(self) -> None:
        by_pid = {step.pid: step for step in self._steps.values() if step.pid}
        for pid, status in reaped():
            step = by_pid.get(pid)
            if step is not None:
                step.ended(exit_of(status)[0])
                self._ended(step)

    def _ended(self, step: Step) -> None:
        now = time.monotonic()
        if self._is_ending:
            step.is_over = True  # the end of the job is the end of the member
        elif step.code == 0 and self._said(step) != "NODE_FAIL":
            self._end(step, "COMPLETED")
        elif not step.is_claimed and step.tries < TRIES and not self._said(step):
            step.due = now + AGAIN  # not even begun: slurmctld may be busy
        else:
            step.due = now + SETTLE

    def _decide(self, step: Step) -> None:
        """Begin a failed step again, or say that it is over."""
        step.due = 0.0
        if self._is_ending:
            step.is_over = True
        elif not step.is_claimed and step.tries < TRIES and not self._said(step):
            self._start(step)
        else:
            # As of a pod alone that fails after it was told of its limit: that is what it met.
            self._end(step, self._said(step) or ("TIMEOUT" if step.is_warned else "FAILED"))

    def _said(self, step: Step) -> str:
        """Return the state that srun's words about a step mean; empty if it ended by itself."""
        try:
            with open(os.path.join(step.folder, wellknown.OUTPUT_FILE), "rb") as file:
                file.seek(step.output_from)
                text = file.read().decode(errors="replace")
        except OSError:
            return ""
        return next((state for words, state in _WORDS if words in text), "")

    def _end(self, step: Step, state: str) -> None:
        step.is_over, step.due = True, 0.0
        found = {"state": state, "code": step.code or 0, "time": time.time()}
        self._write(f"{step.number}{wellknown.END_SUFFIX}", found)

    def _close(self) -> bool:
        """Take the next number; return False where a member came first."""
        if self._is_ending:
            return True
        numbers = [int(name) for name in os.listdir(self._folder) if name.isdigit()]
        path = os.path.join(self._folder, str(max(numbers, default=-1) + 1))
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            return False
        return True

    def _code(self) -> int:
        """Return one if a member failed and none that came in its place made it good."""
        if self._is_ending:
            return 1
        good = [step for step in self._steps.values() if not step.code]
        failed = [step for step in self._steps.values() if step.code]
        return int(any(not any(_replaces(one, step) for one in good) for step in failed))

    # Files

    def _read(self, path: str) -> Any:
        with open(path, "rb") as file:
            return loads(file.read())

    def _write(self, name: str, found: object) -> None:
        """Write a file, whole or not at all: the kubelet may look at any moment."""
        path = os.path.join(self._folder, name)
        draft = os.path.join(self._folder, f".{name}.new")
        with open(draft, "w") as file:
            file.write(dumps(found))
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)

    def _tell(self, folder: str, words: str) -> None:
        try:
            with open(os.path.join(folder, wellknown.OUTPUT_FILE), "a") as file:
                file.write(f"orlop agent: {words}")
        except OSError:
            pass  # its pod is gone


def _replaces(later: Step, earlier: Step) -> bool:
    shape = ("bundle", "cpus", "memory_mib", "gres")
    is_alike = all(later.given.get(key) == earlier.given.get(key) for key in shape)
    return later.number > earlier.number and is_alike


def lead(argv: list[str]) -> int:
    """Run `agent.pyz gang <folder>`."""
    if len(argv) != 3:
        print("usage: python -I agent.pyz gang <gang folder>", file=sys.stderr)
        return USAGE
    agent = os.path.realpath(argv[0])
    os.chdir("/")
    return Leader(os.path.realpath(argv[2]), agent, os.environ).run()


def srun(given: Mapping[str, Any], host: str) -> list[str]:
    """Return the srun that starts a member's step, with its own share of the allocation."""
    memory, cpus = given["memory_mib"], given["cpus"]
    argv = ["srun", "--ntasks=1", "--nodes=1", "--exact", f"--cpus-per-task={cpus or 1}"]
    argv += [] if cpus else ["--overlap"]  # beside another, on a CPU of that one's
    # Zero: the job's memory, without keeping it from the other steps.
    argv += [f"--mem={memory}M" if memory else "--mem=0", f"--gres={given['gres'] or 'none'}"]
    argv += [f"--job-name={given['name']}", "--mpi=none", "--export=ALL", "--input=0"]
    return argv + ([f"--nodelist={host}"] if host else [])


def hosts_of_bundles(environ: Mapping[str, str]) -> list[str]:
    """Return the host of each of the job's tasks, which are bundles of resources."""
    names = _run("scontrol", "show", "hostnames", environ.get("SLURM_JOB_NODELIST", "")).split()
    found: list[str] = []
    for name, count in zip(names, counts(environ.get("SLURM_TASKS_PER_NODE", ""))):  # noqa: B905
        found += [name] * count
    return found


def counts(text: str) -> list[int]:
    """Expand Slurm's counts: `2(x3),1` is 2, 2, 2, 1."""
    found: list[int] = []
    for part in filter(None, text.split(",")):
        count, _, times = part.partition("(x")
        nodes = int(times.rstrip(")") or 1)
        if not 0 <= nodes <= MOST_NODES - len(found):
            raise ValueError(f"expected {MOST_NODES} nodes at most, found {text[:200]!r}")
        found += [int(count)] * nodes
    return found


def _run(*argv: str) -> str:
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        print(f"orlop agent: {argv[0]}: {error}", file=sys.stderr)
        return ""
    return done.stdout.decode(errors="replace")


def _as_before() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    resource.setrlimit(resource.RLIMIT_NOFILE, _FILES)


def _kill(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass
