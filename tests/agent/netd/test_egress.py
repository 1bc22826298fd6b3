"""A pod under an egress policy that allows nothing speaks to nobody, whatever it tries."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from orlop.agent.linux.addresses import own_addresses

from ..pods import IS_ROOT
from . import escapes, races
from .listening import Destination, destination
from .neighbourhood import Neighbour

PYTHON = "/usr/bin/python3"
DENY = {"ingress": None, "egress": []}
# What a program is told when its kernel, or this machine, has no such thing.
ABSENT = ("EAFNOSUPPORT", "EPROTONOSUPPORT", "ESOCKTNOSUPPORT", "ENODEV", "ENOENT", "ENOSYS")


def places(heard: Destination) -> dict[str, Any]:
    """Where the destination is, as the attacking program is told."""
    found = {"v4": own_addresses("")[0], **heard.ports}
    words = ["ip", "-6", "-o", "addr"]
    shown = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    for line in shown.splitlines():
        interface, address = line.split()[1], line.split()[3].partition("/")[0]
        if " scope global" in line:
            found["v6"] = address
        if " scope link" in line:
            found["link"] = [address, interface]
    return found


@cache
def open_ways(user: str, program: str) -> dict[str, tuple[str, bool]]:
    """How each way ends outside of any pod, and whether it was heard: what this kernel has."""
    with destination() as heard:
        words = [PYTHON, program, json.dumps({**places(heard), "is_outside": True})]
        if IS_ROOT:
            words = ["setpriv", "--reuid", user, "--clear-groups", *words]
        options: dict[str, Any] = {"capture_output": True, "text": True, "timeout": 120}
        ran = subprocess.run(words, check=True, cwd="/", **options)
        heard.wait()
        return {name: (how, name in heard.heard) for name, how in json.loads(ran.stdout).items()}


@pytest.fixture
def heard() -> Iterator[Destination]:
    with destination() as found:
        yield found


def copied(folder: Path, program: Any = escapes) -> Path:
    """An attacking program, where its user may read it."""
    return Path(shutil.copy(program.__file__, folder))


def tried(pod: Neighbour, where: dict[str, Any]) -> dict[str, str]:
    words = f"exec {PYTHON} {copied(pod.pod.folder)} '{json.dumps(where)}'"
    said = pod.sh(words, timeout=120)
    found: dict[str, str] = json.loads(said)
    return found


def test_no_way_leads_out_of_a_pod_that_may_speak_to_nobody(neighbourhood, heard, helper):
    known = {} if helper else {"policy": DENY}  # it comes later, or is there from the start
    pod = neighbourhood.add(runtime="host", network=known)
    pod.sh("true")
    neighbourhood.restrict(pod, **DENY)
    said = tried(pod, places(heard))
    heard.wait()
    assert heard.heard == []
    assert not [name for name, how in said.items() if how.startswith("broken")]
    outside = open_ways(pod.pod.user, str(copied(pod.pod.stage.folder)))
    assert said.keys() == outside.keys()
    # The attacks are attacks: without a pod nearly all of them arrive.
    assert sum(arrived for _, arrived in outside.values()) > 300
    for name, (how, arrived) in outside.items():
        if how in ABSENT or how.startswith("unavailable"):
            print(f"unavailable here: {name} ({how})")
        else:
            print(f"{name}: {'arrives' if arrived else how} outside, {said[name]} in the pod")


@pytest.mark.parametrize("race", races.RACES)
def test_who_changes_what_was_judged_reaches_no_other(neighbourhood, heard, race):
    """One port of the destination is allowed; the other is put in its place at every moment."""
    pod = neighbourhood.add(runtime="host")
    with destination() as allowed:
        ports = [[protocol, allowed.ports[protocol]] for protocol in ("tcp", "udp")]
        block = {"cidr": f"{places(heard)['v4']}/32"}
        neighbourhood.restrict(pod, ingress=None, egress=[{"ports": ports, "peers": [block]}])
        where = {"v4": places(heard)["v4"], "allowed": allowed.ports, "denied": heard.ports}
        words = f"{copied(pod.pod.folder, races)} {race} '{json.dumps(where)}'"
        made = json.loads(pod.sh(f"exec {PYTHON} {words}", timeout=60))
        heard.wait()
        assert heard.heard == []
        assert made > 100, "the attack was made"
        allowed.wait()
        assert "allowed" in allowed.heard
