"""Does something as a caller would: from its root and its folder, and with its rights.

Used where the kernel may not be let go on with a connect to a path. A thread of its own takes the
caller's root, folder, user, groups and capabilities, does it and ends; the other threads are not
changed, and nothing has to be changed back. To a server it is who it is, but for the number of the
process.
"""

from __future__ import annotations

import os
import threading
from errno import EAGAIN, EPERM

from ...linux import syscalls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class Caller:
    """One thread, by its number."""

    def __init__(self, pid: int) -> None:
        self._folder = f"/proc/{pid}"

    def does(self, act: Callable[[], int]) -> int:
        """Do `act` as the caller; return 0 or its errno, or the errno of what kept it undone."""
        result = EAGAIN

        def run() -> None:
            nonlocal result
            try:
                self._become()
                result = act()
            except OSError as error:
                result = error.errno or EAGAIN

        doing = threading.Thread(target=run, name="caller", daemon=True)
        try:
            doing.start()
        except RuntimeError:
            return EAGAIN  # as many as there may be
        doing.join()
        return result

    def _become(self) -> None:
        rights = self._rights()
        flags = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
        root, cwd = (os.open(f"{self._folder}/{name}", flags) for name in ("root", "cwd"))
        try:
            syscalls.unshare(syscalls.CLONE_FS)
            os.fchdir(root)
            try:
                os.chroot(".")
            except OSError as error:
                # Without a user namespace of ours: then its root is ours, or it is not to be had.
                if error.errno != EPERM or not os.path.samefile(".", "/"):
                    raise
            os.fchdir(cwd)
        finally:
            os.close(root)
            os.close(cwd)
        syscalls.become_in_thread(rights)

    def _rights(self) -> syscalls.Rights:
        with open(f"{self._folder}/status") as file:
            said = dict(line.rstrip("\n").split(":", 1) for line in file if ":" in line)
        groups = tuple(sorted(int(word) for word in said["Groups"].split()))
        # In a namespace below ours its rights over files are none that we could have for it.
        is_below = os.readlink(f"{self._folder}/ns/user") != os.readlink("/proc/self/ns/user")
        effective = 0 if is_below else int(said["CapEff"], 16)
        uid, gid = (int(said[name].split()[1]) for name in ("Uid", "Gid"))
        return syscalls.Rights(uid, gid, groups, effective)
