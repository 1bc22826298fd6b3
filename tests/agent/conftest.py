"""Fixtures of the agent's tests: the built agent, images, and pods that are gone afterwards."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from orlop.agent.build import build

from .kubelet_double import KubeletDouble
from .pods import RUNTIMES, Pod, Stage
from .remote import Remote


@pytest.fixture(scope="session")
def stage() -> Iterator[Stage]:
    # Not below pytest's own folder, which only the user who runs the tests may enter.
    folder = Path(tempfile.mkdtemp(prefix="orlop-agent-test-", dir="/tmp"))
    folder.chmod(0o755)
    yield Stage(folder, build(folder / "agent.pyz"))
    shutil.rmtree(folder)


@pytest.fixture
def make_pod(stage: Stage) -> Iterator[Callable[..., Pod]]:
    """Makes pods whose agents are killed at the end of the test."""
    pods: list[Pod] = []

    def make(*containers: dict[str, Any], **options: Any) -> Pod:
        pods.append(stage.pod(*containers, **options))
        return pods[-1]

    yield make
    for pod in pods:
        pod.kill()


@pytest.fixture
def run_pod(make_pod: Callable[..., Pod]) -> Callable[..., Pod]:
    """Runs a pod to its end."""
    return lambda *containers, **options: make_pod(*containers, **options).run()


@pytest.fixture(params=RUNTIMES)
def runtime(request: pytest.FixtureRequest) -> str:
    """Every way to start a container; what is tested with it has the same result in all."""
    return str(request.param)


@pytest.fixture(params=["orlop-test", "orlop-plain"], ids=["subuids", "one-id"])
def user(request: pytest.FixtureRequest) -> str:
    """A user with a range of subordinate ids, and one without."""
    return str(request.param)


@pytest.fixture
def kubelet() -> Iterator[KubeletDouble]:
    folder = Path(tempfile.mkdtemp(prefix="orlop-kubelet-", dir="/tmp"))
    double = KubeletDouble(folder)
    yield double
    double.stop()
    shutil.rmtree(folder)


@pytest.fixture
def remote_to(make_pod: Callable[..., Pod], kubelet: KubeletDouble) -> Callable[..., Remote]:
    """A line to a new pod with these containers, whose first is ready."""

    def begin(*containers: dict[str, Any], **options: Any) -> Remote:
        pod = make_pod(*containers, plan={"kubelet": kubelet.plan}, **options)
        (pod.folder / "token").write_text("t")
        pod.start().wait_for_line("ready")
        agent = kubelet.agent()
        agent.hear("hello")
        agent.tell(type="welcome", acked=0)
        remote = Remote(agent)
        remote.pod = pod
        return remote

    return begin
