"""Makes a /dev for one container, of the node's own device files.

Used by runtimes that do not make one as an OCI runtime does. An ordinary user cannot create device
files, so the node's are bound into a folder.
"""

from __future__ import annotations

import os
import stat

from ..linux import syscalls
from ..pod.volumes import Bind

# As the OCI runtime specification lists them.
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
    "core": "/proc/kcore",
    "ptmx": "pts/ptmx",
}


def make(path: str, binds: list[Bind], *, has_own_ipc: bool = True) -> list[Bind]:
    """Fill the new folder `path` with these devices too; return the other binds, and its own.

    Message queues belong to the ipc namespace.
    """
    os.mkdir(path, 0o755)
    wanted = {name: f"/dev/{name}" for name in DEVICES}
    # Not left to a runtime: apptainer mounts no device file that a user names.
    own = [bind for bind in binds if bind.path.startswith("/dev/") and _is_device(bind.source)]
    wanted.update({bind.path[len("/dev/") :]: bind.source for bind in own})
    for name, source in wanted.items():
        if os.path.exists(source):
            target = f"{path}/{name}"
            os.makedirs(os.path.dirname(target), exist_ok=True)
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o666))
            syscalls.bind(source, target, recursive=False)
    for name, target in LINKS.items():
        os.symlink(target, f"{path}/{name}")
    for name in ("pts", "shm", "mqueue"):
        os.mkdir(f"{path}/{name}")
    quiet = syscalls.MS_NOSUID | syscalls.MS_NOEXEC
    syscalls.mount("devpts", f"{path}/pts", "devpts", quiet, "newinstance,ptmxmode=0666,mode=0620")
    if has_own_ipc:
        syscalls.mount("mqueue", f"{path}/mqueue", "mqueue", quiet | syscalls.MS_NODEV)
    elif os.path.isdir("/dev/mqueue"):
        syscalls.bind("/dev/mqueue", f"{path}/mqueue")
    return [Bind(path, "/dev"), *(bind for bind in binds if bind not in own)]


def _is_device(path: str) -> bool:
    try:
        mode = os.stat(path).st_mode
        return stat.S_ISCHR(mode) or stat.S_ISBLK(mode)
    except OSError:
        return False
