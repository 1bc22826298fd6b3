"""Limits each container by cgroups below the one our job is in, where that is ours.

An older Slurm gives a job's user the cgroup directories of its step (version 1), or a site
delegates them (version 2); then each container gets its own and is killed without the others when
it needs more memory than its limit. Where there is none, nothing is limited here: `memory_limits`
watches instead, and a condition of the pod says which limits are not kept. Cgroups outside the
job's are left as they are.
"""

from __future__ import annotations

import os

from ..linux.fast_imports import value

ROOT_OWN = "/proc/self/cgroup"
UNLIMITED = 1 << 60  # version 1 has no word for it but a number of pages
POD = "orlop-pod"  # no name of a container ends without the number of its run
PERIOD = 100_000  # microseconds, the kernel's default
_SIGKILL = 9


class Kills:
    """Counts OOM kills in the cgroup that all containers share; each is blamed on one of them."""

    def __init__(self, events: str) -> None:
        self._events, self._blamed = events, _count(events, "oom_kill")

    def take(self) -> bool:
        if _count(self._events, "oom_kill") <= self._blamed:
            return False
        self._blamed += 1
        return True


@value
class Group:
    """The cgroups of one container run."""

    folders: list[str]
    events: str  # the file that counts OOM kills
    kills: Kills | None = None  # those of the whole job, where it has no file of its own

    @property
    def procs(self) -> list[str]:
        return [os.path.join(folder, "cgroup.procs") for folder in self.folders]

    def has_oom_kill(self, signal: int) -> bool:
        """Return whether a container that ended by `signal` (or 0) was killed for its memory."""
        if self.kills is not None:
            return signal == _SIGKILL and self.kills.take()
        return _count(self.events, "oom_kill") > 0

    def remove(self) -> None:
        for folder in self.folders:
            try:
                os.rmdir(folder)
            except OSError:
                pass  # its last process is still going; it goes with the job's


NONE = Group([], "")


class Cgroups:
    """Finds where this job may make cgroups, once, before the agent forks; and makes them."""

    def __init__(self, own: str = ROOT_OWN, mountinfo: str = "/proc/self/mountinfo") -> None:
        folders = _own_folders(own, mountinfo)
        self._unified = folders.get("", "")
        self._memory = _writable(folders.get("memory", ""))
        self._cpu = _writable(folders.get("cpu", ""))
        self._limit = _effective_limit(folders)
        self._of_job = folders.get("memory") or self._unified
        self._pod: list[str] = []  # those of the pod as a whole, where it has limits
        if not self._memory and _writable(self._unified) and not folders.get("memory"):
            self._memory = self._cpu = self._delegate()
        events = "memory.oom_control" if folders.get("memory") else "memory.events"
        is_counted = not self._memory and _is_ours_alone(self._of_job)
        self._kills = Kills(os.path.join(self._of_job, events)) if is_counted else None

    @property
    def limits_memory(self) -> bool:
        return bool(self._memory)

    @property
    def memory_problem(self) -> str:
        """Return why the kernel keeps no memory limits of containers, and what is done instead."""
        if self._memory:
            return ""
        words = "the agent looks a few times a second and kills a container that is over its limit"
        if self._limit:
            size = f"{self._limit >> 20} MiB"
            return f"memory is limited for the whole job ({size}), not for each container; {words}"
        lack = "the job has no cgroup of its own on this node"
        return f"memory is not limited by the kernel, as {lack}; {words}"

    @property
    def cpu_problem(self) -> str:
        """Return why containers' CPU limits are not kept."""
        if self._cpu:
            return ""
        return "containers share the CPUs of the job: it has no cgroup here that is its user's"

    def peak(self) -> int:
        """Return the most memory that the job ever had, in bytes; 0 where nobody counted."""
        names = ("memory.max_usage_in_bytes", "memory.peak")
        for folder in filter(_is_ours_alone, (self._of_job, self._memory)):
            for name in names:
                text = "".join(_lines(os.path.join(folder, name)))
                if text.isdigit():
                    return int(text)
        return 0

    def _delegate(self) -> str:
        """Move the agent to a leaf (version 2), so that its siblings may have limits."""
        leaf = os.path.join(self._unified, "orlop-agent")
        try:
            os.makedirs(leaf, exist_ok=True)
            _write(os.path.join(leaf, "cgroup.procs"), "0")
            _write(os.path.join(self._unified, "cgroup.subtree_control"), "+memory +cpu")
        except OSError:
            return ""
        return self._unified

    @property
    def _is_v2(self) -> bool:
        return bool(self._memory) and self._memory.startswith(self._unified or "\0")

    def limit_pod(self, memory: int, cpu: int) -> None:
        """Limit all containers together; their own cgroups are made below this one from now on."""
        if not (memory or cpu) or not self._memory:
            return
        is_v2 = self._is_v2
        found = self._create(POD, memory, cpu, is_v2)
        if is_v2:
            _write(os.path.join(found.folders[0], "cgroup.subtree_control"), "+memory +cpu")
            _write(os.path.join(found.folders[0], "memory.oom.group"), "0")  # one dies, not all
            self._memory = self._cpu = found.folders[0]
        else:
            self._memory = found.folders[0] if memory else self._memory
            self._cpu = found.folders[-1] if cpu else self._cpu
        self._pod = found.folders

    def create(self, name: str, memory: int, cpu: int) -> Group:
        """Make the cgroups of a container with these limits; 0 means none.

        In a pod with limits of its own it has them in any case: what it uses counts.
        """
        if not (memory or cpu or self._pod):
            return Group([], "", self._kills)
        return self._create(f"orlop-{name}", memory, cpu, self._is_v2)

    def _create(self, name: str, memory: int, cpu: int, is_v2: bool) -> Group:
        folders = []
        if self._memory and (memory or is_v2 or self._memory in self._pod):
            folders.append(_make(os.path.join(self._memory, name)))
            if is_v2:
                _limit_v2(folders[0], memory, cpu)
            elif memory:
                _limit_memory_v1(folders[0], memory)
        if self._cpu and not is_v2 and (cpu or self._cpu in self._pod):
            folders.append(_make(os.path.join(self._cpu, name)))
            if cpu:
                _write(os.path.join(folders[-1], "cpu.cfs_quota_us"), str(cpu * PERIOD // 1000))
        if not folders:
            return Group([], "", self._kills)
        events = "memory.events" if is_v2 else "memory.oom_control"
        return Group(folders, os.path.join(folders[0], events), self._kills)

    def remove_pod(self) -> None:
        """Remove the pod's cgroups when all containers are gone."""
        Group(self._pod, "").remove()


def _make(path: str) -> str:
    os.makedirs(path, exist_ok=True)
    return path


def _limit_memory_v1(folder: str, memory: int) -> None:
    _write(os.path.join(folder, "memory.limit_in_bytes"), str(memory))
    swap = os.path.join(folder, "memory.memsw.limit_in_bytes")
    if os.path.exists(swap):
        _write(swap, str(memory))


def _limit_v2(folder: str, memory: int, cpu: int) -> None:
    if memory:
        _write(os.path.join(folder, "memory.max"), str(memory))
        _write(os.path.join(folder, "memory.oom.group"), "1")
        if os.path.exists(os.path.join(folder, "memory.swap.max")):
            _write(os.path.join(folder, "memory.swap.max"), "0")
    if cpu:
        _write(os.path.join(folder, "cpu.max"), f"{cpu * PERIOD // 1000} {PERIOD}")


def _is_ours_alone(folder: str) -> bool:
    """Return whether a cgroup is the job's or the pod's: slurmd's counts all of its jobs."""
    return any(part.startswith("job_") or part == POD for part in folder.split("/"))


def _own_folders(own: str, mountinfo: str) -> dict[str, str]:
    """Map each controller (empty for version 2) to the directory of the cgroup we are in."""
    mounts = _mounts(mountinfo)
    folders = {}
    for line in _lines(own):
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            if controller in mounts:
                point, root = mounts[controller]
                inner = path[len(root) :] if root != "/" and path.startswith(root) else path
                folders[controller] = os.path.normpath(point + "/" + inner)
    return folders


def _mounts(mountinfo: str) -> dict[str, tuple[str, str]]:
    """Map each controller to its mount point and the part of the hierarchy mounted there."""
    found: dict[str, tuple[str, str]] = {}
    for line in _lines(mountinfo):
        before, _, after = line.partition(" - ")
        root, point = before.split(" ")[3:5]
        kind, _, options = after.split(" ", 2)
        if kind == "cgroup2":
            found.setdefault("", (point, root))
        elif kind == "cgroup":
            for option in options.split(","):
                found.setdefault(option, (point, root))
    return found


def _effective_limit(folders: dict[str, str]) -> int:
    """Return the smallest memory limit on the way up from our cgroup; 0 if there is none."""
    name = "memory.limit_in_bytes" if folders.get("memory") else "memory.max"
    folder = folders.get("memory") or folders.get("") or ""
    limits = []
    while folder.count("/") > 2:
        text = "".join(_lines(os.path.join(folder, name)))
        if text.isdigit() and int(text) < UNLIMITED:
            limits.append(int(text))
        folder = os.path.dirname(folder)
    return min(limits, default=0)


def _writable(folder: str) -> str:
    return folder if folder and os.access(folder, os.W_OK) else ""


def _count(path: str, key: str) -> int:
    words = [line.split() for line in _lines(path)]
    return next((int(word[1]) for word in words if word[0] == key), 0)


def _lines(path: str) -> list[str]:
    try:
        with open(path) as file:
            return file.read().splitlines()
    except OSError:
        return []


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)
