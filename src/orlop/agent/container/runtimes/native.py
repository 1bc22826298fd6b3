"""Runs containers without any other runtime: namespaces and mounts of our own.

For `image: host`, where the root is the node's own, and for images on nodes that have no runtime.
`compose` answers a body that runs in a fork of the agent: it makes the container's root in a mount
namespace of its own, moves into it and becomes the container's command. It reports what other
launchers report: a process number, or why there is none.
"""

from __future__ import annotations

import os

from ....wellknown import SERVICE_ACCOUNT_PATH
from ...exec.trampoline import Interlude, explained
from ...linux import syscalls
from ...linux.process import become
from ...plan import User
from ...pod.volumes import Bind
from .. import capabilities, devices
from ..mountpoints import Placer, make_points
from . import Box, Launch
from .crun import MASKED, READ_ONLY
from .mirror import mirror_root

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class Native:
    name = "native"

    def version(self) -> str:
        return "native"

    def compose(self, box: Box) -> Launch:
        pid_file = os.path.join(box.folder, "pid")
        error_file = os.path.join(box.folder, "runtime.log")
        return Launch(lambda: _launch(box, pid_file, error_file), pid_file, error_file)

    def words(self, box: Box, launch: Launch, output: str, report: bytes) -> str:
        try:
            with open(launch.error_file, errors="replace") as file:
                return file.read()
        except OSError:
            return output.strip() or "the launcher ended without a word"

    def remove(self, box: Box) -> None:
        pass


class _Failure(Exception):
    """Raised with the reason why the container cannot start, in the words of OCI runtimes."""


def _launch(box: Box, pid_file: str, error_file: str) -> None:
    """Fork the container's first process; end when it is the container's command, or cannot be.

    Runs in a child of the agent, which adopts the process when this one ends.
    """
    if box.sandbox.is_isolated:
        _choose_pids(box)
    elif box.root or _needed_mounts(box):
        what = "an image" if box.root else "volumes"
        _leave(error_file, f"{what} cannot be had without a runtime: {box.sandbox.problem}")
    read_end, write_end = os.pipe()  # closed by a successful exec
    pid = os.fork()
    if pid == 0:
        _run(lambda: _become(box, write_end), write_end)
    os.close(write_end)
    error = os.read(read_end, 4096)
    if error:
        os.waitpid(pid, 0)
        _leave(error_file, explained(error, box.container.argv[0]))
    with open(pid_file + ".new", "w") as file:
        file.write(str(pid))
    os.rename(pid_file + ".new", pid_file)
    os._exit(0)


def _choose_pids(box: Box) -> None:
    """Set the process namespace of the children to come: one of their own, another's, or ours."""
    if box.has_own_pids:
        syscalls.unshare(syscalls.CLONE_NEWPID)
    elif box.joins and box.sandbox.has_own_pids:
        syscalls.setns(os.open(f"/proc/{box.joins}/ns/pid", os.O_RDONLY | os.O_CLOEXEC))


def _needed_mounts(box: Box) -> bool:
    """Return whether somebody asked for a mount: the account's folder, which all get, aside."""
    return any(mount.path != SERVICE_ACCOUNT_PATH for mount in box.container.mounts)


def _leave(error_file: str, words: str) -> None:
    with open(error_file, "w") as file:
        file.write(words)
    os._exit(1)


def _run(body: Callable[[], object], write_end: int) -> None:
    try:
        body()
    except _Failure as failure:
        os.write(write_end, str(failure).encode(errors="replace"))
    except OSError as error:
        os.write(write_end, f"preparing the container: {error}".encode(errors="replace"))
    finally:
        os._exit(127)


def _become(box: Box, report: int) -> None:
    """Set up the container's first process, in that process, and become the command."""
    container, env = box.container, dict(box.env)
    profile = box.seccomp.filter if box.seccomp is not None else b""
    interlude = Interlude(container.argv, env, report, profile)
    if box.container.tty:
        take_terminal(0)
    if box.sandbox.is_isolated:
        enter_root(box)
        _limit_capabilities(box)
        become_user(box)
    syscalls.no_new_privileges()
    os.umask(0o022)
    try:
        os.chdir(container.cwd)
    except OSError as error:
        words = f'chdir to cwd ("{container.cwd}") set in the plan failed: {error.strerror}'
        raise _Failure(words) from error
    if interlude.is_there:
        interlude.become()
    if box.seccomp is not None:
        syscalls.confine(box.seccomp.filter)
    try:
        become(container.argv, env, env.get("PATH", os.defpath))
    except OSError as error:
        is_missing = error.errno == 2 and "/" not in container.argv[0]
        why = "executable file not found in $PATH" if is_missing else error.strerror
        raise _Failure(f'exec: "{container.argv[0]}": {why}') from error


def enter_root(box: Box) -> None:
    """Make the container's root, and pivot into it."""
    syscalls.unshare(syscalls.CLONE_NEWNS)
    root = box.root
    if not root:
        root = mirror_root(os.path.join(box.folder, "root"), box.binds)
    binds = box.binds
    if box.root:
        folder = os.path.join(box.folder, "dev")
        binds = devices.make(folder, binds, has_own_ipc=box.sandbox.has_own_ipc)
        make_points(root, binds, box.container.cwd)
    if box.container.read_only_root:
        syscalls.bind(root, root)
        syscalls.make_read_only(root)
    placer = Placer(root, box.folder)
    if box.sandbox.has_own_pids:
        placer.mount_proc(syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC)
        if box.root and not box.container.unmasked:  # as OCI runtimes are told, see crun.py
            for path in READ_ONLY:
                placer.write_protect(path)
    else:
        placer.place(Bind("/proc", "/proc", propagates=True))
    for bind in binds:
        placer.place(bind)
    if box.root and not box.container.unmasked:
        for path in MASKED:
            placer.hide(path)
    syscalls.pivot_root(root)


def take_terminal(fd: int) -> None:
    """Begin a session with this controlling terminal: its keys then send signals."""
    import fcntl
    import termios

    os.setsid()
    fcntl.ioctl(fd, termios.TIOCSCTTY, 0)


def _limit_capabilities(box: Box) -> None:
    for number in capabilities.others(box.container.capabilities):
        if not syscalls.drop_from_bounding_set(number):
            break


def become_user(box: Box) -> None:
    """Take the container's ids; by a user namespace of its own where the sandbox has but one."""
    sandbox = box.sandbox
    user = box.container.user or (User(0, 0, []) if box.root else None)
    is_self = user is None
    if user is None:
        user = User(sandbox.uid, sandbox.gid, [])
    if not is_self and sandbox.has_id_range:
        if user.groups:
            os.setgroups(user.groups)
        os.setresgid(user.gid, user.gid, user.gid)
        os.setresuid(user.uid, user.uid, user.uid)
    elif (user.uid, user.gid) != (0, 0):
        syscalls.unshare(syscalls.CLONE_NEWUSER)
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{user.uid} 0 1"),
            ("gid_map", f"{user.gid} 0 1"),
        ):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
