"""Client libraries that others wrote, each unmodified, each in a process of its own."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tools.devroot import dev_root

from .conftest import HERE, Cluster, Kubectl

CLIENTS = HERE / "clients"
PYTHON = dev_root().clients / "bin" / "python"
GREETINGS = json.dumps(
    {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "greetings.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "greetings", "singular": "greeting", "kind": "Greeting"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "properties": {
                                "spec": {
                                    "type": "object",
                                    "required": ["whom"],
                                    "properties": {
                                        "whom": {"type": "string"},
                                        "word": {"type": "string"},
                                    },
                                },
                                "status": {
                                    "type": "object",
                                    "x-kubernetes-preserve-unknown-fields": True,
                                },
                            },
                        }
                    },
                }
            ],
        },
    }
)
GREETING = """
apiVersion: example.com/v1
kind: Greeting
metadata: {name: first}
spec: {whom: world}
"""


@pytest.fixture
def namespace(recent_kubectl: Kubectl) -> str:
    return recent_kubectl.namespace


def environment(cluster: Cluster, home: Path) -> dict[str, str]:
    kubeconfig = str(cluster.kubeconfig)
    return {"HOME": str(home), "PATH": "/usr/local/bin:/usr/bin:/bin", "KUBECONFIG": kubeconfig}


@pytest.mark.parametrize(
    "program", ["python_kubernetes", "python_asyncio", "python_kr8s", "python_lightkube"]
)
def test_a_python_library_finds_what_it_expects(
    cluster: Cluster, namespace: str, tmp_path: Path, program: str
) -> None:
    command = [str(PYTHON), str(CLIENTS / f"{program}.py"), namespace]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=100,
        env=environment(cluster, tmp_path),
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_nodes_library_finds_what_it_expects(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    node = shutil.which("node")
    assert node is not None, "tools/setup installs it"
    command = [node, str(CLIENTS / "node_client.mjs"), str(dev_root().node_client), namespace]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=100,
        env=environment(cluster, tmp_path),
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def operator(
    cluster: Cluster, recent_kubectl: Kubectl, tmp_path: Path
) -> Iterator[Callable[[], None]]:
    """Starts a new life of the operator, at each call."""
    assert recent_kubectl("create", "-f", "-", stdin=GREETINGS).code == 0
    running: list[subprocess.Popen[bytes]] = []

    def stop() -> None:
        if running:
            running[-1].terminate()
            running[-1].wait(20)

    def start() -> None:
        stop()
        log = (tmp_path / "log").open("ab")
        kopf = [str(PYTHON), "-m", "kopf", "run", "--standalone", "-n", recent_kubectl.namespace]
        command = [*kopf, str(CLIENTS / "operator_kopf.py")]
        child = subprocess.Popen(
            command, stdout=log, stderr=log, env=environment(cluster, tmp_path), cwd=tmp_path
        )
        running.append(child)
        log.close()

    yield start
    stop()
    recent_kubectl("delete", "crd", "greetings.example.com")


def awaited(kubectl: Kubectl, command: str, expected: str, seconds: float = 40) -> None:
    deadline = time.monotonic() + seconds
    while (found := kubectl(*command.split())).out != expected:
        assert time.monotonic() < deadline, f"{command}: {found.out} {found.err}"
        time.sleep(0.2)


def test_an_operator_on_kopf_minds_its_objects(
    operator: Callable[[], None], recent_kubectl: Kubectl
) -> None:
    kubectl = recent_kubectl
    operator()
    assert kubectl("create", "-f", "-", stdin=GREETING).code == 0
    awaited(kubectl, "get cm first -o jsonpath={.data.words}", "hello, world")
    awaited(kubectl, "get greeting first -o jsonpath={.status.said}", "hello, world")
    awaited(kubectl, "get greeting first -o jsonpath={.status.minded}", "true")
    operator()  # another life: it resumes what it finds
    changed = GREETING.replace("world", "moon")
    assert kubectl("apply", "-f", "-", stdin=changed).code == 0
    awaited(kubectl, "get cm first -o jsonpath={.data.words}", "hello, moon")
    assert kubectl("delete", "greeting", "first", "--timeout=40s", timeout=60).code == 0
    awaited(kubectl, "get cm first --ignore-not-found", "")
    assert "Greeted" in kubectl("get", "events").out
