"""Puts Debian's own apptainer into a private prefix, where no root is needed.

Called by set-up. Debian 12 and 13 have no apptainer; the one of its development release wants a
newer C library, so both live in the dev root, and only there. The programs apptainer calls
(squashfuse, fuse-overlayfs, newuidmap) are the machine's own.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tools.devroot import DevRoot
from tools.patched import library_folder, use_private_libc, use_private_libraries
from tools.private_apt import PrivateApt
from tools.steps import Lacking, Step

RELEASE = "sid"
PACKAGES = ["apptainer", "libc6", "libseccomp2", "libsqlite3-0"]


def step(dev: DevRoot) -> Step:
    return Step("apptainer", lambda: program(dev).exists(), lambda: fetch_apptainer(dev))


def program(dev: DevRoot) -> Path:
    return dev.apptainer / "usr" / "bin" / "apptainer"


def fetch_apptainer(dev: DevRoot) -> str:
    """Unpacks, then patches in place, since the paths written into the programs are final."""
    if shutil.which("patchelf") is None:
        raise Lacking("patchelf is missing: apt-get install patchelf")
    prefix = dev.apptainer
    shutil.rmtree(prefix, ignore_errors=True)
    with PrivateApt(RELEASE) as apt:
        apt.extract(PACKAGES, prefix)
    try:
        version = patch(prefix)
    except BaseException:
        # The program's presence is the sign that all was done.
        shutil.rmtree(prefix)
        raise
    return f"{version} in {prefix}"


def patch(prefix: Path) -> str:
    libraries = library_folder(prefix)
    parts = libraries / "apptainer"
    use_private_libc(prefix / "usr" / "bin" / "apptainer", prefix)
    use_private_libc(parts / "bin" / "starter", prefix)
    for library in (parts / "lib").glob("*.so"):
        use_private_libraries(library, prefix)
    # apptainer finds its configuration relative to itself; starter, which lies one folder deeper,
    # relative to usr/lib. Both must arrive at the same files.
    for link, target in {
        "usr/etc": "../etc",
        "usr/lib/etc": "../../etc",
        "usr/lib/var": "../var",
        "usr/lib/bin": "../bin",
    }.items():
        (prefix / link).symlink_to(target)
    (prefix / "usr/var/lib/apptainer/mnt/session").mkdir(parents=True)
    ask = [str(prefix / "usr" / "bin" / "apptainer"), "--version"]
    return subprocess.run(ask, check=True, capture_output=True, text=True).stdout.strip()
