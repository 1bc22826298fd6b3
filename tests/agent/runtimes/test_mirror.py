"""What the node's own root shows of its devices."""

from __future__ import annotations

import os
import stat
import subprocess
import sys

import pytest

NOBODY = 65534


def said(path: str) -> str:
    """As an ordinary user, to whom most of /dev is closed."""
    code = f"from orlop.agent.runtimes.mirror import _is_closed_device as f; print(f({path!r}))"
    become = f"import os; os.getuid() or os.setresuid({NOBODY}, {NOBODY}, {NOBODY}); "
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", "import orlop.agent.runtimes.mirror; " + become + code],
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.mark.parametrize("path", ["/dev/null", "/dev/pts", "/etc/passwd"])
def test_what_a_user_may_open_is_shown(path: str) -> None:
    assert said(path) == "False"


def test_a_device_that_a_user_may_not_open_is_not() -> None:
    devices = (entry.path for entry in os.scandir("/dev") if not entry.is_symlink())
    modes = ((path, os.lstat(path)) for path in devices)
    closed = [p for p, s in modes if stat.S_ISCHR(s.st_mode) and not (s.st_mode & 6 or s.st_gid)]
    assert said(closed[0]) == "True"
