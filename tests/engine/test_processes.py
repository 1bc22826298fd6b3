"""Processes are known by number and start time, watched, signalled, and ended with all below."""

from __future__ import annotations

import os
import signal
import subprocess
import time

import pytest

from orlop.engine.demand import milli_cpus
from orlop.engine.processes import (
    Process,
    Started,
    boot_id,
    descendants,
    memory_mib,
    of_child,
    recorded,
)


@pytest.fixture
def sleeper():
    child = subprocess.Popen(["sleep", "60"])
    yield child
    child.kill()
    child.wait()


def test_our_own_child_is_alive_until_it_is_not(sleeper):
    process = Process(of_child(sleeper.pid, boot_id()))
    assert process.is_alive()
    assert process.descriptor is not None
    assert abs(process.started - time.time()) < 5
    process.signal(signal.SIGTERM)
    while process.is_alive():
        time.sleep(0.01)
    assert process.exit_code() == -signal.SIGTERM
    process.close()
    sleeper.returncode = 0  # it was reaped here


def test_a_number_with_another_start_time_is_another_process(sleeper):
    which = of_child(sleeper.pid, boot_id())
    process = Process(Started(which.pid, which.ticks + 1, which.boot))
    assert process.descriptor is None
    process.signal(signal.SIGKILL)
    process.kill_all()
    assert sleeper.poll() is None, "it must not be hit by mistake"


def test_a_process_that_never_was_is_not_alive():
    process = Process(Started(2**22 - 7, 1, boot_id()))
    assert not process.is_alive()
    assert process.exit_code() is None
    process.signal(signal.SIGTERM)
    process.kill_all()
    process.close()


def test_descendants_are_found_at_every_depth():
    script = "sh -c 'sleep 60 & wait' & setsid sleep 60 & wait"
    child = subprocess.Popen(["sh", "-c", script])
    try:
        deadline = time.monotonic() + 5
        while len(descendants(child.pid)) < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert len(descendants(child.pid)) == 3
    finally:
        Process(of_child(child.pid, boot_id())).kill_all()
        child.returncode = child.returncode or 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("boot\n17 (sh) S 1 " + " ".join(["0"] * 17) + " 4242 0\n", Started(17, 4242, "boot")),
        ("boot\n9 (a) b) c) S 1 " + " ".join(["0"] * 17) + " 7 0\n", Started(9, 7, "boot")),
        ("boot\n17 (sh) S 1", None),
        ("", None),
    ],
    ids=["plain", "a name with brackets", "torn", "empty"],
)
def test_a_record_counts_once_it_is_whole(tmp_path, text, expected):
    path = tmp_path / "process"
    path.write_text(text)
    assert recorded(path) == expected


def test_what_the_kernel_says_of_itself():
    assert len(boot_id()) == 36
    assert memory_mib() > 64
    assert os.getpid() in descendants(os.getppid())


def container(**resources):
    return {"resources": resources}


@pytest.mark.parametrize(
    ("containers", "inits", "expected"),
    [
        ([container()], [], 0),
        ([{}], [], 0),
        ([container(requests={"cpu": "250m"})], [], 250),
        ([container(limits={"cpu": "2"})], [], 2000),
        ([container(requests={"cpu": "1"}, limits={"cpu": "2"})], [], 1000),
        ([container(requests={"cpu": "1"})] * 3, [], 3000),
        ([container(requests={"cpu": "1"})], [container(requests={"cpu": "4"})] * 2, 4000),
        ([container(requests={"cpu": "5"})], [container(requests={"cpu": "4"})], 5000),
        ([container(requests={"memory": "1Gi"})], [], 0),
    ],
)
def test_cpus_are_counted_as_kubernetes_counts_them(containers, inits, expected):
    pod = {"spec": {"containers": containers, "initContainers": inits}}
    assert milli_cpus(pod) == expected
