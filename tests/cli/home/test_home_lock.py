from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from orlop.cli.home import record
from orlop.cli.home.home_lock import DOUBT, LEASE, HomeLock, resident, silence
from orlop.cli.home.record import Record
from orlop.errors import HomeInUse
from orlop.settings import Paths


@pytest.fixture
def paths(tmp_path):
    (tmp_path / "run").mkdir()
    return Paths(tmp_path)


def beat_ago(paths: Paths, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(paths.pid, (then, then))


def test_nobody_lives_in_an_empty_home(paths):
    assert resident(paths) is None


def test_a_control_plane_is_seen_while_it_is_there_and_not_after(paths):
    mine = record.mine(port=7)
    with HomeLock(paths) as lock:
        lock.declare(mine)
        assert resident(paths) == mine
    assert resident(paths) is None
    assert record.read(paths) == mine.stopped()


def test_a_killed_one_on_this_host_is_gone_at_once(paths):
    dead = replace(record.mine(), pid=os.getpid(), birth="some-boot/1")
    record.write(paths, dead)
    assert resident(paths) is None
    with HomeLock(paths):
        pass


@pytest.mark.parametrize(("age", "lives"), [(0, True), (LEASE - 5, True), (LEASE + 5, False)])
def test_one_on_another_host_lives_as_long_as_its_heart_beats(paths, age, lives):
    other = Record("another-host", 1, "boot/1")
    record.write(paths, other)
    beat_ago(paths, age)
    assert resident(paths) == (other if lives else None)


def test_who_was_stopped_for_long_looks_again_before_it_writes(paths):
    now = 0.0
    with HomeLock(paths, clock=lambda: now) as lock:
        lock.declare(record.mine())
        now = DOUBT - 1
        paths.pid.unlink()
        lock.fence()  # all is well: nothing is read
        lock.declare(record.mine())
        now += DOUBT + 1
        lock.fence()  # nobody came: this was a heartbeat
        now += DOUBT + 1
        record.write(paths, Record("another-host", 1, "boot/1"))
        with pytest.raises(HomeInUse, match="another-host"):
            lock.fence()


def test_a_file_system_without_locks_is_lived_with(paths, monkeypatch):
    """As Lustre answers, where it is mounted without them; no such file system is at hand."""

    def no_locks(descriptor: int, how: int) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr("fcntl.flock", no_locks)
    with HomeLock(paths) as lock:
        assert not lock.has_locks
        lock.declare(record.mine(port=7))
        with pytest.raises(HomeInUse), HomeLock(paths):
            pass


def test_one_on_another_host_keeps_us_out_with_its_name_and_a_remedy(paths):
    record.write(paths, Record("another-host", 4711, "boot/1"))
    with pytest.raises(HomeInUse) as caught, HomeLock(paths):
        pass
    for word in ("another-host", "4711", str(paths.home), "orlop down", "ORLOP_HOME"):
        assert word in str(caught.value)


def test_the_lock_keeps_out_even_one_whose_record_is_lost(paths):
    hold = (
        "import sys\n"
        "from pathlib import Path\n"
        "from orlop.cli.home.home_lock import HomeLock\n"
        "from orlop.settings import Paths\n"
        "with HomeLock(Paths(Path(sys.argv[1]))):\n"
        "    print('in', flush=True); input()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", hold, paths.home],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "in\n"
        with pytest.raises(HomeInUse), HomeLock(paths):
            pass
        child.kill()
        child.wait()
        with HomeLock(paths):  # the kernel gave the lock back
            pass


def test_a_beat_changes_the_time_and_nothing_else(paths):
    with HomeLock(paths) as lock:
        lock.declare(record.mine())
        before = paths.pid.read_bytes()
        beat_ago(paths, 30)
        assert 25 < silence(paths) < 35
        lock.beat()
        assert silence(paths) < 5
        assert paths.pid.read_bytes() == before


def test_another_tenants_record_is_not_touched_on_leaving(paths):
    other = Record("another-host", 1, "boot/1")
    with HomeLock(paths) as lock:
        lock.declare(record.mine())
        record.write(paths, other)
    assert record.read(paths) == other


def test_one_that_was_taken_for_dead_notices_that_it_is(paths):
    with HomeLock(paths) as lock:
        lock.declare(record.mine())
        record.write(paths, Record("another-host", os.getpid(), "boot/1"))
        beat_ago(paths, 30)
        with pytest.raises(HomeInUse, match="another-host"):
            lock.beat()
        assert silence(paths) > 20  # the other one's heartbeat is its own


def test_a_home_that_has_gone_is_noticed(paths):
    with HomeLock(paths) as lock:
        lock.declare(record.mine())
        paths.pid.unlink()
        with pytest.raises(FileNotFoundError):
            lock.beat()
