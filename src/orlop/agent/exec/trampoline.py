"""Makes the small program between us and a container's command, which is its /proc/self/exe.

Used by whoever becomes a command in a container (native.py, nsenter.py). A command may be a link to
/proc/self/exe, or a script with that as its interpreter, and is then whatever the process was
before: our Python, on the node, which may well be its user's own file, to be changed by whoever
runs as that user in the container. So we become a small program first, made in memory and sealed,
which becomes the command. Nothing is imported or opened after `Interlude` is made.
"""

from __future__ import annotations

import errno
import fcntl
import os

from ..container.runtimes.stub import ARCHITECTURES, RECORD, Program, confine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

F_ADD_SEALS, EVERYTHING = 1033, 0x1 | 0x2 | 0x4 | 0x8  # linux/fcntl.h: also more seals
MFD_CLOEXEC, MFD_ALLOW_SEALING, MFD_EXEC = 0x1, 0x2, 0x10
# What may fail there; no words of ours begin so.
KEPT, FILTER, EXEC = 0x7F4F524C01, 0x7F4F524C02, 0x7F4F524C03


class Interlude:
    """Made while files are still ours; `become` is called where they are the container's."""

    def __init__(
        self,
        argv: list[str],
        env: Mapping[str, str],
        report: int,
        filter: bytes = b"",
    ) -> None:
        """Make it; `report` hears why there is no such command, and closes as that begins."""
        self.argv, self._report = argv, report
        self._fd = -1
        machine = os.uname().machine
        if machine in ARCHITECTURES:
            self._fd = _in_memory(_program(machine, argv, env, report, filter).elf())

    @property
    def is_there(self) -> bool:
        """Return False on other machines, and where the node runs nothing that is in memory."""
        return self._fd >= 0

    def become(self) -> None:
        """Become the program; raise OSError where that cannot be."""
        if self._report >= 0:
            os.set_inheritable(self._report, True)
        os.execve(self._fd, self.argv, {})


def _program(
    machine: str, argv: list[str], env: Mapping[str, str], report: int, filter: bytes
) -> Program:
    made = Program(machine)
    if report >= 0:
        made.report_to(made.number(report))
        made.call("fcntl", report, fcntl.F_SETFD, fcntl.FD_CLOEXEC, step=KEPT)
    if filter:
        confine(made, filter, step=FILTER)
    words = [f"{name}={text}" for name, text in env.items()]
    made.become(candidates(argv[0], env.get("PATH", os.defpath)), argv, words, step=EXEC)
    return made


def candidates(name: str, path: str) -> list[str]:
    """Return the paths at which execvp would look for a command."""
    if "/" in name:
        return [name]
    return [os.path.join(folder or ".", name) for folder in path.split(":")]


def _in_memory(elf: bytes) -> int:
    """Make a sealed file without a folder; return -1 where there is none that may be run."""
    flags = MFD_CLOEXEC | MFD_ALLOW_SEALING
    for each in (flags | MFD_EXEC, flags):  # Linux 6.3 asks for it to be said, others know no such
        try:
            fd = os.memfd_create("orlop", each)
            break
        except OSError as error:
            if error.errno != errno.EINVAL:
                return -1
    else:
        return -1
    while elf:
        elf = elf[os.write(fd, elf) :]
    fcntl.fcntl(fd, F_ADD_SEALS, EVERYTHING)
    return fd


def explained(report: bytes, name: str, is_small: bool = False) -> str:
    """Put the report in words, as OCI runtimes do; other words stay as they are."""
    if len(report) != RECORD.size or RECORD.unpack(report)[0] not in (KEPT, FILTER, EXEC):
        return report.decode(errors="replace")
    step, error = RECORD.unpack(report)
    why = os.strerror(-error)
    why = why.lower() if is_small else why
    if step == FILTER:
        return f"seccomp profile: {why}"
    if step == EXEC and -error == errno.ENOENT and "/" not in name:
        why = "executable file not found in $PATH"
    return f'exec: "{name}": {why}'
