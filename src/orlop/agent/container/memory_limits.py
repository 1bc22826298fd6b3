"""Keeps containers within their memory on nodes where no cgroup of ours does.

A thread of its own, started by `main` where a memory limit was asked for and the job's cgroup is
not the user's to divide, as that of Slurm on cgroup version 2. It looks a few times a second and
has a container that is over its limit killed, which is then OOMKilled; between two looks a
container may have more, and the job's own limit holds in any case. Page cache and files in memory
are not counted, which a cgroup would.
"""

from __future__ import annotations

import os

from ..linux.adaptive_poll import now_and_then
from ..linux.fast_imports import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..plan import Plan
    from .run import Run
    from .stats import Process, Stats

INTERVAL = 0.25  # seconds between two looks
PAGE = os.sysconf("SC_PAGE_SIZE")


class Watch:
    """Looks, and has runs killed by `call` in the supervisor's thread, whose runs these are."""

    def __init__(
        self, plan: Plan, stats: Stats, call: Callable[[Callable[[], None]], None]
    ) -> None:
        self._stats, self._call = stats, call
        self._pod_limit = plan.pod.memory_limit
        self._limits = limits_of(plan)

    def start(self) -> None:
        if self._limits or self._pod_limit:
            now_and_then(self._look, INTERVAL)

    def _look(self) -> bool:
        for run, pids in self.excess():
            self._call(lambda run=run, pids=pids: end(run, pids))  # type: ignore[misc]
        return False

    def excess(self) -> list[tuple[Run, set[int]]]:
        """Return the runs that are to be killed, with their processes."""
        found = [(run, pids, self._used(run, pids)) for run, pids in self._members()]
        over = [
            (run, pids)
            for run, pids, used in found
            if run.name in self._limits and used > self._limits[run.name]
        ]
        total = sum(used for _, _, used in found)
        if not over and self._pod_limit and total > self._pod_limit:
            run, pids, _ = max(found, key=lambda one: one[2])
            over = [(run, pids)]  # as the kernel: one dies, not all
        return over

    def _members(self) -> list[tuple[Run, set[int]]]:
        """Return the runs whose memory matters: those with limits, or all if the pod is full."""
        found = [(run, pids, _resident(pids)) for run, pids in self._stats.members()]
        is_full = 0 < self._pod_limit < sum(resident for _, _, resident in found)
        return [
            (run, set(pids)) for run, pids, most in found if is_full or self._is_near(run, most)
        ]

    def _is_near(self, run: Run, resident: int) -> bool:
        """Return whether a run seems over its limit, so that a closer look is worth its price."""
        return run.name in self._limits and resident > self._limits[run.name]

    def _used(self, run: Run, pids: set[int]) -> int:
        return sum(proportional(self._stats.proc, pid) for pid in pids)


def _resident(pids: dict[int, Process]) -> int:
    """Return the resident bytes, at most: a page of several processes is counted with each."""
    return sum(process.resident for process in pids.values()) * PAGE


def limits_of(plan: Plan) -> dict[str, int]:
    """Map containers to bytes; what runs once for every task of the job is Slurm's to limit."""
    ranks = plan.ranks["container"] if plan.ranks is not None else ""
    return {
        one.name: one.memory_limit
        for one in plan.containers
        if one.memory_limit and one.name != ranks
    }


def proportional(proc: str, pid: int) -> int:
    """Return a process' bytes that are in no file; a shared page is divided among its users."""
    sizes = {}
    try:
        with open(f"{proc}/{pid}/smaps_rollup") as file:
            for line in file:
                name, _, rest = line.partition(":")
                if name in ("Pss", "Pss_File", "Anonymous"):
                    sizes[name] = int(rest.split()[0]) << 10
        if "Pss_File" in sizes:
            return sizes["Pss"] - sizes["Pss_File"]
        return min(sizes["Pss"], sizes["Anonymous"])  # before Linux 5.3: what is in no file
    except (OSError, ValueError, KeyError):
        return _unshared(proc, pid)


def _unshared(proc: str, pid: int) -> int:
    """Return the same for a process that may not be looked into, or on a kernel before 4.14.

    At most: what it has in common with its parent since a fork is counted with both.
    """
    try:
        with open(f"{proc}/{pid}/statm") as file:
            _, resident, shared = file.read().split()[:3]
    except (OSError, ValueError):
        return 0  # it has just ended
    return (int(resident) - int(shared)) * PAGE


def end(run: Run, pids: set[int]) -> None:
    """Kill as the kernel ends a cgroup; processes that have meanwhile ended are passed over."""
    if run.has_ended:
        return
    run.was_over_memory = True
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
