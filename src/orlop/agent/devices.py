"""A /dev for one container, made of the node's own device files.

Used by runtimes that do not make one as an OCI runtime does. An ordinary user cannot create
device files, so the node's are bound into a folder; nothing of the node's /dev is changed.
"""

from __future__ import annotations

import os

from . import syscalls

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


def make(path: str, *, has_own_ipc: bool = True) -> str:
    """Fill the new folder `path`, and answer it; message queues belong to the ipc namespace."""
    os.mkdir(path, 0o755)
    for name in DEVICES:
        if os.path.exists(f"/dev/{name}"):
            os.close(os.open(f"{path}/{name}", os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o666))
            syscalls.bind(f"/dev/{name}", f"{path}/{name}", recursive=False)
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
    return path
