"""Commands in containers, over the agent's line, in every runtime and for every kind of user."""

from __future__ import annotations

import hashlib
import subprocess
import time

import pytest

from ..pods import container
from ..remote import Remote

WAITING = "echo ready; trap 'exit 0' TERM; while :; do sleep 0.05; done"


def processes(marker: str) -> list[str]:
    found = subprocess.run(["pgrep", "-f", marker], capture_output=True, text=True)
    return found.stdout.split()


def test_the_agent_says_that_it_can(make_pod, kubelet):
    pod = make_pod(container(script=WAITING), plan={"kubelet": kubelet.plan})
    (pod.folder / "token").write_text("t")
    pod.start()
    assert kubelet.agent().hear("hello")["streams"] == 1


def test_output_errors_and_the_exit_code_come_apart(remote_to, runtime, user):
    remote = remote_to(container(script=WAITING), runtime=runtime, user=user)
    code, out, err = remote.run("sh", "-c", "echo out; echo err >&2; exit 42")
    assert (code, out, err) == (42, "out\n", "err\n")


def test_a_command_is_where_the_container_is(remote_to, runtime, user):
    """Its root, processes, host name, environment, folder and user."""
    told = {"env": [["COLOUR", "blue of $HOME"]], "cwd": "/tmp"}
    script = f"touch /tmp/mark-blue; {WAITING}"
    remote = remote_to(container(script=script, **told), runtime=runtime, user=user)
    look = "pwd; hostname; echo $COLOUR; cat /proc/1/cmdline; ls /tmp"
    seen = remote.run("sh", "-c", look)[1]
    assert seen.startswith(f"/tmp\n{remote.pod.folder.name}\nblue of $HOME\n")
    assert "trap" in seen
    assert "mark-blue" in seen


@pytest.mark.parametrize("ids", [(0, 0), (1234, 1234)], ids=["root", "app"])
@pytest.mark.parametrize("runtime", ["crun", "apptainer", "native"])  # on the host one is oneself
def test_a_command_has_the_containers_user_and_no_more_rights(remote_to, runtime, user, ids):
    who = {"user": {"uid": ids[0], "gid": ids[1], "groups": []}}
    look = "id -u; id -g; grep -e CapEff -e NoNewPrivs -e Groups /proc/self/status"
    script = f"({look}) > /tmp/main-{user}-{ids[0]}; {WAITING}"
    remote = remote_to(container(script=script, **who), runtime=runtime, user=user)
    beside = remote.run("sh", "-c", look)[1]
    assert beside == remote.run("cat", f"/tmp/main-{user}-{ids[0]}")[1]
    assert beside.startswith(f"{ids[0]}\n{ids[1]}\n")
    assert "a80425fb" in remote.run("grep", "CapBnd", "/proc/self/status")[1]


def test_what_is_sent_comes_back_to_the_byte(remote_to, runtime):
    remote = remote_to(container(script=WAITING), runtime=runtime)
    data = bytes(range(256)) * 8192  # eight windows
    number = remote.exec("sh", "-c", "cat", stdin=True)
    remote.hear("opened", number)
    remote.send(number, data)
    remote.end(number)
    assert remote.closed(number)["code"] == 0
    sums = [hashlib.sha256(d).hexdigest() for d in (data, remote.agent.streams[number])]
    assert sums[0] == sums[1]


def test_nobody_gets_more_than_they_asked_for(remote_to):
    """A reader that stops reading stops the command, and no other."""
    remote = remote_to(container(script=WAITING))
    number = remote.open("exec", container="c", argv=["sh", "-c", "yes"], stdin=False, tty=False)
    time.sleep(0.5)
    assert len(remote.agent.streams[number]) == 256 << 10
    remote._credited[number] = 256 << 10  # never any more
    assert remote.run("echo", "quick")[1] == "quick\n"
    remote.agent.tell(type="close", stream=number)


def test_a_terminal_is_one_and_has_the_size_it_is_given(remote_to, runtime, user):
    remote = remote_to(container(script=WAITING), runtime=runtime, user=user)
    number = remote.exec("sh", stdin=True, tty=True)
    remote.agent.tell(type="resize", stream=number, width=123, height=45)
    remote.hear("opened", number)
    remote.send(number, b"stty size; tty; echo $TERM\n")
    remote.wait_for(number, "45 123")
    remote.wait_for(number, "/dev/pts/")
    remote.wait_for(number, "xterm")
    remote.agent.tell(type="resize", stream=number, width=80, height=24)
    remote.send(number, b"stty size\n")
    remote.wait_for(number, "24 80")
    remote.send(number, b"sleep 100\n")
    time.sleep(0.3)
    remote.send(number, b"\x03")  # it is the controlling terminal: the key interrupts
    remote.send(number, b"exit 7\n")
    assert remote.closed(number)["code"] == 7
    assert remote.text(number + 1) == ""


@pytest.mark.parametrize("tty", [False, True], ids=["pipes", "tty"])
def test_who_goes_away_leaves_no_process_behind(remote_to, runtime, tty):
    remote = remote_to(container(script=WAITING), runtime=runtime)
    marker = f"3{time.monotonic_ns() % 10**8}"
    script = f"trap '' HUP; sleep {marker} & sleep {marker}"
    number = remote.exec("sh", "-c", script, stdin=True, tty=tty)
    remote.hear("opened", number)
    remote.pod.wait_for(lambda: len(processes(f"sleep {marker}")) >= 2)
    remote.agent.tell(type="close", stream=number)
    remote.pod.wait_for(lambda: not processes(f"sleep {marker}"), timeout=5)
    assert remote.run("echo", "more")[1] == "more\n"


def test_a_broken_line_ends_its_commands_and_not_the_pod(remote_to, kubelet):
    remote = remote_to(container(script=WAITING))
    marker = f"4{time.monotonic_ns() % 10**8}"
    remote.hear("opened", remote.exec("sleep", marker))
    remote.agent.close()
    again = kubelet.agent()
    again.hear("hello")
    again.tell(type="welcome", acked=0)
    remote.pod.wait_for(lambda: not processes(f"sleep {marker}"), timeout=5)
    assert Remote(again).run("echo", "there")[1] == "there\n"


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["nosuchthing"], 'exec: "nosuchthing": executable file not found in $PATH'),
        (["/no/such"], 'exec: "/no/such": no such file or directory'),
        (["/etc/passwd"], 'exec: "/etc/passwd": permission denied'),
    ],
)
def test_a_command_that_cannot_run_says_why(remote_to, runtime, argv, words):
    remote = remote_to(container(script=WAITING), runtime=runtime)
    assert remote.closed(remote.exec(*argv))["error"] == words


def test_a_container_that_does_not_run_is_not_found(remote_to):
    remote = remote_to(container(script=WAITING))
    assert remote.closed(remote.exec("true", name="x"))["error"] == 'container not found ("x")'


def test_a_command_ends_with_its_container(remote_to, runtime):
    remote = remote_to(container(script="echo ready; sleep 1"), runtime=runtime)
    number = remote.exec("sleep", "100")
    remote.hear("opened", number)
    assert remote.closed(number)["code"] == 137
    finished = remote.hear_record("finished")
    remote.agent.tell(type="ack", seq=finished["seq"])
    assert remote.pod.wait() == 0


def test_one_who_outlives_the_command_does_not_keep_it_open(remote_to):
    remote = remote_to(container(script=WAITING))
    began = time.monotonic()
    assert remote.run("sh", "-c", "sleep 20 & echo done; exit 3") == (3, "done\n", "")
    assert time.monotonic() - began < 5


def test_a_signal_is_128_and_its_number(remote_to, runtime):
    remote = remote_to(container(script=WAITING), runtime=runtime)
    assert remote.run("sh", "-c", "kill -9 $$")[0] == 137


def test_many_at_once_each_get_their_own(remote_to):
    remote = remote_to(container(script=WAITING))
    numbers = [remote.exec("sh", "-c", f"echo {i}; exit {i}") for i in range(40)]
    assert [remote.closed(n, 30)["code"] for n in numbers] == list(range(40))
    assert [remote.text(n) for n in numbers] == [f"{i}\n" for i in range(40)]
