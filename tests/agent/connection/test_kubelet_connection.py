"""The agent's line home, against a listener that speaks the real protocol."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

import pytest

from orlop import pki

from ..kubelet_double import KubeletDouble
from ..pods import container

WAITING = "echo ready; trap 'exit 0' TERM; while :; do sleep 0.05; done"


@pytest.fixture
def kubelet():
    folder = Path(tempfile.mkdtemp(prefix="orlop-kubelet-", dir="/tmp"))
    double = KubeletDouble(folder)
    yield double
    double.stop()
    shutil.rmtree(folder)


@pytest.fixture
def start(make_pod, kubelet):
    """Starts a pod that knows the kubelet."""

    def begin(*containers, token="s3cret", **options):
        plan = {"kubelet": kubelet.plan, **options.pop("plan", {})}
        pod = make_pod(*containers, plan=plan, **options)
        (pod.folder / "token").write_text(token + "\n")
        return pod.start()

    return begin


def welcomed(kubelet, acked=0):
    agent = kubelet.agent()
    hello = agent.hear("hello")
    agent.tell(type="welcome", acked=acked)
    return agent, hello


def finish(agent, pod):
    """Let the pod end, with all of it acknowledged."""
    agent.tell(type="terminate", grace=5)
    last = agent.records_until("finished")[-1]
    agent.tell(type="ack", seq=last["seq"])
    pod.wait()


def test_the_agent_says_who_it_is(start, kubelet):
    pod = start(container(script=WAITING))
    agent, hello = welcomed(kubelet)
    name = pod.folder.name
    lines = agent.request.split("\r\n")
    assert lines[0] == f"GET /orlop/v1/agents/default/{name}/uid-{name} HTTP/1.1"
    assert {"Connection: Upgrade", "Upgrade: orlop-agent/1"} <= set(lines)
    assert "Authorization: Bearer s3cret" in lines
    assert {"job": "17", "node": "n1", "restart": 0}.items() <= hello.items()
    finish(agent, pod)


def test_every_record_is_told_and_equal_to_the_journals(start, kubelet):
    pod = start(container(script="sleep 0.3; exit 3"))
    agent, _ = welcomed(kubelet)
    told = agent.records_until("finished")
    agent.tell(type="ack", seq=told[-1]["seq"])
    pod.wait()
    assert told == pod.records()


def test_only_what_is_not_acknowledged_is_told_again(start, kubelet):
    start(container(script=WAITING))
    first, _ = welcomed(kubelet)
    told = first.records_until("event")
    first.close()
    second, hello = welcomed(kubelet, acked=told[-1]["seq"])
    assert hello["seq"] >= told[-1]["seq"]
    second.tell(type="terminate", grace=5)
    assert second.hear("record")["record"]["seq"] == told[-1]["seq"] + 1
    second.close()


def test_nothing_is_told_before_the_welcome(start, kubelet):
    pod = start(container(script=WAITING))
    agent = kubelet.agent()
    agent.hear("hello")
    pod.wait_for_line("ready")
    time.sleep(0.2)
    assert agent.messages.empty()


def test_terminate_ends_the_pod_with_the_grace_given(start, kubelet):
    pod = start(container(script=WAITING))
    agent, _ = welcomed(kubelet)
    agent.records_until("event")
    finish(agent, pod)
    (terminating,) = pod.records("terminating")
    assert (terminating["why"], terminating["grace"]) == ("deleted", 5)
    assert pod.status()["exitCode"] == 0
    assert pod.code == 0


def test_terminate_without_grace_kills(start, kubelet):
    pod = start(container(script="echo ready; exec sleep 60"))
    agent, _ = welcomed(kubelet)
    pod.wait_for_line("ready")
    agent.tell(type="terminate", grace=0)
    last = agent.records_until("finished")[-1]
    agent.tell(type="ack", seq=last["seq"])
    assert pod.wait() == 137


def test_ping_is_answered_and_unknown_messages_are_passed_over(start, kubelet):
    pod = start(container(script=WAITING))
    agent, _ = welcomed(kubelet)
    agent.tell(type="from-a-later-version", what="ever")
    agent.tell(type="ping")
    agent.hear("pong")
    finish(agent, pod)


def test_the_pod_lives_without_a_kubelet_and_its_end_waits_for_none(make_pod, kubelet):
    kubelet.stop()
    pod = make_pod(container(script="echo hi"), plan={"kubelet": kubelet.plan})
    (pod.folder / "token").write_text("t")
    before = time.monotonic()
    pod.run()
    assert time.monotonic() - before < 2
    assert pod.records()[-1]["phase"] == "Succeeded"


def test_a_restarted_kubelet_at_another_port_is_found_again(start, kubelet):
    pod = start(container(script=WAITING))
    welcomed(kubelet)
    kubelet.stop()
    time.sleep(0.5)
    kubelet.start()
    agent, _ = welcomed(kubelet)
    assert agent.hear("record")["record"]["seq"] == 1
    finish(agent, pod)


def test_a_refused_agent_keeps_its_pod_running(make_pod, tmp_path):
    folder = Path(tempfile.mkdtemp(prefix="orlop-kubelet-", dir="/tmp"))
    kubelet = KubeletDouble(folder, answer="401 Unauthorized")
    pod = make_pod(container(script="sleep 1.5; exit 4"), plan={"kubelet": kubelet.plan})
    (pod.folder / "token").write_text("wrong")
    assert pod.run().code == 4
    kubelet.stop()
    shutil.rmtree(folder)
    assert 2 <= kubelet.refused < 15, "it tries again, and not without pause"
    assert pod.output.count("401 Unauthorized") == 1, "said once, in the job's output"


def test_a_kubelet_of_another_authority_is_not_spoken_to(make_pod, kubelet, tmp_path):
    stranger = pki.ensure(tmp_path / "pki", ["127.0.0.1"])
    other = KubeletDouble(kubelet.folder / "other", secrets=stranger)
    plan = {**kubelet.plan, "endpointFile": other.plan["endpointFile"]}
    pod = make_pod(container(script="sleep 0.7"), plan={"kubelet": plan})
    (pod.folder / "token").write_text("t")
    pod.run()
    with pytest.raises(Exception, match=r"^$"):
        other.agent(timeout=0.1)
    other.stop()


def stream_of(agent, stream, text, timeout=5.0):
    until = time.monotonic() + timeout
    while text not in agent.streams.get(stream, b""):
        assert time.monotonic() < until, agent.streams
        time.sleep(0.002)


def test_a_log_is_streamed_from_an_offset(start, kubelet):
    pod = start(container(script="echo first; echo second; " + WAITING))
    agent, _ = welcomed(kubelet)
    pod.wait_for_line("ready")
    whole = (pod.folder / "logs/c/0.log").read_bytes()
    agent.tell(type="logs", stream=5, container="c", restart=0, offset=0, follow=False)
    assert agent.hear("opened") == {"type": "opened", "stream": 5, "size": len(whole)}
    assert agent.hear("closed")["error"] == ""
    assert agent.streams[5] == whole
    agent.tell(type="logs", stream=7, container="c", restart=0, offset=10, follow=False)
    agent.hear("closed")
    assert agent.streams[7] == whole[10:]
    finish(agent, pod)


def test_followed_lines_arrive_at_once_and_the_stream_ends_with_the_run(start, kubelet):
    script = "echo ready; i=0; while [ $i -lt 5 ]; do sleep 0.1; i=$((i+1)); echo line $i; done"
    pod = start(container(script=script))
    agent, _ = welcomed(kubelet)
    pod.wait_for_line("ready")
    agent.tell(type="logs", stream=5, container="c", restart=0, offset=0, follow=True)
    for number in range(1, 6):
        stream_of(agent, 5, f"line {number}\n".encode())
        written = (pod.folder / "logs/c/0.log").read_bytes()
        assert agent.streams[5] == written[: len(agent.streams[5])]
    assert agent.hear("closed") == {"type": "closed", "stream": 5, "error": ""}


def test_a_followed_line_takes_milliseconds(start, kubelet):
    pod = start(container(script="echo ready; while :; do sleep 0.2; date +%s; done"))
    agent, _ = welcomed(kubelet)
    pod.wait_for_line("ready")
    agent.tell(type="logs", stream=5, container="c", restart=0, offset=0, follow=True)
    agent.hear("opened")
    seen = len(agent.streams.get(5, b""))
    delays = []
    for _ in range(4):
        pod.wait_for(lambda known=seen: (pod.folder / "logs/c/0.log").stat().st_size > known)
        before = time.monotonic()
        while len(agent.streams.get(5, b"")) <= seen:
            time.sleep(0.0005)
        delays.append(time.monotonic() - before)
        seen = len(agent.streams[5])
    assert min(delays) < 0.05


def test_a_closed_stream_is_sent_no_more(start, kubelet):
    pod = start(container(script="echo ready; while :; do echo more; sleep 0.02; done"))
    agent, _ = welcomed(kubelet)
    pod.wait_for_line("ready")
    agent.tell(type="logs", stream=5, container="c", restart=0, offset=0, follow=True)
    stream_of(agent, 5, b"more")
    agent.tell(type="close", stream=5)
    agent.tell(type="ping")
    agent.hear("pong")
    size = len(agent.streams[5])
    time.sleep(0.2)
    assert len(agent.streams[5]) == size


@pytest.mark.parametrize(
    ("name", "restart"), [("c", 9), ("other", 0), ("../c", 0), ("c/../../journal", 0)]
)
def test_a_log_that_is_none_is_closed_with_an_error(start, kubelet, name, restart):
    pod = start(container(script=WAITING))
    agent, _ = welcomed(kubelet)
    pod.wait_for_line("ready")
    agent.tell(type="logs", stream=5, container=name, restart=restart, offset=0, follow=True)
    closed = agent.hear("closed")
    assert closed["stream"] == 5
    assert closed["error"]


def test_a_large_log_is_streamed_whole(start, kubelet):
    pod = start(container(script="seq 1 200000; " + WAITING))
    agent, _ = welcomed(kubelet)
    pod.wait_for_line("ready")
    agent.tell(type="logs", stream=5, container="c", restart=0, offset=0, follow=False)
    agent.hear("closed", timeout=30)
    assert agent.streams[5] == (pod.folder / "logs/c/0.log").read_bytes()


def test_what_is_followed_at_the_pods_end_is_sent_to_its_last_byte(start, kubelet):
    pod = start(container(script="echo ready; sleep 0.5; seq 1 50000; printf last"))
    agent, _ = welcomed(kubelet)
    pod.wait_for_line("ready")
    agent.tell(type="logs", stream=5, container="c", restart=0, offset=0, follow=True)
    last = agent.records_until("finished")[-1]
    agent.tell(type="ack", seq=last["seq"])
    pod.wait()
    assert agent.streams[5] == (pod.folder / "logs/c/0.log").read_bytes()
    assert agent.streams[5].endswith(b" F last\n")


@pytest.mark.parametrize(
    "garbage", [b"\xff\xff\xff\xff\0\0\0\0", b"\0\0\0\4\0\0\0\0{{{{", b"\0\0\0\2\0\0\0\0[]"]
)
def test_garbage_breaks_the_line_and_not_the_pod(start, kubelet, garbage):
    pod = start(container(script=WAITING))
    agent, _ = welcomed(kubelet)
    agent._sock.sendall(garbage)
    agent.hear("gone")
    again, _ = welcomed(kubelet)
    again.records_until("event")
    finish(again, pod)
    assert pod.code == 0
