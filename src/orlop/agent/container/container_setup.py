"""Prepares each run of a container: its root, its mounts, its environment, its launch.

`main` makes one `Workshop` and the supervisor uses it: it lays an overlay over the image's root,
writes the files every container finds in /etc, and gathers binds and environment. It composes the
same for every runtime; the supervisor starts what it has prepared.
"""

from __future__ import annotations

import os

from ...wellknown import SLURM_ENV_OF_SRUN, SQUASHED_IMAGE
from ..linux import syscalls
from ..linux.fast_imports import value
from ..linux.process import most_processes, run_quickly
from ..linux.untrusted_files import read_inside, remove_tree
from ..plan import Container, Plan
from ..pod.resolv_conf import HOSTS_HEAD, own_hosts, resolv_conf
from ..pod.sandbox import Sandbox
from ..pod.scratch_dirs import Places
from ..pod.volumes import Bind, Volumes, absolute
from .cgroups import NONE, Cgroups, Group
from .cpusets import bound_cores, dealt, pinned
from .logs import LogFile, Room
from .runtimes import Box, Kit, Launch, find

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..netd.netd_supervisor import NetdSupervisor
    from .gpus import Gpus
    from .runtimes import Runtime
    from .seccomp import Profile

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# As pkg/kubelet/kubelet_pods.go has it for pods on their node's network.
NODE_HOSTS_HEAD = "# Kubernetes-managed hosts file (host network).\n"
SHM_SIZE = "64m"  # containerd's
PASSWD = 1 << 20  # bytes of an image's accounts
# Without one of these there is no GPU here, and nothing about them need be imported.
GPU_SIGNS = (
    "SLURM_JOB_GPUS",
    "SLURM_STEP_GPUS",
    "CUDA_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
)
GPU_FILES = ("/dev/nvidiactl", "/dev/kfd")


@value
class Prepared:
    """A container that is ready to be launched."""

    box: Box
    runtime: Runtime
    launch: Launch
    cgroup: Group
    cores: Sequence[int] = ()  # empty: all of the job's
    open_log: Callable[[str], LogFile] = LogFile
    processes: int = 0  # that it and the other containers may have; 0: as many as there can be


class Workshop:
    """Prepares container runs; `network` is None where a pod has its node's, without netd."""

    def __init__(
        self,
        plan: Plan,
        sandbox: Sandbox,
        places: Places,
        cgroups: Cgroups,
        network: NetdSupervisor | None = None,
    ) -> None:
        self.network = network
        self._has_own = network is not None and not network.is_node
        # Slurm chooses the cores of ranks; the others keep off them by having all to choose from.
        self._cores = dealt(plan.containers, bound_cores()) if plan.ranks is None else {}
        self._gpus = _gpus(plan)
        self._driver = ""  # where the GPUs' libraries are gathered, once a container needs them
        self._kit, self._cgroups = Kit(plan, sandbox, places.memory), cgroups
        self.plan, self.sandbox, self.places = plan, sandbox, places
        self._logs = Room(**plan.logs)
        self._processes = most_processes(plan.pids)
        disk = plan.ranks["disk"] if plan.ranks is not None else ""
        disk = disk or places.disk
        self.volumes = Volumes(plan.volumes, disk, places.memory, sandbox.is_isolated)
        node_hosts = _read("/etc/hosts") + self._own_hosts()
        self._node_hosts = self._write("hosts-of-node", node_hosts)
        self._etc = self._write_etc()
        self._etc_of_ranks = self._write_etc_of_ranks()
        self._shm = self._make_shm()
        self._sys = self._make_sys()

    def prepare(self, container: Container, restart: int, joins: int = 0) -> Prepared:
        """Prepare all that is needed to launch one run of a container.

        `joins` is a process of another container, whose process namespace it is to enter.
        """
        if self._is_ranks(container):
            return self._prepare_ranks(container, restart)
        box = self.box(container, restart, joins)
        runtime = self._kit.runtime_for(container, joins)
        cgroup = self._cgroups.create(box.id, container.memory_limit, container.cpu_limit)
        launch = runtime.compose(box)
        # Without a sandbox a runtime is setuid, and would not be behind the filter.
        if self.network is not None and (self.sandbox.is_isolated or not box.root):
            launch.body = self.network.around(launch.body)
        cores = self._cores.get(container.name, [])
        launch.body = pinned(launch.body, cores)
        return Prepared(box, runtime, launch, cgroup, cores, self._open_log, self._processes)

    def _open_log(self, path: str) -> LogFile:
        return LogFile(path, self._logs)

    def _prepare_ranks(self, container: Container, restart: int) -> Prepared:
        """Prepare what runs once for every task: on the node's network, limited by Slurm."""
        from ..ranks.leader import RankSet
        from ..ranks.log import RankLog

        box, inner = self.inside(container, restart)
        runtime = RankSet(inner, self.plan)
        is_labelled = bool(self.plan.ranks and self.plan.ranks.get("label"))
        newline = b"\r\n" if container.tty else b"\n"
        launch = runtime.compose(box)
        if self.plan.ranks and self.plan.ranks.get("launches"):
            return Prepared(box, runtime, launch, NONE, open_log=self._open_log)

        def open_log(path: str) -> RankLog:
            return RankLog(path, is_labelled, newline, self._logs)

        return Prepared(box, runtime, launch, NONE, open_log=open_log)

    def inside(self, container: Container, restart: int = 0) -> tuple[Box, Runtime]:
        """Return the box in which ranks on this node run, and the runtime that makes it."""
        return self.box(container, restart), self._kit.runtime_for(container)

    def _is_ranks(self, container: Container) -> bool:
        return self.plan.ranks is not None and self.plan.ranks["container"] == container.name

    def version(self) -> str:
        """Return name and version of the runtime that runs the images of this pod."""
        return self._kit.version()

    def peak_memory(self) -> int:
        """Return the most memory that the job ever had; 0 where nobody counted."""
        return self._cgroups.peak()

    def runtime_lack(self) -> str:
        """Say why the runtime is not the one that the settings name; empty if it is that one."""
        return self._kit.lack()

    def box(self, container: Container, restart: int, joins: int = 0) -> Box:
        """Gather everything for one run, on a root that no earlier run has touched."""
        folder = os.path.join(self.places.memory, "run", f"{container.name}-{restart}")
        os.makedirs(folder)
        if self.sandbox.is_isolated:  # with it go, at the end, all mounts made below it
            syscalls.mount("run", folder, "tmpfs", syscalls.MS_NOSUID, "mode=0755")
        message = os.path.join(folder, "termination-log")
        os.close(os.open(message, os.O_CREAT | os.O_WRONLY, 0o666))
        os.chmod(message, 0o666)
        root = container.rootfs
        if root and self.sandbox.is_isolated:
            root = self._overlay(root, folder)
        binds = self._binds(container, folder, message)
        env = self._env(container)
        shares_pids = any(word in self.plan.pod.shared for word in ("pids", "hostPids"))
        head = (container, restart, folder, root, binds, env)
        return Box(*head, self.sandbox, shares_pids, joins, _profile(container))

    def discard(self, box: Box) -> None:
        """Undo `box` after the container has ended."""
        if self.sandbox.is_isolated:
            syscalls.umount(box.folder)
        remove_tree(box.folder)
        remove_tree(os.path.join(self.places.disk, "run", box.id))

    def _overlay(self, image: str, folder: str) -> str:
        """Mount a writable view of the image; what is written is on disk, or else in memory."""
        lower, root = os.path.join(folder, "image"), os.path.join(folder, "root")
        for path in (lower, root):
            os.mkdir(path)
        # Bound, so that no character of its path can mean anything in the mount's options.
        if not _mount_squashed(image, lower):
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
            except OSError:
                pass  # not on this file system, or not by this kernel
        # Bound, since what becomes the root of a container must be a mount.
        syscalls.bind(self._copy(lower, os.path.join(self.places.disk, run, "copy")), root)
        return root

    def _copy(self, image: str, target: str) -> str:
        """Copy the image's files, where no overlay can be had: slow, but it always works.

        Linux before 5.11 gives users no overlay, unless the distribution carries that back.
        """
        os.mkdir(target)
        code, words = run_quickly(["cp", "-a", "--reflink=auto", f"{image}/.", target])
        if code:
            raise OSError(code, f"copying the image: {words.strip()}")
        return target

    def _binds(self, container: Container, folder: str, message: str) -> list[Bind]:
        binds = [Bind(message, absolute(container.message_path))]
        if container.rootfs:
            binds += [Bind(self._sys, "/sys", True), Bind(self._shm, "/dev/shm")]
            etc = self._etc_of_ranks if self._is_ranks(container) else self._etc
            binds += [Bind(path, f"/etc/{name}") for name, path in etc.items()]
            binds += self._gpu_binds(container)
        else:
            binds.append(Bind(self._node_hosts, "/etc/hosts"))
            if os.path.exists("/etc/resolv.conf"):
                etc = self._etc_of_ranks if self._is_ranks(container) else self._etc
                binds.append(Bind(etc["resolv.conf"], "/etc/resolv.conf"))
        own = self.volumes.binds(container, os.path.join(folder, "subpaths"))
        taken = {bind.path for bind in own}
        binds = [bind for bind in binds if bind.path not in taken] + own
        return sorted(binds, key=lambda bind: bind.path.count("/"))

    def _gpu_binds(self, container: Container) -> list[Bind]:
        """Bind the container's own device files; outside a sandbox the runtime binds all."""
        if self._gpus is None or not self.sandbox.is_isolated:
            return []
        binds = self._gpus.binds(container)
        if binds and self._gpus.maker == "nvidia":
            from .gpus import FOLDER, make_driver

            if not self._driver:
                self._driver = make_driver(os.path.join(self.places.memory, "driver"))
            binds.append(Bind(self._driver, FOLDER, True))
        return binds

    def _gpu_env(self, container: Container, env: dict[str, str]) -> None:
        if self._gpus is None:
            return
        from .gpus import NVIDIA_VISIBLE, VISIBLE, with_driver

        has_own_dev = bool(container.rootfs) and self.sandbox.is_isolated
        found = self._gpus.variables(container, has_own_dev)
        for name in VISIBLE:
            if name in found:
                env.setdefault(name, found[name])
        if NVIDIA_VISIBLE in found:  # an image's own word, mostly "all", does not hold
            env[NVIDIA_VISIBLE] = found[NVIDIA_VISIBLE]
        if self._driver and self._gpus.of(container):
            with_driver(env)

    def _env(self, container: Container) -> list[tuple[str, str]]:
        env = dict(container.env)
        if container.env_files:
            from .envfiles import variables  # seldom asked for

            env.update(variables(container.env_files, self.volumes))
        is_ranks = self._is_ranks(container)
        if not self._has_own or is_ranks:
            for name, (inside, outside) in (self.plan.host_env or {}).items():
                if env.get(name) == inside:
                    env[name] = outside
        of_srun = () if container.rootfs else SLURM_ENV_OF_SRUN
        for name in (*self.plan.pass_env, *of_srun):
            if name in os.environ:
                env.setdefault(name, os.environ[name])
        if container.rootfs and not is_ranks:
            for name, tasks in slots(os.environ.get("SLURM_TASKS_PER_NODE", "")):
                env.setdefault(name, tasks)
        hostname = self.plan.pod.hostname
        if is_ranks and self.plan.ranks is not None:
            hostname = self.plan.ranks["hostname"]
        env.setdefault("HOSTNAME", hostname)
        if container.rootfs:
            env.setdefault("PATH", DEFAULT_PATH)
            env.setdefault("HOME", _home_in_image(container))
        else:
            env.setdefault("PATH", os.environ.get("PATH") or DEFAULT_PATH)
            env.setdefault("HOME", os.environ.get("HOME") or _home_on_node(self.sandbox.uid))
        self._gpu_env(container, env)
        return list(env.items())

    def _write_etc(self) -> dict[str, str]:
        """Write the files every image finds in /etc; map each name to where its file is."""
        if not self._has_own:
            hosts = NODE_HOSTS_HEAD + _read("/etc/hosts") + self._own_hosts()
        else:
            hosts = HOSTS_HEAD + self._own_hosts()
        files = {"hostname": self.plan.pod.hostname + "\n", "hosts": hosts}
        files["resolv.conf"] = self._resolv_conf(_read("/etc/resolv.conf"))
        return {name: self._write(name, text) for name, text in files.items()}

    def _write_etc_of_ranks(self) -> dict[str, str]:
        """Write the same for ranks, which are on their nodes' networks under their nodes' names."""
        if self.plan.ranks is None:
            return {}
        files = {"hostname": self.plan.ranks["hostname"] + "\n", "hosts": _read("/etc/hosts")}
        files["resolv.conf"] = self._resolv_conf_of_ranks(_read("/etc/resolv.conf"))
        return {name: self._write(f"{name}-of-ranks", text) for name, text in files.items()}

    def _resolv_conf_of_ranks(self, of_node: str) -> str:
        resolver, ranks = self.plan.resolver, self.plan.ranks or {}
        is_clusters = resolver is None or resolver["policy"] == "ClusterFirst"
        if is_clusters and not ranks.get("network"):
            return of_node
        return resolv_conf(resolver, of_node)

    def _resolv_conf(self, of_node: str) -> str:
        resolver, network = self.plan.resolver, self.plan.network
        if resolver is None or self.network is None or network is None:
            # The node's network does not lead to the cluster's name server.
            is_clusters = resolver is None or resolver["policy"] == "ClusterFirst"
            return of_node if is_clusters else resolv_conf(resolver, of_node)
        # With a loopback of its own it cannot reach a server on the node's.
        own = network["dns"]["nameserver"] if self._has_own else ""
        return resolv_conf(resolver, of_node, own)

    def _write(self, name: str, text: str) -> str:
        path = os.path.join(self.places.memory, name)
        with open(path, "w") as file:
            file.write(text)
        return path

    def _own_hosts(self) -> str:
        pod, network = self.plan.pod, self.plan.network
        has_own = self._has_own and network is not None
        address = network["podIP"] if has_own and network is not None else "127.0.1.1"
        return own_hosts(address, pod.hostname, pod.fqdn, pod.host_aliases)

    def _make_shm(self) -> str:
        """Make one /dev/shm for all containers: they share an ipc namespace (or the node's)."""
        if not self.sandbox.has_own_ipc:
            return "/dev/shm"
        path = os.path.join(self.places.memory, "shm")
        os.mkdir(path)
        if self.sandbox.is_isolated:
            flags = syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC
            # Ranks talk through it, and how much they need grows with their number.
            size = f",size={SHM_SIZE}" if self.plan.ranks is None else ""
            syscalls.mount("shm", path, "tmpfs", flags, f"mode=1777{size}")
        else:
            os.chmod(path, 0o1777)
        return path

    def _make_sys(self) -> str:
        """Bind the node's /sys, read-only all the way down: cgroups of ours are in it."""
        if not self.sandbox.is_isolated:
            return "/sys"
        path = os.path.join(self.places.memory, "sys")
        os.mkdir(path)
        syscalls.bind("/sys", path)
        syscalls.make_read_only(path)
        return path


def _profile(container: Container) -> Profile | None:
    if not container.seccomp:
        return None
    from .seccomp import of_container  # long lists, and most do without

    return of_container(container)


def _gpus(plan: Plan) -> Gpus | None:
    """Return the GPUs of the job; None where neither it nor the node has any."""
    if not (any(name in os.environ for name in GPU_SIGNS) or any(map(os.path.exists, GPU_FILES))):
        return None
    from .gpus import Gpus

    found = Gpus(os.environ)
    found.deal(plan.containers, plan.ranks["container"] if plan.ranks is not None else "")
    return found


def _mount_squashed(image: str, target: str) -> bool:
    """Mount the image's squashfs file; return False where there is none, or no squashfuse.

    The process of squashfuse is a child of the agent, and ends when the last who uses the mount
    has.
    """
    path = os.path.join(os.path.dirname(image), SQUASHED_IMAGE)
    if not os.path.exists(path):
        return False
    program = find(("squashfuse_ll", "squashfuse"))
    if not program or not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return False
    return run_quickly([program, "-o", "allow_other", path, target])[0] == 0


def _read(path: str) -> str:
    try:
        with open(path, errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _home_on_node(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_dir
    except KeyError:
        return "/"


def _home_in_image(container: Container) -> str:
    """Return the home of the container's user, by the image's own passwd file."""
    uid = str(container.user.uid if container.user else 0)
    for line in read_inside(container.rootfs, "etc/passwd", PASSWD).splitlines():
        words = line.split(":")
        if len(words) >= 6 and words[2] == uid:
            return words[5] or "/"
    return "/root" if uid == "0" else "/"


def slots(tasks_per_node: str) -> list[tuple[str, str]]:
    """Return the variables that tell an image's mpirun, which has no srun to ask, its tasks here.

    Slurm says `4(x2),1`, this node first. Open MPI would count cores; Open MPI 5 has another
    prefix.
    """
    tasks = tasks_per_node.partition(",")[0].partition("(")[0]
    if not tasks.isdigit() or int(tasks) < 2:
        return []
    return [("OMPI_MCA_orte_set_default_slots", tasks), ("PRTE_MCA_prte_set_default_slots", tasks)]
