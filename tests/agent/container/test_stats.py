"""What a container uses is what the kernel says it uses, in every runtime."""

from __future__ import annotations

import re
import shutil
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from orlop.agent.container import stats
from orlop.agent.container.stats import Stats, cgroup_cpu, cgroup_memory

from ..kubelet_double import KubeletDouble
from ..pods import container

BURN = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"
WAIT = "trap 'exit 0' TERM; while :; do sleep 0.05; done"


@pytest.fixture
def kubelet():
    folder = Path(tempfile.mkdtemp(prefix="orlop-kubelet-", dir="/tmp"))
    double = KubeletDouble(folder)
    yield double
    double.stop()
    shutil.rmtree(folder)


def started(make_pod, kubelet, *containers, **options):
    pod = make_pod(*containers, plan={"kubelet": kubelet.plan}, **options)
    (pod.folder / "token").write_text("s3cret\n")
    pod.start()
    agent = kubelet.agent()
    agent.hear("hello")
    agent.tell(type="welcome", acked=0)
    return pod, agent


def asked(agent, number=1):
    agent.tell(type="stats", id=number)
    answer = agent.hear("stats")
    assert answer["id"] == number
    return {one["name"]: one for one in answer["containers"]}


def said(pod, words, name="c"):
    """The container's line with these words."""
    path = pod.folder / "logs" / name / "0.log"
    until = time.monotonic() + 30
    while time.monotonic() < until:
        text = path.read_text() if path.exists() else ""
        if words in text:
            return text
        time.sleep(0.05)
    raise AssertionError(f"the container never said {words!r}: {text}")


def seconds(text):
    """All that `times` of a shell adds up to: its own, and its children's."""
    found = re.findall(r"(\d+)m([\d.]+)s", text)
    return sum(int(minutes) * 60 + float(rest) for minutes, rest in found)


def test_cpu_counts_children_that_have_ended(make_pod, kubelet, runtime):
    script = f"({BURN}); {BURN}; times; echo done; {WAIT}"
    pod, agent = started(make_pod, kubelet, container(script=script), runtime=runtime)
    told = seconds(said(pod, "done"))
    measured = asked(agent)["c"]["cpu"] / 1e9
    assert told > 0.1
    # The loop after it costs little; ticks are a hundredth of a second.
    assert told * 0.9 - 0.05 <= measured <= told * 1.5 + 0.3


def test_memory_is_what_the_process_has(make_pod, kubelet, runtime):
    script = f"x=$(head -c 20000000 /dev/zero | tr '\\0' x); grep VmRSS /proc/$$/status; {WAIT}"
    pod, agent = started(make_pod, kubelet, container(script=script), runtime=runtime)
    resident = int(re.search(r"VmRSS:\s+(\d+) kB", said(pod, "VmRSS")).group(1)) * 1024

    def is_alike(found):
        return resident * 0.9 <= found["workingSet"] <= resident * 1.3 + (4 << 20)

    found = asked(agent)["c"]
    for number in range(2, 50):  # a child that is about to become `sleep` seems to have it all, too
        if not is_alike(found):
            found = asked(agent, number)["c"]
    assert is_alike(found), (resident, found)
    assert 18_000_000 <= found["rss"] <= found["usage"]


def test_containers_are_told_apart(make_pod, kubelet):
    busy = container("busy", script=f"{BURN}; echo done; {WAIT}")
    idle = container("idle", script="echo idle; exec sleep 60")
    pod, agent = started(make_pod, kubelet, busy, idle)
    said(pod, "done", "busy")
    said(pod, "idle", "idle")
    found = asked(agent)
    assert set(found) == {"busy", "idle"}
    assert found["busy"]["cpu"] > 5 * found["idle"]["cpu"]


class Box(SimpleNamespace):
    pass


def a_run(pid, name="c", folders=(), leads=False, tty=False):
    cgroup, launch = Box(folders=list(folders)), Box(leads=leads)
    box = Box(restart=0, container=Box(tty=tty))
    return Box(pid=pid, name=name, has_ended=False, cgroup=cgroup, box=box, launch=launch)


def a_process(proc, pid, parent, ticks=(0, 0, 0, 0), pages=(0, 0)):
    folder = proc / str(pid)
    folder.mkdir(parents=True, exist_ok=True)
    fields = ["S", parent, *[0] * 9, *ticks]
    (folder / "stat").write_text(f"{pid} (a ) b) " + " ".join(map(str, fields)))
    (folder / "statm").write_text(f"999 {pages[0]} {pages[1]} 0 0 0 0")


def test_time_that_leaves_with_an_orphan_is_not_given_back(tmp_path):
    runs = [a_run(10)]
    measured = Stats(lambda: runs, lambda: 1.0, str(tmp_path))
    a_process(tmp_path, 10, 1, (5, 0, 0, 0))
    a_process(tmp_path, 11, 10, (20, 0, 0, 0))
    assert measured.measure()["containers"][0]["cpu"] == 25 * stats.TICK
    shutil.rmtree(tmp_path / "11")  # nobody waited for it
    assert measured.measure()["containers"][0]["cpu"] == 25 * stats.TICK
    a_process(tmp_path, 10, 1, (8, 0, 0, 0))
    assert measured.measure()["containers"][0]["cpu"] == 28 * stats.TICK


@pytest.mark.parametrize("tty", [False, True])
def test_all_ranks_of_the_node_are_counted_with_what_they_have_begun(tmp_path, tty):
    a_process(tmp_path, 5, 1, (100, 0, 0, 0))  # Slurm's daemon of the step
    a_process(tmp_path, 9, 5, (1, 0, 0, 0))  # waits for the first rank where that has a terminal
    a_process(tmp_path, 10, 9 if tty else 5, (2, 0, 0, 0))
    a_process(tmp_path, 11, 5, (4, 0, 0, 0))
    a_process(tmp_path, 12, 11, (8, 0, 0, 0))
    a_process(tmp_path, 13, 1, (100, 0, 0, 0))
    run = a_run(10, leads=True, tty=tty)
    (found,) = Stats(lambda: [run], lambda: 1.0, str(tmp_path)).measure()["containers"]
    assert found["cpu"] == 15 * stats.TICK


def test_a_rank_that_slurm_has_left_to_the_node_is_counted_alone(tmp_path):
    a_process(tmp_path, 10, 1, (2, 0, 0, 0))
    a_process(tmp_path, 11, 1, (4, 0, 0, 0))
    run = a_run(10, leads=True)
    (found,) = Stats(lambda: [run], lambda: 1.0, str(tmp_path)).measure()["containers"]
    assert found["cpu"] == 2 * stats.TICK


def test_pages_of_files_are_no_memory_of_its_own(tmp_path):
    a_process(tmp_path, 10, 1, pages=(30, 10))
    (found,) = Stats(lambda: [a_run(10)], lambda: 1.0, str(tmp_path)).measure()["containers"]
    assert (found["usage"], found["rss"]) == (30 * stats.PAGE, 20 * stats.PAGE)


V2 = {
    "cpu.stat": "usage_usec 1500\nuser_usec 1\n",
    "memory.current": "1000\n",
    "memory.stat": "anon 300\ninactive_file 250\n",
}
V1 = {
    "cpuacct.usage": "1500000\n",
    "memory.usage_in_bytes": "1000\n",
    "memory.stat": "total_rss 300\ntotal_inactive_file 250\nrss 1\n",
}


@pytest.mark.parametrize("files", [V2, V1], ids=["version 2", "version 1"])
def test_a_cgroup_is_believed_where_there_is_one(tmp_path, files):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert cgroup_cpu([str(tmp_path)]) == 1_500_000
    memory = cgroup_memory([str(tmp_path)])
    assert (memory.usage, memory.working_set, memory.rss) == (1000, 750, 300)


def test_a_cgroup_without_counters_says_nothing(tmp_path):
    assert cgroup_cpu([str(tmp_path)]) is None
    assert cgroup_memory([]) is None
