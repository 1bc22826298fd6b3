"""Variables from files that a pod writes for itself."""

from __future__ import annotations

import time

import pytest

from orlop.agent.container.envfiles import values_in

from ..pods import container

EMPTY = {"name": "v", "kind": "emptyDir"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("A='1'\nB='two words'\n", {"A": "1", "B": "two words"}),
        ("  # a comment\n\n  A = '1'  \n", {"A": "1"}),
        ("A='one\ntwo'\nB=''", {"A": "one\ntwo", "B": ""}),
        ("A=plain value \nB=$HOME\n", {"A": "plain value", "B": "$HOME"}),
        ("A='#no comment'\n", {"A": "#no comment"}),
    ],
)
def test_a_file_says(text, expected):
    assert values_in(text) == expected


@pytest.mark.parametrize("text", ["A\n", "A='open\n", "='x'\n", "A='x' y\n", "OK='1'\nbad"])
def test_what_is_no_variable_is_refused_with_its_line(text):
    with pytest.raises(ValueError, match=r"line [12]: expected NAME='value'"):
        values_in(text)


def reference(key, **more):
    return {"name": "SEEN", "volume": "v", "path": "conf/env", "key": key, **more}


def test_an_init_container_writes_what_the_next_one_sees(run_pod, runtime):
    mounts = [{"volume": "v", "path": "/v"}]
    script = "mkdir /v/conf; echo \"A='one two'\" > /v/conf/env"
    pod = run_pod(
        container(script='echo "$SEEN"', envFiles=[reference("A")]),
        init=[container("i", script=script, mounts=mounts)],
        runtime=runtime,
        volumes=[EMPTY],
    )
    assert pod.lines() == ["one two"]


@pytest.mark.parametrize(
    ("optional", "words"), [(True, ""), (False, "key 'A' not found in file 'conf/env'")]
)
def test_a_key_may_be_missing_only_if_it_is_optional(run_pod, optional, words):
    files = [reference("A", optional=optional)]
    pod = run_pod(container(script="echo ${SEEN-none}", envFiles=files), volumes=[EMPTY])
    if optional:
        assert pod.lines() == ["none"]
    else:
        assert words in pod.status()["message"]


def test_a_link_to_a_file_of_the_node_is_not_read(run_pod):
    mounts = [{"volume": "v", "path": "/v"}]
    script = "mkdir /v/conf; ln -s /etc/environment /v/conf/env"
    pod = run_pod(
        container(envFiles=[reference("PATH")]),
        init=[container("i", script=script, mounts=mounts)],
        volumes=[EMPTY],
    )
    assert "leads out of the volume" in pod.status()["message"]


def test_a_line_that_would_be_read_again_and_again_is_read_once():
    """It is the container's, and the agent has nobody else to look after the pod meanwhile."""
    began = time.monotonic()
    for line in ("A" + " " * 65_000 + "x", " " * 65_000 + "'", "A=" + " " * 65_000 + "'"):
        with pytest.raises(ValueError, match="expected NAME"):
            values_in(line)
    assert time.monotonic() - began < 2
    assert values_in("A b \t= 'c'") == {"A b": "c"}
