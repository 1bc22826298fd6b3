"""Removes a folder whose files belong to several ids, as root among these ids.

`in_namespace` is called by the control plane where it may not remove a volume's folder itself: a
container with a range of ids has left files of theirs. It runs this module in a process of its own,
which maps the same range; the control plane itself enters no namespace.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from ...agent.pod import sandbox
from ...errors import Error
from ...files import remove_below

_TIMEOUT = 600.0  # seconds for one folder


class RemovalFailed(Error):
    """Raised when some of a folder is still there."""


def in_namespace(root: Path, name: str) -> None:
    """Remove the folder `name` of `root`; blocks."""
    argv = [sys.executable, "-I", "-m", __name__, str(root), name]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=_TIMEOUT, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise RemovalFailed(f"cannot remove {root / name}: {last}")


def main(root: str, name: str) -> None:
    sandbox.enter("removal")
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    remove_below(name, descriptor)


if __name__ == "__main__":
    main(*sys.argv[1:])
