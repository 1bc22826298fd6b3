"""GPUs that are none: device files as NVIDIA's driver has them, and a driver's libraries.

Made when a cluster with GPUs starts; node-init puts the devices into the nodes' /dev, and the
libraries are found by the cluster's own ldconfig. There is no driver behind them: whoever opens one
is told so by the kernel, or that it may not.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from pathlib import Path

from .spec import Spec

# A major number no driver has. Clones of /dev/null would not do: denying them to a job denies it
# /dev/null.
GPU_DEVICE = 240
LIBRARIES = ("libcuda.so.1", "libnvidia-ml.so.1")
SMI = "#!/bin/sh\nls /dev | grep 'nvidia[0-9]'\n"
# Not the machine's own cache: a package that somebody installs would replace it.
LDCONFIG = '#!/bin/sh\nexec /sbin/ldconfig -C {cache} "$@"\n'


def make(root: Path, spec: Spec) -> None:
    if not spec.gpus and not spec.devices:
        return
    for node in spec.node_names:
        _make_devices(root / "gpu" / node, [*_nvidia(spec.gpus), *spec.devices.get(node, ())])
    _make_driver(root)


def _nvidia(count: int) -> list[str]:
    numbered = [f"nvidia{number}" for number in range(count)]
    return [*numbered, "nvidiactl", "nvidia-uvm"] if count else []


def _make_devices(folder: Path, names: list[str]) -> None:
    folder.mkdir(parents=True)
    for number, name in enumerate(names):
        (folder / name).parent.mkdir(exist_ok=True)
        os.mknod(folder / name, 0o666 | stat.S_IFCHR, os.makedev(GPU_DEVICE, number))
        (folder / name).chmod(0o666)


def _make_driver(root: Path) -> None:
    driver, etc = root / "driver", root / "etc"
    driver.mkdir()
    any_library = next(Path("/lib").glob("*-linux-gnu/libdl.so.2"))
    for name in LIBRARIES:
        shutil.copy(any_library, driver / name)
        subprocess.run(["patchelf", "--set-soname", name, driver / name], check=True)
    conf, cache = etc / "ld.so.conf", etc / "ld.so.cache"
    conf.write_text(f"include /etc/ld.so.conf\n{driver}\n")
    subprocess.run(["/sbin/ldconfig", "-i", "-X", "-f", conf, "-C", cache], check=True)
    for name, text in (("nvidia-smi", SMI), ("ldconfig", LDCONFIG.format(cache=cache))):
        (root / "bin" / name).write_text(text)
        (root / "bin" / name).chmod(0o755)
