"""Containers behind seccomp profiles, by every runtime; and commands that are run in them."""

from __future__ import annotations

import pytest

from .pods import container

NO_CHMOD = {
    "defaultAction": "SCMP_ACT_ALLOW",
    "syscalls": [
        {"names": ["chmod", "fchmodat", "fchmodat2", "of_another_machine"],
         "action": "SCMP_ACT_ERRNO", "errnoRet": 38},
    ],
}  # fmt: skip
TRIES = "touch /tmp/f; chmod 600 /tmp/f 2>/dev/null && echo done || echo refused"


def test_a_profile_of_ones_own_holds(run_pod, runtime):
    confined = container("a", script=TRIES, seccomp={"profile": NO_CHMOD})
    pod = run_pod(confined, container("b", script=TRIES), runtime=runtime)
    assert (pod.lines("a"), pod.lines("b")) == (["refused"], ["done"])


def test_the_default_profile_lets_programs_be_and_namespaces_not(run_pod, runtime):
    script = (
        "ls / > /dev/null && echo works; (echo in a child); "
        "unshare -r true 2>/dev/null && echo out || echo refused"
    )
    pod = run_pod(container(script=script, seccomp={"type": "RuntimeDefault"}), runtime=runtime)
    assert pod.lines() == ["works", "in a child", "refused"]


@pytest.mark.parametrize("runtime", ["crun", "apptainer", "native"])
def test_a_profile_holds_for_every_user(run_pod, runtime, user):
    someone = {"uid": 1234, "gid": 1234, "groups": []}
    script = "id -u; cp /bin/busybox /tmp/f; chmod 600 /tmp/f 2>/dev/null || echo refused"
    confined = container(script=script, seccomp={"profile": NO_CHMOD}, user=someone)
    pod = run_pod(confined, runtime=runtime, user=user)
    assert pod.lines() == ["1234", "refused"]


def test_a_profile_that_forbids_to_begin_is_the_users(run_pod, runtime):
    nothing = {"defaultAction": "SCMP_ACT_ERRNO", "syscalls": []}
    pod = run_pod(container(script="echo x", seccomp={"profile": nothing}), runtime=runtime)
    assert pod.lines() == []
    assert pod.code != 0


def test_commands_in_a_container_are_behind_its_profile(remote_to, runtime):
    script = "echo ready; exec sleep 300"
    remote = remote_to(container(script=script, seccomp={"profile": NO_CHMOD}), runtime=runtime)
    assert remote.run("sh", "-c", TRIES) == (0, "refused\n", "")
