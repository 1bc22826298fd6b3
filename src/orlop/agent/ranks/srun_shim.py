"""Gives a container whose image has no srun one, by which mpirun starts daemons on other nodes.

Kept by the leader of a pod that launches its ranks itself. The container finds a script of that
name in its PATH, which rings with the number of a process and waits for an exit code; the leader
has the site's srun do what was asked for, each task run by a starter in a container of its node. Of
the process that rang it takes words, variables and streams, once it is known to be one of the
container's. What is in the container never becomes an option, a variable or a file of srun's own
unless srun_options.py knows it.
"""

from __future__ import annotations

import os
import select

from ..linux import syscalls
from ..linux.fast_imports import signal
from ..linux.process import parents
from ..pod.volumes import Bind
from .srun_options import Wanted, read
from .starter import CWD, SAID, TERMINAL_ENV

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..container.runtimes import Box

FOLDER = "/run/orlop-srun"  # in the container, which cannot change what is in it
STREAMS = (3, 4, 5)  # where the script has copies of its standard ones
ANSWER = 6  # where an exit code is to be written
MAX_SIZE = 1 << 20  # of arguments, and of variables
# Open MPI would not begin without an ssh, whether it needs one or not.
BY_SRUN = {"OMPI_MCA_plm": "slurm", "PRTE_MCA_plm": "slurm"}
# What the job's own variables would tell an MPI, of which a task hears by its srun and its caller
# alone; and what is for the container that calls, whose terminal is not for its tasks.
_OF_ITSELF = ("PMI", "OMPI_", "PRTE_", "HYDRA_", "I_MPI_", SAID, TERMINAL_ENV)
# Two shells, as one has no pipe to itself: the first waits for what is written to that of the
# second, which only rings. Copies of all streams, as a shell moves its own while it rings; and no
# word of the second's end, which is by a signal. What warns of the time limit reaches all processes
# of a step, and is for those who know what to do.
SCRIPT = f"""\
#!/bin/sh
# Has the pod's agent run the site's srun with these words; wants nothing but a shell.
trap '' USR1 USR2
{{ true 9>&2; }} || exec 2>/dev/null
{{ true 9<&0; }} 2>/dev/null || exec </dev/null
{{ true 9>&1; }} 2>/dev/null || exec >/dev/null
exec 3<&0 4>&1 5>&2 2>/dev/null
code=$(exec /bin/sh {FOLDER}/call "$PWD" "$@" 6>&1)
[ -n "$code" ] && exit "$code"
echo "srun: error: the pod's agent did not answer; the pod's log may say why" >&5
exit 1
"""
TOO_OLD = """\
#!/bin/sh
echo "srun: error: the kernel of this node is too old: Linux 5.6 is needed to call srun here" >&2
exit 1
"""
RINGS = f"""\
# Run by srun beside this; the agent ends it with its answer.
echo "$$" >{FOLDER}/ring
read -r _ <{FOLDER}/wait
"""


class Call:
    """One request of a process of the container to srun."""

    def __init__(self, pid: int, script: str, holds: Callable[[int], bool]) -> None:
        """Hold the process: a number may come to mean another at any time, a descriptor cannot."""
        self.process = os.pidfd_open(pid)
        self.streams: tuple[int, ...] = ()
        self.answer = -1
        self.is_left = False  # of its two shells one has ended, and wants nothing any more
        is_script = False
        try:
            is_call = _read(pid, "cmdline")[1:2] == [script]
            is_within = is_call and holds(pid)
            is_script = is_within or (is_call and _is_below(pid, holds))
            if not is_script:
                raise OSError("it is none of the container's that may call")
            if not is_within:
                raise OSError("it has mounts of its own, which its tasks would not see")
            self._take(pid)
        except BaseException:
            if is_script:
                self.end(None)  # let it not wait for ever
            self.close()
            raise

    def _take(self, pid: int) -> None:
        """Take all of one process, if that still runs when all is read."""
        words, pairs = _read(pid, "cmdline"), _read(pid, "environ")
        if sum(map(len, words)) > MAX_SIZE or sum(map(len, pairs)) > MAX_SIZE:
            raise OSError(f"more than {MAX_SIZE} bytes of arguments or variables")
        self._folder, self._words = "".join(words[2:3]), words[3:]
        self._env = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
        if _events(self.process, select.POLLIN):
            raise OSError("it has ended")
        for number in STREAMS:
            self.streams += (syscalls.descriptor_of(self.process, number),)
        self.answer = syscalls.descriptor_of(self.process, ANSWER)

    def wanted(self, job: str) -> Wanted:
        """Return what it wants; raise Refused where that is not allowed."""
        return read(self._words, job)

    def env(self, own: Mapping[str, str], wanted: Wanted) -> dict[str, str]:
        """Return srun's own variables, and those of tasks under names of their own."""
        env = {name: text for name, text in own.items() if not name.startswith(_OF_ITSELF)}
        said = wanted.exported(self._env)
        env.update({SAID + name: text for name, text in said.items() if name})
        env[CWD] = os.path.join(self._folder, wanted.folder or ".")
        return env

    def take_streams(self) -> None:
        """Take the caller's streams, in the process that becomes srun.

        Leave its folder too: no file that srun might make there would be the user's.
        """
        for number, fd in enumerate(self.streams):
            os.dup2(fd, number)
        os.chdir("/")

    def end(self, code: int | None) -> None:
        """End with srun's exit code, unless nobody is there any more to hear it."""
        try:
            if code is not None and _events(self.answer, select.POLLOUT) == select.POLLOUT:
                os.write(self.answer, str(code).encode())
            signal.pidfd_send_signal(self.process, signal.SIGKILL)
        except OSError:
            pass  # it is gone
        self.close()

    def close(self) -> None:
        for fd in (self.process, self.answer, *self.streams):
            if fd >= 0:
                os.close(fd)
        self.process = self.answer = -1
        self.streams = ()


class StandIn:
    """The script that the container finds in its PATH, and who rang there."""

    def __init__(self, box: Box, inside: str = FOLDER) -> None:
        self._folder, self._script = os.path.join(box.folder, "srun"), f"{inside}/call"
        os.mkdir(self._folder)
        for name in ("ring", "wait"):
            os.mkfifo(self._path(name))
            os.chmod(self._path(name), 0o666)  # any user of the container may call
        script = SCRIPT if _can_take() else TOO_OLD
        for name, text, mode in (("srun", script, 0o755), ("call", RINGS, 0o644)):
            with open(self._path(name), "w") as file:
                file.write(text.replace(FOLDER, inside))
            os.chmod(self._path(name), mode)
        os.chmod(self._folder, 0o755)
        self.ring, self._wait, self._rest = -1, -1, b""
        box.binds.append(Bind(self._folder, inside, True))
        env = {**BY_SRUN, **dict(box.env)}
        env["PATH"] = f"{inside}:{env.get('PATH', os.defpath)}"
        box.env = list(env.items())

    def open(self) -> None:
        # For reading and writing: a ring is never lost, nor does one who rings wait.
        flags = os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC
        self.ring = os.open(self._path("ring"), flags)
        self._wait = os.open(self._path("wait"), flags)

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name)

    def calls(self, holds: Callable[[int], bool]) -> list[Call]:
        """Return the calls since the last time; of the container's own scripts, and no others."""
        *lines, rest = (self._rest + os.read(self.ring, 4096)).split(b"\n")
        self._rest = rest[:16]  # no number is longer
        found = []
        for line in lines:
            if not line.isdigit():
                continue
            try:
                found.append(Call(int(line), self._script, holds))
            except (AttributeError, OSError, OverflowError) as error:  # the first: an old Python
                words = f"orlop agent: a call of srun by process {int(line)}: {error}\n"
                os.write(2, words.encode(errors="replace"))
        return found


def _can_take() -> bool:
    """Try on ourselves whether this kernel gives a process what another one has open."""
    try:
        process = os.pidfd_open(os.getpid())
    except (AttributeError, OSError):
        return False
    try:
        os.close(syscalls.descriptor_of(process, process))
    except OSError:
        return False
    finally:
        os.close(process)
    return True


def _is_below(pid: int, holds: Callable[[int], bool]) -> bool:
    """Return whether a process that is not in the container itself comes of one that is."""
    begun = parents()
    try:
        while pid := begun.pop(pid, 0):
            if holds(pid):
                return True
    except OSError:
        pass  # gone, or not ours to look into
    return False


def _events(fd: int, which: int) -> int:
    poll = select.poll()
    poll.register(fd, which)
    return sum(events for _, events in poll.poll(0))


def _read(pid: int, name: str) -> list[str]:
    """Read texts that end with a zero byte each, and no more of them than can matter."""
    with open(f"/proc/{pid}/{name}", "rb") as file:
        return os.fsdecode(file.read(2 * MAX_SIZE)).split("\0")[:-1]
