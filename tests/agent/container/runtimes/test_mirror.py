"""What the node's own root shows of its devices."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator

import pytest

NOBODY = 65534

UNREADABLE = """
from orlop.agent.container.runtimes.mirror import fill
with tempfile.TemporaryDirectory() as made:
    original, folder = made + "/original", made + "/folder"
    os.makedirs(original + "/mount"); os.mkdir(folder)
    os.chmod(original, 0o444)
    try:
        fill(folder, original)
        print(os.listdir(folder))
    finally:
        os.chmod(original, 0o755)
"""


def said(path: str) -> str:
    module = "orlop.agent.container.runtimes.mirror"
    return run_as_user(f"from {module} import _is_closed_device as f; print(f({path!r}))")


def run_as_user(code: str) -> str:
    """What it prints as an ordinary user, to whom most of /dev is closed."""
    load = "import os, tempfile, orlop.agent.container.runtimes.mirror; "  # while it may be read
    become = f"os.getuid() or os.setresuid({NOBODY}, {NOBODY}, {NOBODY})\n"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", load + become + code],
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.mark.parametrize("path", ["/dev/null", "/dev/pts", "/etc/passwd"])
def test_what_a_user_may_open_is_shown(path: str) -> None:
    assert said(path) == "False"


@pytest.fixture
def closed() -> Iterator[str]:
    """A device of root alone, in a folder that everybody may enter."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o711)
        path = os.path.join(folder, "device")
        try:
            os.mknod(path, stat.S_IFCHR | 0o600, os.stat("/dev/null").st_rdev)
        except PermissionError:
            pytest.skip("only root makes devices")
        yield path


def test_a_device_that_a_user_may_not_open_is_not(closed: str) -> None:
    assert said(closed) == "True"


def test_an_entry_of_which_the_node_says_nothing_is_no_failure() -> None:
    assert said("/gone") == "False"
    assert run_as_user(UNREADABLE) == "['mount']"
