"""System calls through ctypes: their errors name what they were about."""

from __future__ import annotations

import errno
import subprocess
import sys
import time

import pytest

from orlop.agent.linux import syscalls


def in_namespaces(code):
    """What a Python in user and mount namespaces of its own prints."""
    command = ["unshare", "--user", "--map-root-user", "--mount", sys.executable, "-c"]
    prologue = "import os; from orlop.agent.linux import syscalls\n"
    done = subprocess.run([*command, prologue + code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_an_error_has_its_number_and_its_path():
    with pytest.raises(OSError, match="/no/such/place") as caught:
        syscalls.bind("/", "/no/such/place")
    assert caught.value.errno in (errno.ENOENT, errno.EPERM)


def test_a_mount_can_be_made_and_taken_away(tmp_path):
    code = f"""
path = {str(tmp_path)!r}
syscalls.mount("none", path, "tmpfs", 0, "mode=0700")
print(os.path.ismount(path))
syscalls.umount(path)
print(os.path.ismount(path))
"""
    assert in_namespaces(code) == ["True", "False"]


def test_read_only_goes_all_the_way_down(tmp_path):
    (tmp_path / "a/b").mkdir(parents=True)
    code = f"""
path = {str(tmp_path)!r}
syscalls.mount("none", path, "tmpfs")
os.makedirs(path + "/inner")
syscalls.mount("none", path + "/inner", "tmpfs")
syscalls.make_read_only(path)
for place in (path, path + "/inner"):
    try:
        open(place + "/x", "w")
    except OSError as error:
        print(error.errno)
"""
    assert in_namespaces(code) == [str(errno.EROFS)] * 2


def test_a_new_root_is_all_there_is(tmp_path):
    (tmp_path / "only").touch()
    code = f"""
syscalls.bind({str(tmp_path)!r}, {str(tmp_path)!r})
syscalls.pivot_root({str(tmp_path)!r})
print(*os.listdir("/"), os.getcwd())
"""
    assert in_namespaces(code) == ["only", "/"]


def test_unknown_capabilities_are_told_apart():
    code = "print(syscalls.drop_from_bounding_set(0), syscalls.drop_from_bounding_set(63))"
    assert in_namespaces(code) == ["True", "False"]


def test_orphans_are_adopted():
    code = """
import subprocess
syscalls.adopt_orphans()
subprocess.run(["sh", "-c", "sleep 0.2 & exit 0"])
pid, status = os.waitpid(-1, 0)
print(status)
"""
    assert in_namespaces(code) == ["0"]


def test_a_child_dies_with_its_parent():
    code = """
import signal, time
pid = os.fork()
if pid == 0:
    child = os.fork()
    if child == 0:
        syscalls.die_with_parent(signal.SIGKILL)
        time.sleep(30)
    time.sleep(0.3)
    print(child, flush=True)
    os._exit(0)
os.waitpid(pid, 0)
"""
    (child,) = in_namespaces(code)
    until = time.monotonic() + 5
    while _lives(child):
        assert time.monotonic() < until
        time.sleep(0.01)


def _lives(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
