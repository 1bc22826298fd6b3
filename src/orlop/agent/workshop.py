"""The pod's place on its node: scratch folders, and from there a `Box` for each container run.

Made once by `main` and used by the supervisor: it lays an overlay over the image's root, writes
the files every container finds in /etc, and gathers binds and environment. It composes the same
for every runtime and starts nothing.
"""

from __future__ import annotations

import os

from . import syscalls
from .lean import value
from .plan import Container, Plan
from .runtimes import Box
from .sandbox import Sandbox
from .volumes import Bind, Volumes, remove_tree

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SHM_SIZE = "64m"  # containerd's


@value
class Places:
    scratch: str  # node-local, removed at the end
    disk: str  # part of it for what may be large
    memory: str  # a tmpfs that nobody outside the sandbox sees, where we may mount


def make_places(plan: Plan, sandbox: Sandbox) -> Places:
    """Folders for this pod alone, on the node."""
    base = plan.scratch or os.environ.get("TMPDIR") or "/tmp"
    scratch = os.path.join(base, f"orlop-{sandbox.uid}-{plan.pod.uid}-{os.urandom(4).hex()}")
    os.makedirs(scratch, 0o700)
    places = Places(scratch, os.path.join(scratch, "disk"), os.path.join(scratch, "memory"))
    os.mkdir(places.disk, 0o755)
    os.mkdir(places.memory, 0o755)
    if sandbox.is_isolated:
        syscalls.mount("tmpfs", places.memory, "tmpfs", syscalls.MS_NODEV, "mode=0755")
    return places


def remove_places(places: Places, sandbox: Sandbox) -> None:
    """Leave nothing on the node."""
    if sandbox.is_isolated:
        syscalls.umount(places.memory)
    remove_tree(places.scratch)


class Workshop:
    """Prepares container runs."""

    def __init__(self, plan: Plan, sandbox: Sandbox, places: Places) -> None:
        self.plan, self.sandbox, self.places = plan, sandbox, places
        self.volumes = Volumes(plan.volumes, places.disk, places.memory, sandbox.is_isolated)
        self._etc = os.path.join(places.memory, "etc")
        self._write_etc()
        self._shm = self._make_shm()
        self._sys = self._make_sys()

    def box(self, container: Container, restart: int) -> Box:
        """Everything for one run, on a root that no earlier run has touched."""
        folder = os.path.join(self.places.memory, "run", f"{container.name}-{restart}")
        os.makedirs(folder)
        message = os.path.join(folder, "termination-log")
        os.close(os.open(message, os.O_CREAT | os.O_WRONLY, 0o666))
        os.chmod(message, 0o666)
        root = self._overlay(container.rootfs, folder) if container.rootfs else ""
        binds = self._binds(container, folder, message)
        env = self._env(container)
        return Box(container, restart, folder, root, binds, env, self.sandbox)

    def discard(self, box: Box) -> None:
        """Undo `box` after the container has ended."""
        if box.root:
            syscalls.umount(box.root)
        remove_tree(os.path.join(self.places.disk, "run", box.id))

    def message(self, box: Box) -> str:
        """What the container left as its termination message."""
        with open(os.path.join(box.folder, "termination-log"), "rb") as file:
            return file.read(4096).decode(errors="replace")

    def _overlay(self, image: str, folder: str) -> str:
        """A writable view of the image; the upper layer is on disk, or else in memory."""
        lower, root = os.path.join(folder, "image"), os.path.join(folder, "root")
        for path in (lower, root):
            os.mkdir(path)
        # Bound, so that no character of its path can mean anything in the mount's options.
        syscalls.bind(image, lower, recursive=False)
        run = os.path.join("run", os.path.basename(folder))
        for base in (os.path.join(self.places.disk, run), os.path.join(folder, "layer")):
            upper, work = os.path.join(base, "upper"), os.path.join(base, "work")
            os.makedirs(upper)
            os.mkdir(work)
            options = f"lowerdir={lower},upperdir={upper},workdir={work},userxattr"
            try:
                syscalls.mount("overlay", root, "overlay", 0, options)
                return root
            except OSError as error:
                refused = error
        raise refused

    def _binds(self, container: Container, folder: str, message: str) -> list[Bind]:
        binds = [Bind(self._sys, "/sys", True), Bind(self._shm, "/dev/shm")]
        files = os.listdir(self._etc)
        binds += [Bind(os.path.join(self._etc, name), f"/etc/{name}") for name in files]
        binds.append(Bind(message, container.message_path))
        own = self.volumes.binds(container, os.path.join(folder, "subpaths"))
        taken = {bind.path for bind in own}
        binds = [bind for bind in binds if bind.path not in taken] + own
        return sorted(binds, key=lambda bind: bind.path.count("/"))

    def _env(self, container: Container) -> list[tuple[str, str]]:
        env = dict(container.env)
        for name in self.plan.pass_env:
            if name in os.environ:
                env.setdefault(name, os.environ[name])
        env.setdefault("HOSTNAME", self.plan.pod.hostname)
        env.setdefault("PATH", DEFAULT_PATH)
        env.setdefault("HOME", _home(container))
        return list(env.items())

    def _write_etc(self) -> None:
        os.makedirs(self._etc)
        hostname = self.plan.pod.hostname
        files = {"hostname": hostname + "\n", "hosts": self._hosts(), "resolv.conf": ""}
        try:
            with open("/etc/resolv.conf") as resolv:
                files["resolv.conf"] = resolv.read()
        except OSError:
            pass
        for name, text in files.items():
            with open(os.path.join(self._etc, name), "w") as file:
                file.write(text)

    def _hosts(self) -> str:
        """As pkg/kubelet: managedHostsFileContent."""
        lines = [
            "# Kubernetes-managed hosts file.",
            "127.0.0.1\tlocalhost",
            "::1\tlocalhost ip6-localhost ip6-loopback",
            f"127.0.1.1\t{self.plan.pod.hostname}",
        ]
        for alias in self.plan.pod.host_aliases:
            names = "\t".join(alias.get("hostnames") or [])
            lines.append(f"{alias['ip']}\t{names}")
        return "\n".join(lines) + "\n"

    def _make_shm(self) -> str:
        """One /dev/shm for all containers: they share the pod's ipc namespace."""
        path = os.path.join(self.places.memory, "shm")
        os.mkdir(path)
        if self.sandbox.is_isolated:
            flags = syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC
            syscalls.mount("shm", path, "tmpfs", flags, f"mode=1777,size={SHM_SIZE}")
        else:
            os.chmod(path, 0o1777)
        return path

    def _make_sys(self) -> str:
        """The node's /sys, read-only all the way down: cgroups of ours are in it."""
        if not self.sandbox.is_isolated:
            return "/sys"
        path = os.path.join(self.places.memory, "sys")
        os.mkdir(path)
        syscalls.bind("/sys", path)
        syscalls.make_read_only(path)
        return path


def _home(container: Container) -> str:
    """The home of the container's user, by the image's own passwd file."""
    uid = str(container.user.uid if container.user else 0)
    try:
        with open(os.path.join(container.rootfs, "etc/passwd"), errors="replace") as file:
            for line in file:
                words = line.rstrip("\n").split(":")
                if len(words) >= 6 and words[2] == uid:
                    return words[5] or "/"
    except OSError:
        pass
    return "/root" if uid == "0" else "/"
