"""Deals out the GPUs that Slurm gave the job, with their device files and libraries.

Asked by `container_setup` where a job has GPUs, or its node has. A container gets the device files
of its own GPUs and no others, and for NVIDIA's the driver's libraries, which must be of the version
of the node's kernel module and so cannot come with an image. No device is opened here: that may
take a second, and it is the container's to do.
"""

from __future__ import annotations

import os

from ..linux import syscalls
from ..linux.fast_imports import value
from ..linux.process import run_quickly
from ..pod.volumes import Bind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ..plan import Container

# As Slurm numbers them on the node, whatever a cgroup hides; a step's own count more.
NUMBERS = ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS")
# As programs count those that they can open; set by Slurm, renumbered where it hides the others.
VISIBLE = (
    "CUDA_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "GPU_DEVICE_ORDINAL",
)
# NVIDIA's own tools and images look at it; void: no GPU is to be had.
NVIDIA_VISIBLE = "NVIDIA_VISIBLE_DEVICES"
FOLDER = "/usr/local/nvidia"  # in a container; images of NVIDIA's look for libraries there
CONTROL = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")
FIRST_RENDER_NODE = 128
# What the driver brings, by the beginnings of names.
LIBRARIES = (
    "libcuda.so", "libcudadebugger.so", "libnvidia-", "libnvcuvid.so", "libnvoptix.so",
    "libGLX_nvidia.so", "libEGL_nvidia.so", "libGLESv1_CM_nvidia.so", "libGLESv2_nvidia.so",
    "libvdpau_nvidia.so",
)  # fmt: skip
PROGRAMS = ("nvidia-smi", "nvidia-debugdump", "nvidia-cuda-mps-control", "nvidia-cuda-mps-server")
_LABELS = {"x86_64": "x86-64", "aarch64": "AArch64"}  # of ldconfig -p


@value
class Gpu:
    """One GPU of the job."""

    words: Mapping[str, str]  # variable of VISIBLE -> what it is called there
    files: list[str]  # its own device files


class Gpus:
    """The GPUs of one job on this node; `dev` is the node's /dev."""

    def __init__(
        self,
        environ: Mapping[str, str],
        dev: str = "/dev",
        proc: str = "/proc/driver/nvidia",
        sys: str = "/sys/class/drm",
    ) -> None:
        self._dev, self._proc, self._sys = dev, proc, sys
        self.maker = _maker(dev)
        self._visible = {name: _items(environ[name]) for name in VISIBLE if name in environ}
        self.given = self._given(next((environ[n] for n in NUMBERS if environ.get(n)), ""))
        self._dealt: dict[str, list[Gpu]] | None = None
        self._ranks = ""

    def deal(self, containers: Collection[Container], ranks: str = "") -> None:
        """Give each container the GPUs that it asks for; where none asks, each has all.

        The container `ranks` runs once for every task, and srun says which GPUs are whose.
        """
        self._dealt, self._ranks = dealt(containers, self.given, ranks), ranks

    def of(self, container: Container) -> list[Gpu]:
        """Return the GPUs of a container; also of one that is added later, where all have all."""
        return self.given if self._dealt is None else self._dealt.get(container.name, [])

    # Which they are

    def _given(self, text: str) -> list[Gpu]:
        numbers = expanded(text)
        known = next(iter(self._visible.values()), [])
        if not numbers:  # no word of Slurm's but what programs read
            numbers = [self._device_of(word) for word in known if word.isdigit()]
        found = []
        for place in range(max(len(numbers), len(known))):
            words = {n: items[place] for n, items in self._visible.items() if place < len(items)}
            number = numbers[place] if place < len(numbers) else -1
            found.append(Gpu(words, self._files(number, words)))
        return found

    def _device_of(self, word: str) -> int:
        """Return the number in a device file's name of a GPU that is counted in bus order."""
        minors = self._minors()
        return minors[int(word)] if int(word) < len(minors) else int(word)

    def _minors(self) -> list[int]:
        """Return NVIDIA's device numbers in the order of the bus, of those that we may use."""
        found = []
        folder = f"{self._proc}/gpus"
        for bus in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
            for line in _lines(f"{folder}/{bus}/information"):
                name, _, number = line.partition(":")
                if name == "Device Minor" and _may_use(f"{self._dev}/nvidia{int(number)}"):
                    found.append(int(number))
        return found

    def _files(self, number: int, words: Mapping[str, str]) -> list[str]:
        if self.maker == "amd":
            return self._amd_files(number)
        if any(word.startswith("MIG-") for word in words.values()):
            return self._mig_files()
        path = f"{self._dev}/nvidia{number}"
        return [path] if _may_use(path) else []

    def _mig_files(self) -> list[str]:
        """Return the device files for a part of a GPU (MIG): all that Slurm lets us use.

        The part's name says which it is, so all of them must be there.
        """
        return [path for path in self._every_file() if _may_use(path)]

    def _every_file(self) -> list[str]:
        """Return the device files of all GPUs of the node, whosever they are."""
        if self.maker == "amd":
            names = [f"dri/{name}" for name in _listed(f"{self._dev}/dri") if is_drm(name)]
        else:
            names = [name for name in _listed(self._dev) if is_whole(name)]
            names += [f"nvidia-caps/{name}" for name in _listed(f"{self._dev}/nvidia-caps")]
        return [f"{self._dev}/{name}" for name in names]

    def _amd_files(self, number: int) -> list[str]:
        folder = f"{self._dev}/dri"
        nodes = sorted((n for n in _listed(folder) if n.startswith("renderD")), key=_number)
        if number >= FIRST_RENDER_NODE:
            nodes = [name for name in nodes if _number(name) == number]
        else:
            nodes = nodes[number : number + 1] if number >= 0 else []
        names = {*nodes, *(card for n in nodes for card in _listed(f"{self._sys}/{n}/device/drm"))}
        paths = [f"{folder}/{name}" for name in sorted(names)]
        return [path for path in paths if _may_use(path)]

    # What a container gets

    def binds(self, container: Container) -> list[Bind]:
        """Return binds of the device files of an image's container.

        Ranks have different ones, each those that Slurm's cgroup lets it open; and what srun tells
        them counts all of the node's where no cgroup hides any.
        """
        own = self.of(container)
        if not own:
            return []
        files = [path for gpu in own for path in gpu.files]
        paths = self._every_file() if container.name == self._ranks else files
        paths = paths + self._shared_files()
        inside = [(path, "/dev" + path[len(self._dev) :]) for path in dict.fromkeys(paths)]
        return [Bind(source, path) for source, path in inside]

    def _shared_files(self) -> list[str]:
        names = ("kfd",) if self.maker == "amd" else CONTROL if self.maker else ()
        paths = [f"{self._dev}/{name}" for name in names]
        return [path for path in paths if _may_use(path)]

    def variables(self, container: Container, has_own_dev: bool) -> dict[str, str]:
        """Return what a container is told of its GPUs: the job's numbers where it sees all."""
        own = self.of(container)
        if not own:
            none = {NVIDIA_VISIBLE: "void"} if self.maker == "nvidia" else {}
            hidden = {} if has_own_dev else dict.fromkeys(self._visible, "")
            return {**none, **hidden}
        if container.name == self._ranks:
            return {}  # srun tells each its own
        found = {}
        for name in self._visible:
            words = [gpu.words[name] for gpu in own if name in gpu.words]
            # Others are not in a /dev of its own, and so do not count there.
            if has_own_dev and self.maker and all(word.isdigit() for word in words):
                words = [str(number) for number in range(len(own))]
            found[name] = ",".join(words)
        return found


def dealt(
    containers: Collection[Container], given: list[Gpu], ranks: str = ""
) -> dict[str, list[Gpu]] | None:
    """Map containers to their GPUs; None: all have all, as the job got them by Slurm's options.

    Where those options gave fewer than the containers ask for, all who ask have all. For a
    container of `ranks` each task asks: what the others leave is theirs, beginning with the first.
    """
    asking = [one for one in containers if one.gpus]
    if not asking:
        return None
    # An init container that ends has the first ones: none of the others runs yet.
    together = [one for one in asking if not one.init or one.restart_policy == "Always"]
    together.sort(key=lambda one: one.name != ranks)
    if max(sum(one.gpus for one in together), *(one.gpus for one in asking)) > len(given):
        return {one.name: given for one in asking}
    left, found = list(given), {one.name: given[: one.gpus] for one in asking}
    for place, one in enumerate(together):
        others = sum(other.gpus for other in together[place + 1 :])
        count = len(left) - others if one.name == ranks else one.gpus
        found[one.name], left = left[:count], left[count:]
    return found


def make_driver(folder: str) -> str:
    """Gather the driver's libraries and programs of this node in a new folder; return its path.

    Each is bound to a name of its own, in a folder that a container sees at FOLDER.
    """
    os.makedirs(f"{folder}/lib64")
    os.mkdir(f"{folder}/bin")
    os.symlink("lib64", f"{folder}/lib")
    found = {f"lib64/{name}": path for name, path in driver_libraries(_ldconfig()).items()}
    found.update({f"bin/{name}": path for name, path in _programs().items()})
    for name, path in found.items():
        os.close(os.open(f"{folder}/{name}", os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o755))
        syscalls.bind(os.path.realpath(path), f"{folder}/{name}", recursive=False)
    return folder


def driver_libraries(listing: str, machine: str = "") -> dict[str, str]:
    """Map names to paths of the driver's libraries, from what `ldconfig -p` prints."""
    label = _LABELS.get(machine or os.uname().machine, "")
    found: dict[str, str] = {}
    for line in listing.splitlines():
        head, arrow, path = line.strip().partition(" => ")
        name, _, kind = head.partition(" ")
        if arrow and name.startswith(LIBRARIES) and label and label in kind:
            found.setdefault(name, path)
    return found


def _ldconfig() -> str:
    from .runtimes import find

    path = find(["ldconfig", "/sbin/ldconfig", "/usr/sbin/ldconfig"])
    code, text = run_quickly([path, "-p"]) if path else (1, "")
    return "" if code else text


def _programs() -> dict[str, str]:
    from .runtimes import find

    found = {name: find([name]) for name in PROGRAMS}
    return {name: path for name, path in found.items() if path}


def with_driver(env: dict[str, str]) -> None:
    """Let programs find the driver's libraries, after their own."""
    for name, folder in (("LD_LIBRARY_PATH", "lib64"), ("PATH", "bin")):
        known = [part for part in env.get(name, "").split(":") if part]
        if f"{FOLDER}/{folder}" not in known:
            env[name] = ":".join([*known, f"{FOLDER}/{folder}"])


def _maker(dev: str) -> str:
    if os.path.exists(f"{dev}/nvidiactl"):
        return "nvidia"
    return "amd" if os.path.exists(f"{dev}/kfd") else ""


def is_whole(name: str) -> bool:
    """Return whether a file of /dev is an NVIDIA GPU: nvidia0, not nvidiactl."""
    return name.startswith("nvidia") and name[len("nvidia") :].isdigit()


def is_drm(name: str) -> bool:
    """Return whether a file of /dev/dri is a GPU, as a render node or as a card."""
    return name.startswith(("renderD", "card"))


def expanded(text: str) -> list[int]:
    """Return the numbers of `0,2-3`; none where it is no such list."""
    found: list[int] = []
    for item in _items(text):
        first, _, last = item.partition("-")
        if not (first.isdigit() and (last or first).isdigit()):
            return []
        found += range(int(first), int(last or first) + 1)
    return found


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _may_use(path: str) -> bool:
    """Return whether file modes and Slurm's device cgroup let us open it, without opening it."""
    return os.access(path, os.R_OK | os.W_OK)


def _listed(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _number(name: str) -> int:
    digits = name[len("renderD") :]
    return int(digits) if digits.isdigit() else -1


def _lines(path: str) -> list[str]:
    try:
        with open(path, errors="replace") as file:
            return file.read().splitlines()
    except OSError:
        return []
