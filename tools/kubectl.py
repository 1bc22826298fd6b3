"""Finds a kubectl recent enough for the tests, or fetches one of a newer Debian.

Called by set-up. Debian 12's own package is 1.20; that of Debian 13 is recent, and goes into the
dev root's bin folder and nowhere else.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from pathlib import Path

from tools.devroot import DevRoot
from tools.patched import use_private_libc
from tools.private_apt import PrivateApt
from tools.steps import Step

NEWER_RELEASE = "trixie"
OLDEST_MINOR = 27
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"


def step(dev: DevRoot) -> Step:
    return Step("kubectl", lambda: is_there(dev), lambda: fetch_kubectl(dev))


def is_there(dev: DevRoot) -> bool:
    if (dev.bin / "kubectl").exists():
        return True
    found = shutil.which("kubectl", path=SYSTEM_PATH)
    return found is not None and minor_version(found) >= OLDEST_MINOR


def minor_version(program: str) -> int:
    """Of 1.x; 0 for what does not run, does not say, or only chooses between others."""
    words = [program, "version", "--client", "--output=json"]
    try:
        answer = subprocess.run(words, capture_output=True, text=True, check=True, timeout=30)
        version = json.loads(answer.stdout)["clientVersion"]
        # Google's SDK has a kubectl that asks the server first which kubectl to be.
        return 0 if "dispatcher" in version["gitVersion"] else int(version["minor"].rstrip("+"))
    except (OSError, ValueError, KeyError, subprocess.SubprocessError):
        return 0


def fetch_kubectl(dev: DevRoot) -> str:
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
    return f"1.{minor_version(str(dev.bin / 'kubectl'))} in {dev.bin}"
