"""Makes the container of a rank set on every node but the pod's first, and waits there.

Started by the first starter of a node, beside the rank that this becomes. Sandbox, volumes and
container are made as the agent makes them, from the same plan; it ends with the last rank of its
node and leaves nothing there. It has no connection to the kubelet: Slurm tells of ranks, the leader
of the pod, and what changes in volumes is in the plan, which the kubelet writes anew.
"""

from __future__ import annotations

import os
import select
import sys
import time

from .. import plan
from ..container.cgroups import NONE
from ..container.container_setup import Workshop
from ..linux.fast_imports import signal
from ..linux.process import close_on_exec
from ..pod import sandbox
from ..pod.scratch_dirs import make_places, remove_places
from .container_server import ContainerServer, leave
from .starter import place_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..plan import Plan
    from ..pod.volumes import Volumes

LOOK = 500  # milliseconds between two looks at ranks that the kernel does not tell of
FRESH = 10.0  # seconds between two looks at the plan; upstream's kubelet looks once a minute
LAST = 20  # looks at a node of which no rank lives, before all have come


def main(argv: list[str]) -> int:
    """Run for the compiled starter, in words `ranks <meeting point> <pod folder>`."""
    build(place_of(argv[2]), argv[3])
    return 1


def build(meeting: str, folder: str) -> None:
    """Make the container and serve the ranks of this node to their end, then exit."""
    code = 1
    try:
        _let_go_of_the_rank()
        os.umask(0o077)
        _serve(meeting, folder)
        code = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(code)


def _let_go_of_the_rank() -> None:
    """Close the rank's output: srun waits for all who may still write to it."""
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            try:
                os.close(int(name))
            except OSError:
                pass  # that of the listing itself
    close_on_exec()
    # Whatever Slurm sends to the step is meant for the ranks; it ends with them.
    signal.pthread_sigmask(signal.SIG_BLOCK, range(1, signal.NSIG))


def _serve(meeting: str, folder: str) -> None:
    path = os.path.join(folder, "plan.json")
    mark = _mark(path)
    the_plan = plan.read(path)
    hostname = os.uname().nodename
    plan.lead(the_plan, folder, hostname)
    the_plan.network = None  # it has no containers but ranks here
    box = sandbox.enter(hostname, the_plan.pod.shared)
    plan.check_reach(the_plan, box.is_isolated)
    os.umask(0o022)
    places = make_places(the_plan, box)
    try:
        workshop = Workshop(the_plan, box, places, _NoCgroups())  # type: ignore[arg-type]
        made = workshop.inside(_container(the_plan))
        assert the_plan.ranks is not None, "a plan without ranks"
        door = ContainerServer(meeting, *made, the_plan.ranks)
        try:
            _wait(door, Files(path, mark, workshop.volumes))
        finally:
            door.close()
            leave(meeting)
    finally:
        remove_places(places, box)


class _NoCgroups:
    """No cgroups: Slurm limits ranks; groups of our own would not hold them."""

    def create(self, *_: object) -> object:
        return NONE


class Files:
    """Keeps volumes of ConfigMaps, Secrets and the like as the plan has them, when that changes."""

    def __init__(self, path: str, mark: object, volumes: Volumes) -> None:
        self._path, self._mark, self._volumes = path, mark, volumes
        self._due = time.monotonic() + FRESH

    def refresh(self) -> None:
        """Look whether the plan has changed, if it is time for that."""
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + FRESH
        try:
            mark = _mark(self._path)
            if mark == self._mark:
                return
            for volume in plan.read(self._path).volumes:
                if volume["kind"] == "files":
                    self._volumes.update(volume["name"], volume["files"])
            self._mark = mark
        except (OSError, ValueError, KeyError):
            pass  # the pod is being removed, or there is no room: what is there stays, whole


def _mark(path: str) -> object:
    """Return what differs for another file; opened, because a network file system then looks."""
    with open(path, "rb") as file:
        found = os.fstat(file.fileno())
    return found.st_ino, found.st_mtime_ns, found.st_size


def _container(the_plan: Plan) -> plan.Container:
    assert the_plan.ranks is not None, "a plan without ranks"
    name = the_plan.ranks["container"]
    return next(one for one in the_plan.containers if one.name == name)


def _wait(door: ContainerServer, files: Files) -> None:
    """Wait until all ranks of this node have come, and have gone."""
    watched: dict[int, int] = {}  # pid -> descriptor, -1 where there is none, of ranks that live
    gone: set[int] = set()
    looks = 0
    while True:
        poll = select.poll()
        for fd in (*door.watched(), *(fd for fd in watched.values() if fd >= 0)):
            poll.register(fd, select.POLLIN)
        is_told = bool(watched) and min(watched.values()) >= 0 and door.is_full
        ready = [fd for fd, _ in poll.poll(int(FRESH * 1000) if is_told else LOOK)]
        files.refresh()
        for fd in door.watched():
            if fd in ready:
                door.on_ready(fd)
        door.tick()
        for pid in door.pids.values():
            if pid not in watched and pid not in gone:
                watched[pid] = _watch(pid)
        for pid in [pid for pid in watched if not _lives(pid)]:
            gone.add(pid)
            _close(watched.pop(pid))
        looks = 0 if watched else looks + 1
        is_done = bool(gone) and (door.is_full or bool(door.error)) and not door.lines()
        if not watched and (is_done or looks > LAST):
            return


def _watch(pid: int) -> int:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return -1


def _close(fd: int) -> None:
    if fd >= 0:
        os.close(fd)


def _lives(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        # While another thread of it becomes another program, its first one seems dead.
        return fields[0] != b"Z" or int(fields[17]) > 1
    except (FileNotFoundError, ProcessLookupError):
        return False
    except OSError:
        return True  # it cannot be seen just now: rather wait than take its files away
