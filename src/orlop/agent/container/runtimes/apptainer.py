"""Runs containers by apptainer (or singularity), on any site that has it.

Composes the command line, and the program that apptainer starts in the container: a stub that sets
environment, user, capabilities and working directory exactly as an OCI runtime would and then
becomes the container's command. Inside the pod's sandbox apptainer is root and needs no help of the
site's; where user namespaces are denied and apptainer is setuid, it runs without.
"""

from __future__ import annotations

import os
import struct

from ...linux import syscalls
from ...linux.process import program, run_quickly
from ...plan import User
from ...pod.volumes import Bind
from .. import capabilities, devices
from ..mountpoints import make_points
from . import Box, Launch
from .stub import ARCHITECTURES, RECORD, Cell, Program, confine

AT_FDCWD, AT_REMOVEDIR = -100, 0x200
O_WRONLY_CLOEXEC = os.O_WRONLY | os.O_CLOEXEC
CLONE_NEWUSER = 0x10000000
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT, CLEAR_ALL = 24, 38, 47, 4
TIOCSCTTY = 0x540E
CAPABILITY_VERSION = 0x20080522

HIDDEN = "/.orlop"  # in the container, until its command runs
BEGUN = b"S"
# What may fail in the stub: the steps of its report.
STATUS, IDS, CWD, EXEC, FILTER = 1, 2, 3, 4, 5

# What apptainer would mount of its own accord, and we mount ourselves or not at all.
NO_MOUNTS = "home,tmp,hostfs,cwd,bind-paths"


class Apptainer:
    """One apptainer or singularity of the node."""

    def __init__(self, path: str, folder: str) -> None:
        self.name = os.path.basename(path)
        self._path = path
        self._home = os.path.join(folder, "apptainer")

    def version(self) -> str:
        """Return `apptainer 1.4.5`, from `apptainer version 1.4.5`."""
        code, text = run_quickly([self._path, "--version"])
        return self.name if code else text.replace(" version", "", 1).strip()

    def compose(self, box: Box) -> Launch:
        machine = os.uname().machine
        if machine not in ARCHITECTURES:
            raise OSError(f"containers by {self.name} run on {', '.join(ARCHITECTURES)} only")
        os.makedirs(self._home, exist_ok=True)
        is_isolated = box.sandbox.is_isolated
        hidden = os.path.join(box.root if is_isolated else box.folder, HIDDEN[1:])
        os.mkdir(hidden, 0o755)
        status = os.path.join(hidden, "status")
        os.mkfifo(status)
        with open(os.path.join(hidden, "init"), "wb") as file:
            file.write(stub(box, machine).elf())
        os.chmod(file.name, 0o755)
        options = _options(box) if is_isolated else _options_outside(box, hidden)
        argv = [self._path, "--silent", "exec", *options, _root(box), f"{HIDDEN}/init"]
        env = {"PATH": os.environ.get("PATH", os.defpath), "HOME": self._home}
        return Launch(program(argv, env), status=status)

    def words(self, box: Box, launch: Launch, output: str, report: bytes) -> str:
        record = report[len(BEGUN) :]
        if len(record) == RECORD.size:
            return f"{self.name}: {explain(box, record)}"
        return f"{self.name}: {output.strip() or 'it ended without a word'}"

    def remove(self, box: Box) -> None:
        pass


def explain(box: Box, report: bytes) -> str:
    """Put the stub's report in words, as OCI runtimes do."""
    step, error = RECORD.unpack(report)
    why, container = os.strerror(-error), box.container
    if step == CWD:
        return f'chdir to cwd ("{container.cwd}") set in the plan failed: {why}'
    if step == FILTER:
        return f"seccomp profile: {why}"
    if step == EXEC and -error == 2 and "/" not in container.argv[0]:
        why = "executable file not found in $PATH"
    return f'exec: "{container.argv[0]}": {why}' if step == EXEC else f"{container.user}: {why}"


def _options(box: Box) -> list[str]:
    """Return options inside the sandbox: the root is a writable overlay of ours, we are root."""
    options = ["--contain", "--cleanenv", "--no-init", "--no-umask", "--no-home"]
    options += [] if box.shares_pids else ["--pid"]
    options += ["--pwd", "/", "--no-mount", f"{NO_MOUNTS},dev,devpts,sys", "--writable"]
    folder = os.path.join(box.folder, "dev")
    binds = devices.make(folder, box.binds, has_own_ipc=box.sandbox.has_own_ipc)
    make_points(box.root, binds, box.container.cwd)
    return options + [word for bind in binds for word in ("--mount", _mount(bind))]


def _root(box: Box) -> str:
    """Return what apptainer is given as the image.

    It would lay an overlay of its own over one that it may not write to, and our FIFO is not the
    same file in an overlay; so a read-only root is called writable, and is not.
    """
    if not (box.sandbox.is_isolated and box.container.read_only_root):
        return box.root
    path = os.path.join(box.folder, "read-only")
    os.mkdir(path)
    syscalls.bind(box.root, path)
    syscalls.make_read_only(path)
    return path


def _options_outside(box: Box, hidden: str) -> list[str]:
    """Return options without a sandbox: apptainer makes mount points, except in its own /dev."""
    options = ["--contain", "--cleanenv", "--no-init", "--no-umask", "--no-home"]
    options += [] if box.shares_pids else ["--pid"]
    options += ["--pwd", "/", "--no-mount", NO_MOUNTS, *_gpu_options(box)]
    if not box.container.read_only_root:
        options.append("--writable-tmpfs")
    for name in ("dev", "proc", "sys"):  # the one thing that apptainer does not make
        os.makedirs(os.path.join(box.root, name), exist_ok=True)
    binds = [Bind(hidden, HIDDEN)]
    binds += [bind for bind in box.binds if not bind.path.startswith(("/dev/", "/sys"))]
    return options + [word for bind in binds for word in ("--mount", _mount(bind))]


def _gpu_options(box: Box) -> list[str]:
    """Return apptainer's own options for devices and libraries; variables say which GPUs count."""
    env = dict(box.env)
    if env.get("CUDA_VISIBLE_DEVICES") and os.path.exists("/dev/nvidiactl"):
        return ["--nv"]
    has_amd = env.get("ROCR_VISIBLE_DEVICES") and os.path.exists("/dev/kfd")
    return ["--rocm"] if has_amd else []


def _mount(bind: Bind) -> str:
    """Return a mount option as a line of CSV, so that no character of a path means anything."""
    words = ["type=bind", f"source={bind.source}", f"destination={bind.path}"]
    quoted = ['"' + word.replace('"', '""') + '"' for word in words]
    return ",".join([*quoted, *(["ro"] if bind.read_only else [])])


def stub(box: Box, machine: str) -> Program:
    """Compose what the container's first process does before it becomes the command."""
    made = Program(machine)
    path = made.string(f"{HIDDEN}/status")
    status = made.call("openat", AT_FDCWD, path, O_WRONLY_CLOEXEC, step=STATUS)
    made.report_to(status)
    made.call("write", status, made.data(BEGUN), len(BEGUN))
    if box.container.tty:  # its keys then send signals
        made.call("setsid")
        made.call("ioctl", 0, TIOCSCTTY, 0)
    if box.sandbox.is_isolated:
        _tidy(made)
        _limit_capabilities(made, box.container.capabilities)
        _become_user(made, box.container.user or User(0, 0, []), box.sandbox.has_id_range)
    made.call("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    made.call("chdir", made.string(box.container.cwd), step=CWD)
    if box.seccomp is not None:
        confine(made, box.seccomp.filter, step=FILTER)
    env = [f"{name}={text}" for name, text in box.env]
    made.become(candidates(box), box.container.argv, env, step=EXEC)
    return made


def candidates(box: Box) -> list[str]:
    """Return the paths at which execvp would look for the command."""
    name = box.container.argv[0]
    if "/" in name:
        return [name]
    folders = dict(box.env).get("PATH", "").split(":")
    return [os.path.join(folder or ".", name) for folder in folders]


def _tidy(made: Program) -> None:
    for name in ("status", "init"):
        made.call("unlinkat", AT_FDCWD, made.string(f"{HIDDEN}/{name}"), 0)
    made.call("unlinkat", AT_FDCWD, made.string(HIDDEN), AT_REMOVEDIR)


def _limit_capabilities(made: Program, numbers: list[int]) -> None:
    for number in capabilities.others(numbers):
        made.call("prctl", PR_CAPBSET_DROP, number, 0, 0, 0)
    made.call("prctl", PR_CAP_AMBIENT, CLEAR_ALL, 0, 0, 0)
    header = made.data(struct.pack("<II", CAPABILITY_VERSION, 0))
    high, low = divmod(capabilities.mask(numbers), 1 << 32)
    # Effective, permitted, inheritable; of the first 32, then of the rest.
    made.call("capset", header, made.data(struct.pack("<6I", low, low, 0, high, high, 0)))


def _become_user(made: Program, user: User, has_range: bool) -> None:
    if has_range:
        if user.groups:
            groups = made.data(struct.pack(f"<{len(user.groups)}I", *user.groups))
            made.call("setgroups", len(user.groups), groups, step=IDS)
        made.call("setresgid", user.gid, user.gid, user.gid, step=IDS)
        made.call("setresuid", user.uid, user.uid, user.uid, step=IDS)
    elif (user.uid, user.gid) != (0, 0):
        # One id is mapped: a user namespace of the container's own gives it another name.
        made.call("unshare", CLONE_NEWUSER, step=IDS)
        _write(made, "/proc/self/setgroups", "deny")
        _write(made, "/proc/self/uid_map", f"{user.uid} 0 1")
        _write(made, "/proc/self/gid_map", f"{user.gid} 0 1")


def _write(made: Program, path: str, text: str) -> Cell:
    file = made.call("openat", AT_FDCWD, made.string(path), O_WRONLY_CLOEXEC, step=IDS)
    made.call("write", file, made.string(text), len(text), step=IDS)
    return made.call("close", file)
