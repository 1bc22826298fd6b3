"""Fixtures of the pod network's tests."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import tempfile
from pathlib import Path

import pytest

from orlop.agent.compiling import compile_helper, helper_file
from orlop.agent.netd.netd_supervisor import PACKETS, ROOMS

from ..kubelet_double import KubeletDouble
from .neighbourhood import Neighbourhood


@contextlib.contextmanager
def running_kubelet():
    folder = Path(tempfile.mkdtemp(prefix="orlop-kubelet-", dir="/tmp"))
    kubelet = KubeletDouble(folder)
    yield kubelet
    kubelet.stop()
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def compiled(stage):
    """The compiled part of netd, where pods may read it."""
    target = helper_file(stage.folder)
    assert not asyncio.run(compile_helper(target))
    target.chmod(0o755)
    return str(target)


@pytest.fixture(scope="session", params=["python", "compiled"])
def helper(request):
    """With the compiled part of netd, and without: all must be the same."""
    return request.getfixturevalue("compiled") if request.param == "compiled" else ""


@pytest.fixture
def neighbourhood(make_pod, helper):
    with running_kubelet() as kubelet:
        found = Neighbourhood(kubelet, make_pod)
        found.helper = helper
        yield found


@pytest.fixture(scope="module")
def rooms():
    """Of the agent's, for connections on their way to a caller."""
    found = [socket.socketpair(socket.AF_UNIX, PACKETS) for _ in range(ROOMS)]
    for room in found:
        for end in room:
            end.setblocking(False)
    yield found
    for room in found:
        for end in room:
            end.close()
