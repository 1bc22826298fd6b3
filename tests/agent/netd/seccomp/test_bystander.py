"""A pod whose programs only look up users does not pay for a network."""

from __future__ import annotations

import os
import socket
import time

import pytest

from ..test_harm import netd_of

# As the C library asks nscd: the whole of the structure, whatever the path's length.
LOOK_UP = """
import ctypes, socket, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
path = sys.argv[1].encode()
for name, code in ((path, 0), (b"/run/nscd/nowhere", 2), (path, 0)):
    with socket.socket(socket.AF_UNIX) as client:
        raw = struct.pack("<H108s", 1, name)
        found = libc.connect(client.fileno(), raw, len(raw))
        assert (ctypes.get_errno() if found else 0) == code, ctypes.get_errno()
"""
ALL = [{"ports": None, "peers": None}]
NAME = "import socket; print(socket.create_server((chr(48), 80)).getsockname())"


@pytest.fixture
def nscd(stage):
    path = stage.folder / f"nscd-{time.monotonic_ns()}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        path.chmod(0o666)
        yield path


def threads_of(pod) -> int:
    return len(os.listdir(f"/proc/{netd_of(pod)}/task"))


@pytest.mark.parametrize("policy", [None, {"ingress": None, "egress": ALL}], ids=["open", "held"])
def test_looking_up_users_starts_no_netd_where_no_policy_holds(neighbourhood, nscd, policy):
    pod = neighbourhood.add(runtime="host", network={"policy": policy} if policy else {})
    pod.sh("true")
    neighbourhood.policies[pod.pod.folder.name] = policy
    script = f"/usr/bin/python3 -c '{LOOK_UP}' {nscd}"
    pod.sh(script)
    assert (threads_of(pod) == 1) == (policy is None)
    assert pod.sh(f"/usr/bin/python3 -c '{NAME}'").strip() == "('0.0.0.0', 80)"
    assert threads_of(pod) > 1
    pod.sh(script)
