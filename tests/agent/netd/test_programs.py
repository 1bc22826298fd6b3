"""What any program may rely on, seen from inside a pod; see programs.py."""

from __future__ import annotations

import shutil

import pytest

from . import programs
from .conftest import running_kubelet
from .neighbourhood import Neighbourhood

PYTHON = "/usr/bin/python3"
ALL = [{"ports": None, "peers": None}]


@pytest.fixture(scope="module", params=["open", "under policies"])
def pod(stage, helper, request):
    """One pod on the node's own root, where there is a Python.

    Under policies that allow all, each call is made another way, and none shall notice.
    """
    made = []

    def make(*containers, **options):
        made.append(stage.pod(*containers, **options))
        return made[-1]

    with running_kubelet() as kubelet:
        neighbourhood = Neighbourhood(kubelet, make)
        neighbourhood.helper = helper
        more = {"policy": {"ingress": ALL, "egress": ALL}} if request.param != "open" else {}
        found = neighbourhood.add(runtime="host", network=more)
        if more:
            neighbourhood.restrict(found, **more["policy"])
        shutil.copy(programs.__file__, found.pod.folder / "programs.py")
        yield found
        for one in made:
            one.kill()


@pytest.mark.parametrize("name", list(programs.CASES))
def test_a_program_sees(pod, name):
    script = f"POD_IP={pod.ip} exec {PYTHON} {pod.pod.folder}/programs.py {name}"
    code, out, errors = pod.try_sh(script, timeout=30)
    assert code == 0, f"{out}\n{errors}"
