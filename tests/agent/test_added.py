"""Containers added to a running pod, and processes that containers share."""

from __future__ import annotations

import os
import subprocess
import time

import pytest

from .pods import container

WAITING = "echo ready; trap 'exit 0' TERM; while :; do sleep 0.05; done"
PROCESSES = "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; echo; done"


def added(remote, script, name="debug", **more):
    rootfs = None if remote.pod.runtime == "host" else str(remote.pod.stage.rootfs(remote.pod.user))
    described = container(name, script=script, rootfs=rootfs, **more)
    remote.agent.tell(type="add", container=described)
    return remote.pod


def ended(pod, name="debug"):
    return pod.wait_for(lambda: pod.records_of("terminated", name))[0]


def test_a_container_is_added_to_a_running_pod_and_has_its_log(remote_to, runtime):
    remote = remote_to(container(script=WAITING), runtime=runtime)
    pod = added(remote, "echo looking; exit 3")
    assert ended(pod)["exitCode"] == 3
    assert pod.lines("debug") == ["looking"]
    number = remote.open("logs", container="debug", restart=0, follow=False)
    remote.closed(number)
    assert remote.text(number).endswith("looking\n")
    assert pod.status()["state"] == "running", "the others go on"


def test_it_is_added_once_and_never_started_again(remote_to):
    remote = remote_to(container(script=WAITING), spec={"restartPolicy": "Always"})
    pod = added(remote, "exit 1")
    ended(pod)
    added(remote, "exit 1")
    added(remote, "exit 0", name="other")
    ended(pod, "other")
    assert len(pod.records_of("terminated", "debug")) == 1


def test_it_sees_the_processes_of_its_target(remote_to, runtime):
    remote = remote_to(
        container(script=WAITING), container("b", script="exec sleep 4321"), runtime=runtime
    )
    pod = added(remote, PROCESSES + "; kill -9 -1", target="c")
    ended(pod)
    found = "\n".join(pod.lines("debug"))
    assert "echo ready" in found
    assert "4321" not in found, "and those of no other container"


def test_without_a_target_it_sees_none_but_its_own(remote_to, runtime):
    pod = added(remote_to(container(script=WAITING), runtime=runtime), PROCESSES)
    ended(pod)
    assert "echo ready" not in "\n".join(pod.lines("debug"))


def test_a_target_that_does_not_run_is_named(remote_to):
    pod = added(remote_to(container(script=WAITING)), "true", target="nobody")
    assert ended(pod)["message"] == 'the target container "nobody" does not run'


def test_one_can_attach_to_it_by_a_terminal(remote_to, runtime):
    remote = remote_to(container(script=WAITING), runtime=runtime)
    script = 'read line; test -t 0 && echo "heard $line"'
    pod = added(remote, script, stdin=True, tty=True)
    pod.wait_for(lambda: pod.records_of("running", "debug"))
    number = remote.open("attach", container="debug", stdin=True)
    remote.hear("opened", number)
    remote.send(number, b"you\r")
    assert ended(pod)["exitCode"] == 0
    remote.closed(number)
    assert "heard you" in remote.text(number)


def test_it_ends_with_the_pod_and_does_not_count_for_it(remote_to):
    script = "echo ready; while [ ! -e /data/go ]; do sleep 0.05; done"
    mounts = [{"volume": "v", "path": "/data"}]
    volumes = [{"name": "v", "kind": "emptyDir"}]
    remote = remote_to(container(script=script, mounts=mounts), volumes=volumes)
    pod = added(remote, "trap 'exit 9' TERM; touch /data/go; while :; do sleep 0.05; done",
                mounts=mounts)  # fmt: skip
    assert pod.wait() == 0
    assert pod.records("finished")[0]["phase"] == "Succeeded"
    assert pod.status("debug")["exitCode"] == 9


# Shared processes


@pytest.mark.parametrize("shared", ["pids", "hostPids"])
def test_containers_share_their_processes(make_pod, runtime, shared):
    spec = {"shared": [shared]}
    one = container("one", script=WAITING)
    wait = "while ! grep -q 'echo [r]eady' /proc/*/cmdline 2>/dev/null; do sleep 0.1; done"
    look = f"{wait}; {PROCESSES}"
    pod = make_pod(one, container("two", script=look), runtime=runtime, spec=spec).start()
    pod.wait_for(lambda: pod.records_of("terminated", "two"))
    assert "echo ready" in "\n".join(pod.lines("two"))
    assert ("systemd" in "\n".join(pod.lines("two"))) in (False, shared == "hostPids")
    pod.process.terminate()
    pod.wait()


def test_a_killed_agent_leaves_no_process_on_its_node(make_pod, runtime, user):
    """Where the kernel does not end them: they share its process numbers."""
    mark = f"300.{time.time_ns() % 1_000_000_000}"
    script = f"setsid sleep {mark} & echo ready; exec sleep {mark}"
    someone = {} if runtime == "host" else {"user": {"uid": 1234, "gid": 1234, "groups": []}}
    spec = {"shared": ["hostPids"]}
    pod = make_pod(container(script=script, **someone), runtime=runtime, spec=spec, user=user)
    pod.start().wait_for(lambda: pod.lines() == ["ready"], timeout=60)
    assert running(mark)
    pod.process.kill()
    pod.wait_for(lambda: not running(mark), timeout=60)


def running(mark):
    return subprocess.run(["pgrep", "-f", f"sleep {mark}"], check=False, capture_output=True).stdout


@pytest.mark.parametrize("shared", ["pids", "hostPids"])
def test_what_a_container_leaves_behind_ends_with_it(make_pod, runtime, shared):
    script = "(trap '' TERM HUP; sleep 7531) & sleep 0.2; exit 1"
    look = f"while :; do {PROCESSES}; echo --; sleep 0.2; done"
    pod = make_pod(
        container("leaves", script=script), container("looks", script=look),
        runtime=runtime, spec={"shared": [shared]},
    ).start()  # fmt: skip
    pod.wait_for(lambda: pod.records_of("terminated", "leaves"))
    seen = len(pod.lines("looks"))
    pod.wait_for(lambda: pod.lines("looks")[seen:].count("--") >= 3)
    rounds = "\n".join(pod.lines("looks")[seen:]).split("--")
    assert "sleep 7531" not in rounds[2]
    pod.process.terminate()
    pod.wait()


def test_the_nodes_ipc_is_shared_where_that_is_asked_for(make_pod, runtime):
    script = "readlink /proc/self/ns/ipc"
    shares = make_pod(container(script=script), runtime=runtime, spec={"shared": ["hostIpc"]}).run()
    alone = make_pod(container(script=script), runtime=runtime).run()
    own = os.readlink("/proc/self/ns/ipc")
    assert shares.lines() == [own]
    assert alone.lines() != [own]


LOOKS = "cd /proc/$p; ls root/etc; readlink fd/* ns/*; cat environ mem maps fd/[0-9]*"


def test_shared_processes_do_not_lay_the_agent_open(make_pod, runtime, user):
    """Same user, same namespace, and yet: the agent holds the pod's token, and more rights."""
    agents = "$(grep -l agent[.]pyz /proc/[0-9]*/cmdline | cut -d/ -f3)"
    script = f"for p in {agents}; do {LOOKS}; done"
    pod = make_pod(
        container(script=f"({script}) 2>/dev/null; echo done"),
        runtime=runtime, user=user, spec={"shared": ["pids"]},
    ).run()  # fmt: skip
    assert pod.lines() == ["done"]
