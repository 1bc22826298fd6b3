"""Intel's MPI, of which the test registry makes an image: the few files of its wheels that matter.

Called where images are made. pip fetches the wheels, without what they depend on; what is taken of
them stays in the dev root, so that it is fetched once. Its licence, which lets anyone use and pass
on the files unchanged, is kept with them.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import zipfile
from pathlib import Path

from tools.devroot import DevRoot
from tools.environment import UV

# The one of the MPI operator's own images, and the smallest of late that brings its libfabric.
VERSION = "2021.14.2"
WHEELS = (f"impi-rt=={VERSION}", f"impi-devel=={VERSION}")
TAKEN = (
    "bin/hydra_bstrap_proxy",
    "bin/hydra_pmi_proxy",
    "bin/mpiexec.hydra",
    "bin/mpirun",
    "include/mpi.h",
    "include/mpio.h",
    "lib/libfabric/libfabric.so.1",
    "lib/libfabric/prov/libtcp-fi.so",
    "lib/libmpi.so.12",
    "opt/mpi/etc/tuning_generic_ofi.dat",
    "opt/mpi/etc/tuning_generic_shm-ofi.dat",
    "share/doc/mpi/licensing/license.txt",
)


def intel_mpi(dev: DevRoot) -> Path:
    """The folder with the files; fetches them if they are not there."""
    folder = dev.path / "intel-mpi" / VERSION
    if not folder.exists():
        folder.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as place:
            for wheel in _fetched(Path(place)):
                _take(wheel, Path(place) / "taken")
            _check(Path(place) / "taken")
            shutil.move(Path(place) / "taken", folder)
    return folder


def _fetched(place: Path) -> list[Path]:
    pip = [UV.parent / "pip", "download", "--quiet", "--no-deps", "--no-cache-dir"]
    command = [*pip, "--only-binary=:all:", "--dest", place, *WHEELS]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(
            f"expected pip to fetch {' and '.join(WHEELS)} for the image with Intel's MPI; "
            f"it said:\n{done.stderr.strip()}\nlet pip reach its index, or name a folder with "
            "these wheels in PIP_FIND_LINKS, and run tools/setup again"
        )
    return sorted(place.glob("*.whl"))


def _take(wheel: Path, folder: Path) -> None:
    """What a wheel has below `data` would be installed beside Python itself."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            _, _, path = name.partition(".data/data/")
            if path in TAKEN:
                target = folder / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(archive.read(name))
                target.chmod(0o755 if path.startswith("bin/") else 0o644)


def _check(folder: Path) -> None:
    missing = [path for path in TAKEN if not (folder / path).exists()]
    if missing:
        raise RuntimeError(f"{' and '.join(WHEELS)} lack {', '.join(missing)}")
