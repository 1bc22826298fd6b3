"""Finds a kubectl recent enough for the tests, or fetches one of a newer Debian.

Called by set-up. Debian 12's own package is 1.20; its next release carries a recent one, which
goes into the dev root's bin folder and nowhere else.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from pathlib import Path

from .devroot import DevRoot
from .patched import use_private_libc
from .private_apt import PrivateApt

NEWER_RELEASE = "trixie"
OLDEST_MINOR = 27


def kubectl_is_recent(dev: DevRoot) -> bool:
    own = dev.bin / "kubectl"
    found = str(own) if own.exists() else shutil.which("kubectl")
    return found is not None and minor_version(found) >= OLDEST_MINOR


def minor_version(program: str) -> int:
    """Of 1.x; 0 for what does not run or does not say."""
    words = [program, "version", "--client", "--output=json"]
    try:
        answer = subprocess.run(words, capture_output=True, text=True, check=True, timeout=30)
        version = json.loads(answer.stdout)["clientVersion"]["minor"]
        return int(version.rstrip("+"))
    except (OSError, ValueError, KeyError, subprocess.SubprocessError):
        return 0


def fetch_kubectl(dev: DevRoot) -> None:
    with PrivateApt(NEWER_RELEASE) as apt, tempfile.TemporaryDirectory(dir=dev.path) as folder:
        tree = Path(folder)
        apt.extract(["kubectl"], tree)
        program = tree / "usr" / "bin" / "kubectl"
        if minor_version(str(program)) == 0:
            # Built for a newer libc than this machine's: give it that release's own.
            libraries = dev.path / "kubectl"
            apt.extract(["libc6"], libraries)
            use_private_libc(program, libraries)
        if minor_version(str(program)) < OLDEST_MINOR:
            raise RuntimeError(f"kubectl of Debian {NEWER_RELEASE} does not run here")
        dev.bin.mkdir(exist_ok=True)
        program.rename(dev.bin / "kubectl")
