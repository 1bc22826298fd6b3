"""The real kubectl through everyday commands, and through what takes time."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import time

import pytest

from . import manifests
from .conftest import Kubectl
from .scenarios import SCENARIOS, Step


def minor_version(kubectl: Kubectl) -> int:
    info = json.loads(kubectl("version", "--client", "-o", "json").out)
    return int(info["clientVersion"]["minor"].rstrip("+"))


def run(kubectl: Kubectl, step: Step) -> None:
    command = step.command.replace("NAMESPACE", kubectl.namespace)
    result = kubectl(
        *shlex.split(command), stdin=step.stdin.replace("NAMESPACE", kubectl.namespace)
    )
    told = f"kubectl {command}\nstdout: {result.out}\nstderr: {result.err}"
    assert result.code == step.code, told
    for pattern, text in ((step.out, result.out), (step.err, result.err)):
        assert re.search(pattern.replace("NAMESPACE", kubectl.namespace), text), told


def set_status(kubectl: Kubectl, path: str, status: str) -> None:
    """As a controller would; old kubectls have no word for it but the path."""
    whole = f"{path.replace('NAMESPACE', kubectl.namespace)}"
    found = json.loads(kubectl("get", "--raw", whole).out)
    changed = json.dumps({**found, **json.loads(status)})
    replaced = kubectl("replace", "--raw", f"{whole}/status", "-f", "-", stdin=changed)
    assert replaced.code == 0, replaced.err


POD = "/api/v1/namespaces/NAMESPACE/pods/web"
DEPLOYMENT = "/apis/apps/v1/namespaces/NAMESPACE/deployments/web"


@pytest.mark.parametrize("name", SCENARIOS)
def test_commands_say_what_they_say_elsewhere(kubectl: Kubectl, name: str) -> None:
    version = minor_version(kubectl)
    for step in SCENARIOS[name]:
        if version >= step.since:
            run(kubectl, step)


def test_a_watch_prints_rows_as_they_change(kubectl: Kubectl) -> None:
    assert kubectl("create", "-f", "-", stdin=manifests.POD).code == 0
    watch = subprocess.Popen(
        kubectl.command(["get", "pods", "-w"]),
        stdout=subprocess.PIPE,
        text=True,
        env=kubectl.environment,
    )
    assert watch.stdout is not None
    try:
        assert "NAME" in watch.stdout.readline()
        assert re.match(r"web +0/1 +Pending", watch.stdout.readline())
        status = '{"status":{"phase":"Running"}}'
        set_status(kubectl, POD, status)
        assert re.match(r"web +0/1 +Running", watch.stdout.readline())
    finally:
        watch.terminate()
        watch.communicate(timeout=10)


def test_wait_returns_when_the_condition_is_met(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=manifests.POD)
    late = kubectl("wait", "--for=condition=Ready", "pod/web", "--timeout=1s")
    assert late.code == 1
    assert "timed out waiting" in late.err
    waiting = subprocess.Popen(
        kubectl.command(["wait", "--for=condition=Ready", "pod/web", "--timeout=20s"]),
        stdout=subprocess.PIPE,
        text=True,
        env=kubectl.environment,
    )
    time.sleep(0.3)
    ready = '{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}'
    set_status(kubectl, POD, ready)
    out, _ = waiting.communicate(timeout=20)
    assert (waiting.returncode, out) == (0, "pod/web condition met\n")


def test_rollout_status_follows_a_deployment(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=manifests.DEPLOYMENT)
    waiting = subprocess.Popen(
        kubectl.command(["rollout", "status", "deployment/web", "--timeout=20s"]),
        stdout=subprocess.PIPE,
        text=True,
        env=kubectl.environment,
    )
    assert waiting.stdout is not None
    assert "Waiting for" in waiting.stdout.readline()
    rolled_out = manifests.ROLLED_OUT.replace("GENERATION", "1")
    set_status(kubectl, DEPLOYMENT, rolled_out)
    out, _ = waiting.communicate(timeout=20)
    assert waiting.returncode == 0
    assert 'deployment "web" successfully rolled out' in out


def test_a_namespace_stays_until_it_is_finalized(kubectl: Kubectl) -> None:
    name = f"{kubectl.namespace}-b"
    kubectl("create", "-f", "-", stdin=f'{{"kind":"Namespace","apiVersion":"v1","metadata":'
            f'{{"name":"{name}"}}}}')  # fmt: skip
    assert kubectl("delete", "ns", name, "--wait=false").code == 0
    assert re.search(r"Terminating", kubectl("get", "ns", name).out)
    refused = kubectl("create", "-n", name, "-f", "-", stdin=manifests.CONFIG)
    assert "because it is being terminated" in refused.err
    found = json.loads(kubectl("get", "ns", name, "-o", "json").out)
    found["spec"]["finalizers"] = []
    path = f"/api/v1/namespaces/{name}/finalize"
    replaced = kubectl("replace", "--raw", path, "-f", "-", stdin=json.dumps(found))
    assert replaced.code == 0, replaced.err
    assert "NotFound" in kubectl("get", "ns", name).err


def test_an_old_state_cannot_be_written_back(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=manifests.CONFIG)
    old = kubectl("get", "cm", "conf", "-o", "yaml").out
    kubectl("annotate", "cm", "conf", "x=y")
    refused = kubectl("replace", "-f", "-", stdin=old)
    assert refused.code == 1
    assert "the object has been modified" in refused.err


def test_a_long_list_comes_in_chunks(kubectl: Kubectl) -> None:
    many = "---\n".join(manifests.CONFIG.replace("conf", f"c{n}") for n in range(11))
    assert kubectl("create", "-f", "-", stdin=many).code == 0
    result = kubectl("get", "cm", "-o", "name", "--chunk-size=3", "-v=6")
    names = result.out.split()
    assert len(names) == len(set(names)) == 11
    assert result.err.count("continue=") == 3
    assert kubectl("delete", "cm", "--all").out.count("deleted") == 11


def test_help_for_a_mistake_is_in_kubectls_own_words(kubectl: Kubectl) -> None:
    result = kubectl("get", "pod", "none")
    assert result.err.strip() == 'Error from server (NotFound): pods "none" not found'
