"""Ports of the pod and where they really are: what is told, and when."""

from __future__ import annotations

import os
import socket
from types import SimpleNamespace

from orlop.agent.netd.pod_addressing import PodAddressing
from orlop.agent.netd.seccomp.caller_process import Target
from orlop.agent.netd.seccomp.notify import Call
from orlop.agent.netd.sockets.bind import listen
from orlop.agent.netd.sockets.bindings import Bindings

NETWORK = {
    "podIP": "10.244.0.7",
    "podCIDR": "10.244.0.0/16",
    "serviceCIDR": "10.96.0.0/12",
    "key": "5f" * 32,
}


class OfThisProcess(Target):
    """The descriptors of a caller that is this very process."""

    def grab(self, call: Call, number: int) -> int:
        return os.dup(number)


def network_that(tell) -> SimpleNamespace:
    """What of a pod's network `listen` is about; `tell` hears of its ports."""
    addressing = PodAddressing(NETWORK, "127.0.0.1")
    return SimpleNamespace(addressing=addressing, bindings=Bindings(addressing, tell))


def test_a_port_is_open_when_others_hear_of_it():
    """Who connects before it is would be refused, though it was told where to go."""
    answers = []

    def tell(message, fds):
        if message["published"]:
            with socket.create_connection((message["address"], message["real"]), 10) as one:
                answers.append(one.getpeername()[1])

    network = network_that(tell)
    with socket.socket() as server:
        call = Call(None, 1, os.getpid(), 50, (server.fileno(), 5, 0, 0, 0, 0))
        assert listen(network, call, OfThisProcess()) == 0
        assert answers == [server.getsockname()[1]]


def test_what_is_no_tcp_is_left_to_the_kernel():
    network = network_that(lambda message, fds: None)
    with socket.socket(socket.AF_UNIX) as server:
        call = Call(None, 1, os.getpid(), 50, (server.fileno(), 5, 0, 0, 0, 0))
        assert listen(network, call, OfThisProcess()) is None
