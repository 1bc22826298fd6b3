"""What the kubelet brings to pods that run: files at once, variables with the next run."""

from __future__ import annotations

import base64
import time

from ..connection.test_kubelet_connection import finish, kubelet, start, welcomed
from ..pods import container, files

__all__ = ["kubelet", "start"]

MOUNTS = [
    {"volume": "v", "path": "/live"},
    {"volume": "v", "path": "/pinned", "subPath": "a"},
]
# Says what it sees whenever that changes; ends when told to.
WATCHING = """
seen=
while :; do
  now="$(cat /live/a /live/b 2>/dev/null) $(cat /pinned) $COLOUR"
  [ "$now" = "$seen" ] || { echo "$now"; seen="$now"; }
  [ -e /live/stop ] && exit 1
  sleep 0.05
done
"""


def update(agent, revision, argv=None, **contents):
    agent.tell(type="volume-files", volume="v", files=files("v", **contents)["files"])
    if argv:
        env = [["COLOUR", "green"]]
        agent.tell(type="environment", container="c", argv=argv, env=env)
    agent.tell(type="plan-revision", revision=revision)


def said(pod, *words, restart=0):
    """The log of a run, once it has all these words."""
    log = pod.folder / "logs/c" / f"{restart}.log"
    found = ""
    for _ in range(200):
        found = log.read_text() if log.exists() else ""
        if all(word in found for word in words):
            return found
        time.sleep(0.05)
    raise AssertionError(f"no {words} in {found!r}")


def test_files_change_under_a_running_container_and_sub_paths_do_not(start, kubelet, runtime):
    pod = start(
        container(script=WATCHING, mounts=MOUNTS, env=[["COLOUR", "blue"]]),
        runtime=runtime,
        volumes=[files("v", a="one")],
    )
    agent, hello = welcomed(kubelet)
    assert hello["revision"] == 0
    said(pod, "one one blue")
    update(agent, 1, a="two", b="new")
    found = said(pod, "twonew one blue")
    # Never the one without the other.
    assert "two one" not in found
    finish(agent, pod)


def test_variables_are_those_of_the_moment_a_container_starts(start, kubelet):
    pod = start(
        container(script=WATCHING, mounts=MOUNTS, env=[["COLOUR", "blue"]]),
        volumes=[files("v", a="one")],
        spec={"restartPolicy": "Always"},
    )
    agent, _ = welcomed(kubelet)
    said(pod, "one one blue")
    update(agent, 1, argv=["/bin/sh", "-c", "echo again; " + WATCHING], a="two")
    update(agent, 2, a="two", stop="")  # lets it end, and be started again
    said(pod, "again", "two two green", restart=1)
    finish(agent, pod)


def test_an_agent_that_was_away_says_what_it_has(start, kubelet):
    pod = start(container(script=WATCHING, mounts=MOUNTS), volumes=[files("v", a="one")])
    agent, _ = welcomed(kubelet)
    agent.tell(type="volume-files", volume="v", files=files("v", a="lost")["files"])
    agent.close()  # before the last piece
    agent, hello = welcomed(kubelet)
    assert hello["revision"] == 0
    update(agent, 7, a="whole")
    said(pod, "whole one")
    agent.close()
    agent, hello = welcomed(kubelet)
    assert hello["revision"] == 7
    finish(agent, pod)


def test_a_large_file_comes_in_parts(start, kubelet):
    script = "while [ ! -e /live/b ]; do sleep 0.05; done; wc -c < /live/a; " + WATCHING
    pod = start(container(script=script, mounts=MOUNTS[:1]), volumes=[files("v", a="x")])
    agent, _ = welcomed(kubelet)
    data = base64.b64encode(b"y" * 900_000).decode()
    half = len(data) // 8 * 4
    parts = [{"path": "a", "data": data[:half], "mode": 0o644}]
    agent.tell(type="volume-files", volume="v", files=parts)
    parts = [{"path": "a", "data": data[half:], "append": True}, files("v", b="1")["files"][0]]
    agent.tell(type="volume-files", volume="v", files=parts)
    agent.tell(type="plan-revision", revision=1)
    said(pod, "900000")
    finish(agent, pod)
