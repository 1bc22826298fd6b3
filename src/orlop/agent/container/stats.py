"""Measures what each container uses: CPU time since it started, and memory now.

Asked by the kubelet connection when the kubelet wants to know, and by `memory_limits`; at other
times it costs nothing. A container's own cgroup is read where it has one, else the processes below
its first one are added up from /proc.
"""

from __future__ import annotations

import os

from ..linux.fast_imports import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from .run import Run

TICK = 1_000_000_000 // os.sysconf("SC_CLK_TCK")  # nanoseconds
PAGE = os.sysconf("SC_PAGE_SIZE")


@value
class Process:
    """The stat of one process in /proc."""

    parent: int
    ticks: int  # its own, and those of children it has waited for
    resident: int  # pages
    shared: int  # of these, pages of files and of shared memory


@value
class Memory:
    usage: int  # bytes, as all below
    working_set: int
    rss: int  # anonymous memory alone


class Stats:
    """The measurements of one pod."""

    def __init__(
        self, runs: Callable[[], list[Run]], now: Callable[[], float], proc: str = "/proc"
    ) -> None:
        self._runs, self._now, self.proc = runs, now, proc
        self._counted: dict[tuple[str, int], tuple[int, int]] = {}  # run -> last seen, sum so far

    def measure(self) -> dict[str, Any]:
        """Return the kubelet's answer: all containers that run, and the agent itself."""
        table = _table(self.proc)
        found = self._of_runs(table)
        containers = [self._container(run, list(mine.values())) for run, mine in found]
        known = {(run.name, run.box.restart) for run, _ in found}
        self._counted = {key: seen for key, seen in self._counted.items() if key in known}
        own = table.get(os.getpid())
        agent = _told(_ticks([own]) * TICK, _memory([own])) if own is not None else {}
        return {"time": self._now(), "containers": containers, "agent": agent}

    def members(self) -> list[tuple[Run, dict[int, Process]]]:
        """Return each container that runs, and its processes by their numbers."""
        return self._of_runs(_table(self.proc))

    def _of_runs(self, table: dict[int, Process]) -> list[tuple[Run, dict[int, Process]]]:
        runs = [run for run in self._runs() if run.pid and not run.has_ended]
        firsts = [run.pid for run in runs]
        return [
            (run, {pid: table[pid] for pid in self._members(run, table, firsts)}) for run in runs
        ]

    def _container(self, run: Run, mine: list[Process]) -> dict[str, Any]:
        folders = run.cgroup.folders
        cpu = cgroup_cpu(folders)
        if cpu is None:
            cpu = self._count((run.name, run.box.restart), _ticks(mine)) * TICK
        memory = cgroup_memory(folders) or _memory(mine)
        return {"name": run.name, "restart": run.box.restart, **_told(cpu, memory)}

    def _count(self, key: tuple[str, int], ticks: int) -> int:
        """Return a sum that does not fall, though processes nobody waited for take theirs along."""
        last, total = self._counted.get(key, (0, 0))
        total += max(0, ticks - last)
        self._counted[key] = ticks, total
        return total

    def _members(self, run: Run, table: dict[int, Process], firsts: list[int]) -> set[int]:
        """Return the first process and all below; orphans and commands by the root they live in."""
        found = _below(run.pid, table)
        if run.launch.leads:
            return found | _beside(run, table)
        place = self._place(run.pid)
        if place and place != self._place(os.getpid()):
            for pid, process in table.items():
                is_ours = process.parent == os.getpid() and pid not in firsts
                if is_ours and pid not in found and self._place(pid) == place:
                    found |= _below(pid, table)
        return found

    def _place(self, pid: int) -> str:
        """Return the mount namespace of a process; empty where that cannot be seen."""
        try:
            return os.readlink(f"{self.proc}/{pid}/ns/mnt")
        except OSError:
            return ""


def _told(cpu: int, memory: Memory) -> dict[str, int]:
    return {
        "cpu": cpu,
        "usage": memory.usage,
        "workingSet": memory.working_set,
        "rss": memory.rss,
    }


def _ticks(processes: Iterable[Process]) -> int:
    return sum(process.ticks for process in processes)


def _memory(processes: Iterable[Process]) -> Memory:
    """Add up memory as ps does: pages that processes share are counted once for each."""
    processes = list(processes)
    resident = sum(process.resident for process in processes) * PAGE
    shared = sum(process.shared for process in processes) * PAGE
    return Memory(resident, resident, max(0, resident - shared))


def _table(proc: str) -> dict[int, Process]:
    """Return all processes that can be seen."""
    found = {}
    for name in os.listdir(proc):
        if not name.isdigit():
            continue
        try:
            with open(f"{proc}/{name}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()  # the name may hold anything
            with open(f"{proc}/{name}/statm", "rb") as file:
                pages = file.read().split()
        except OSError:
            continue  # it has just ended
        ticks = sum(int(field) for field in fields[11:15])
        found[int(name)] = Process(int(fields[1]), ticks, int(pages[1]), int(pages[2]))
    return found


def _below(first: int, table: dict[int, Process]) -> set[int]:
    """Return a process and all that descend from it."""
    children: dict[int, list[int]] = {}
    for pid, process in table.items():
        children.setdefault(process.parent, []).append(pid)
    found: set[int] = set()
    waiting = [first] if first in table else []
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found.add(pid)
            waiting += children.get(pid, [])
    return found


def _beside(run: Run, table: dict[int, Process]) -> set[int]:
    """Return all ranks of this node and what they began: all that Slurm's step daemon has."""
    first = table.get(run.pid)
    if first is not None and run.box.container.tty:  # one that waits is between
        first = table.get(first.parent)
    if first is None or first.parent <= 1:
        return set()
    ranks = [pid for pid, process in table.items() if process.parent == first.parent]
    return {pid for rank in ranks for pid in _below(rank, table)}


def cgroup_cpu(folders: list[str]) -> int | None:
    """Return the CPU's nanoseconds, ended processes' too; None where no cgroup counts them."""
    for folder in folders:
        usage = _number(os.path.join(folder, "cpuacct.usage"))  # version 1, mounted beside cpu
        if usage is not None:
            return usage
        microseconds = _fields(os.path.join(folder, "cpu.stat")).get("usage_usec")
        if microseconds is not None:
            return microseconds * 1000
    return None


def cgroup_memory(folders: list[str]) -> Memory | None:
    """Return the memory that the container's cgroup counts; None where none does."""
    for folder in folders:
        for name, rss, inactive in (
            ("memory.current", "anon", "inactive_file"),
            ("memory.usage_in_bytes", "total_rss", "total_inactive_file"),
        ):
            usage = _number(os.path.join(folder, name))
            if usage is not None:
                stat = _fields(os.path.join(folder, "memory.stat"))
                working_set = max(0, usage - stat.get(inactive, 0))
                return Memory(usage, working_set, stat.get(rss, 0))
    return None


def _number(path: str) -> int | None:
    try:
        with open(path) as file:
            return int(file.read())
    except (OSError, ValueError):
        return None


def _fields(path: str) -> dict[str, int]:
    try:
        with open(path) as file:
            words = [line.split() for line in file]
    except OSError:
        return {}
    return {word[0]: int(word[1]) for word in words if len(word) == 2 and word[1].isdigit()}
