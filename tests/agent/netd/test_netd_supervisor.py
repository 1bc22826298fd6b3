"""What arrives at the agent's door: listeners of containers, and those that could not be made."""

from __future__ import annotations

import os
import socket
from types import SimpleNamespace

import pytest

from orlop.agent.netd.netd_supervisor import FAILED, NetdSupervisor, send


@pytest.fixture
def keeper():
    plan = SimpleNamespace(network={"podIP": "10.244.0.7"})
    found = NetdSupervisor(plan, SimpleNamespace(is_isolated=False), -1)  # type: ignore[arg-type]
    found.problems = []
    found.on_problem = found.problems.append
    yield found
    ends = (end for room in found._rooms for end in room)
    for end in (
        found._door,
        found._way_in,
        found._porch,
        found._way_to_porch,
        found._notices,
        *ends,
    ):
        end.close()


def test_a_listener_may_have_any_number(keeper):
    for serial in (FAILED + b"1234567", b"\0" * 8, b"{}      "):
        end, other = os.pipe()
        send(keeper._way_in, serial, [end])
        assert keeper._on_door()
        assert serial in keeper._listeners
        for fd in (end, other, keeper._listeners[serial]):
            os.close(fd)
    assert not keeper._on_door()
    assert keeper.problems == []


def test_a_port_that_nobody_of_the_pod_has_is_looked_for_nowhere(keeper):
    """Any user of the node may be at that port of the pod's loopback address."""
    assert keeper.reach(80) == []
    message = {"protocol": "tcp", "key": "", "port": 80, "bound": "0a000005", "real": 4080}
    keeper._bindings["tcp", "", 80] = message, -1
    assert keeper.reach(80) == [(socket.AF_INET, ("10.0.0.5", 4080))]
    assert keeper.reach(81) == []


def test_a_container_that_could_not_be_filtered_is_told_of(keeper):
    keeper._way_in.send(FAILED + b" " * 8 + b"not permitted")
    assert keeper._on_door()
    assert keeper.problems == ["not permitted"]
