"""What kubectl's users do with workloads, with the real kubectl over real TLS."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from orlop import pki
from orlop.api.kinds import CONFIG_MAP, EVENTS_EVENT
from orlop.api.objects import Key, meta
from orlop.api.schema import Schema
from orlop.api.times import rfc3339_micro
from orlop.apiserver import ApiServer
from orlop.client.clock import ManualClock
from orlop.client.informer import Informers
from orlop.client.recorder import Recorder
from orlop.controllers.framework.manager import ControllerManager
from orlop.store import Store
from tests.controllers.world import Kubelet

Kubectl = Callable[..., Awaitable[str]]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> pki.Pki:
    return pki.ensure(tmp_path_factory.mktemp("pki"), ["localhost", "127.0.0.1"])


@pytest.fixture
async def server(tmp_path: Path, schema: Schema, authority: pki.Pki) -> AsyncIterator[ApiServer]:
    store = await Store.open(tmp_path / "state.db")
    made = ApiServer(store, tls=authority.server_context(authority.apiserver), schema=schema)
    yield made
    await made.stop()
    await store.close()


@pytest.fixture
async def kubectl(tmp_path: Path, server: ApiServer, authority: pki.Pki) -> AsyncIterator[Kubectl]:
    """kubectl as the administrator of a cluster whose controllers run."""
    port = await server.start("127.0.0.1", 0)
    api = server.client("test", ["system:masters"])
    informers = Informers(api)
    parts = (informers, ControllerManager(api, informers), Kubelet(api, informers))
    tasks = [asyncio.ensure_future(part.run()) for part in parts]
    folder = authority.folder

    async def run(*arguments: str) -> str:
        process = await asyncio.create_subprocess_exec(
            "kubectl",
            f"--server=https://127.0.0.1:{port}",
            f"--certificate-authority={folder / 'ca.crt'}",
            f"--client-certificate={folder / 'admin.crt'}",
            f"--client-key={folder / 'admin.key'}",
            f"--cache-dir={tmp_path / 'cache'}",
            *arguments,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await asyncio.wait_for(process.communicate(), 30)
        assert process.returncode == 0, output.decode()
        return output.decode()

    yield run
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def images(kubectl: Kubectl) -> set[str]:
    path = "jsonpath={.items[*].spec.containers[0].image}"
    return set((await kubectl("get", "pods", "-l", "app=web", "-o", path)).split())


async def test_a_deployment_is_rolled_forward_and_back(kubectl: Kubectl):
    await kubectl("create", "deployment", "web", "--image=web:1", "--replicas=4")
    status = ("rollout", "status", "deployment/web", "--timeout=20s")
    assert "successfully rolled out" in await kubectl(*status)
    await kubectl("set", "image", "deployment/web", "web=web:2")
    await kubectl("annotate", "deployment/web", "kubernetes.io/change-cause=second")
    assert "successfully rolled out" in await kubectl(*status)
    assert await images(kubectl) == {"web:2"}
    history = await kubectl("rollout", "history", "deployment/web")
    assert [line.split()[:2] for line in history.splitlines()[2:4]] == [
        ["1", "<none>"],
        ["2", "second"],
    ]
    await kubectl("rollout", "undo", "deployment/web")
    assert "successfully rolled out" in await kubectl(*status)
    assert await images(kubectl) == {"web:1"}
    await kubectl("rollout", "restart", "deployment/web")
    assert "successfully rolled out" in await kubectl(*status)
    await kubectl("scale", "deployment/web", "--replicas=2")
    await kubectl("wait", "deployment/web", "--for=jsonpath={.status.replicas}=2", "--timeout=20s")


SET = """
apiVersion: apps/v1
kind: {kind}
metadata: {{name: web}}
spec:
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec: {{containers: [{{name: web, image: "web:1"}}]}}
{more}
"""


@pytest.mark.parametrize(
    ("kind", "more"),
    [("StatefulSet", "  replicas: 3\n  serviceName: web"), ("DaemonSet", "")],
    ids=["StatefulSet", "DaemonSet"],
)
async def test_sets_are_rolled_forward_and_back(kubectl: Kubectl, tmp_path, kind, more):
    node = tmp_path / "node.yaml"
    node.write_text("apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n")
    manifest = tmp_path / "set.yaml"
    manifest.write_text(SET.format(kind=kind, more=more))
    await kubectl("apply", "-f", str(node), "-f", str(manifest))
    ready = '{"status":{"conditions":[{"type":"Ready","status":"True"}]}}'
    await kubectl("patch", "node", "n1", "--subresource=status", "--type=merge", "-p", ready)
    status = ("rollout", "status", f"{kind}/web", "--timeout=20s")
    await kubectl(*status)
    await kubectl("set", "image", f"{kind}/web", "web=web:2")
    await kubectl(*status)
    assert await images(kubectl) == {"web:2"}
    assert "2" in await kubectl("rollout", "history", f"{kind}/web")
    await kubectl("rollout", "undo", f"{kind}/web")
    await kubectl(*status)
    assert await images(kubectl) == {"web:1"}


async def test_a_cron_job_is_started_by_hand(kubectl: Kubectl):
    schedule = "--schedule=0 0 1 1 *"
    await kubectl("create", "cronjob", "tick", "--image=busybox", schedule)
    await kubectl("create", "job", "now", "--from=cronjob/tick")
    await kubectl("wait", "job/now", "--for=condition=Complete", "--timeout=20s")
    await kubectl("delete", "cronjob", "tick", "--cascade=foreground", "--timeout=20s")


async def test_a_job_is_waited_for_and_deleted_with_its_pods(kubectl: Kubectl):
    await kubectl("create", "job", "work", "--image=busybox")
    await kubectl("wait", "job/work", "--for=condition=Complete", "--timeout=20s")
    assert "1/1" in await kubectl("get", "job", "work")
    pods = await kubectl("get", "pods", "-l", "job-name=work", "-o", "name")
    assert len(pods.split()) == 1
    await kubectl("delete", "job", "work", "--cascade=foreground", "--timeout=20s")
    assert "No resources found" in await kubectl("get", "pods")


async def test_a_namespace_is_deleted_with_what_is_in_it(kubectl: Kubectl):
    await kubectl("create", "namespace", "room")
    await kubectl("-n", "room", "create", "deployment", "web", "--image=web:1", "--replicas=2")
    await kubectl("-n", "room", "rollout", "status", "deployment/web", "--timeout=20s")
    await kubectl("-n", "room", "create", "configmap", "settings", "--from-literal=a=b")
    await kubectl("delete", "namespace", "room", "--timeout=20s")
    assert "room" not in await kubectl("get", "namespaces")


async def test_orphans_are_kept(kubectl: Kubectl):
    await kubectl("create", "deployment", "web", "--image=web:1", "--replicas=2")
    await kubectl("rollout", "status", "deployment/web", "--timeout=20s")
    await kubectl("delete", "deployment", "web", "--cascade=orphan", "--timeout=20s")
    assert len((await kubectl("get", "pods", "-o", "name")).split()) == 2


async def test_describe_shows_how_often_and_since_when(kubectl: Kubectl, server: ApiServer) -> None:
    api = server.client("tester", ["system:masters"])
    await kubectl("create", "configmap", "it")
    about = await api.get(CONFIG_MAP, Key("default", "it"))
    clock = ManualClock(time.time() - 130)
    recorder = Recorder(api, "tester", clock=clock)
    for _ in range(5):
        await recorder.event(about, "Warning", "Odd", "something is odd")
        clock.advance(30)
    described = await kubectl("describe", "configmap", "it")
    (line,) = [one for one in described.splitlines() if "something is odd" in one]
    assert re.search(r"Warning\s+Odd\s+\d+s \(x5 over 2m\d*s?\)\s+tester\s+something is odd", line)


async def test_describe_shows_series_of_newer_clients(kubectl: Kubectl, server: ApiServer) -> None:
    api = server.client("tester", ["system:masters"])
    await kubectl("create", "configmap", "it")
    about = await api.get(CONFIG_MAP, Key("default", "it"))
    first, last = time.time() - 120, time.time() - 5
    event = {
        "metadata": {"name": "odd", "namespace": "default"},
        "regarding": {"kind": "ConfigMap", "name": "it", "namespace": "default"},
        "eventTime": rfc3339_micro(first),
        "series": {"count": 7, "lastObservedTime": rfc3339_micro(last)},
        "reason": "Odd",
        "action": "Looking",
        "type": "Warning",
        "note": "odd again",
        "reportingController": "example.com/tester",
        "reportingInstance": "one",
    }
    event["regarding"]["uid"] = meta(about)["uid"]
    await api.create(EVENTS_EVENT, event)
    described = await kubectl("describe", "configmap", "it")
    (line,) = [one for one in described.splitlines() if "odd again" in one]
    assert "(x7 over 2m" in line
    listed = await kubectl("get", "events")
    assert "odd again" in listed


async def test_a_namespace_is_given_bounds_and_tells_of_them(kubectl: Kubectl, tmp_path):
    """Quotas, limits, classes and levels, as an administrator makes them and a user meets them."""
    await kubectl("create", "namespace", "lab")
    await kubectl("create", "quota", "q", "-n", "lab", "--hard=pods=2,count/configmaps=9,cpu=4")
    limits = tmp_path / "limits.yaml"
    limits.write_text(
        "apiVersion: v1\nkind: LimitRange\nmetadata: {name: l, namespace: lab}\n"
        "spec: {limits: [{type: Container, default: {cpu: 1}}]}\n"
    )
    await kubectl("apply", "-f", str(limits))
    await kubectl("create", "priorityclass", "high", "--value=1000")
    await kubectl("wait", "quota/q", "-n", "lab", "--for=jsonpath={.status.used.pods}=0")
    for name in ("a", "b"):
        high = '{"spec": {"priorityClassName": "high"}}'
        await kubectl("run", name, "-n", "lab", "--image=i", f"--overrides={high}")
    assert re.search(r"cpu\s+2\s+4", await kubectl("describe", "quota", "q", "-n", "lab"))
    priority = ("get", "pod", "a", "-n", "lab", "-o", "jsonpath={.spec.priority}")
    assert await kubectl(*priority) == "1000"
    with pytest.raises(AssertionError, match="exceeded quota: q, requested: pods=1, used: pods=2"):
        await kubectl("run", "c", "-n", "lab", "--image=i")
    label = "pod-security.kubernetes.io/enforce=restricted"
    told = await kubectl("label", "namespace", "lab", label)
    assert "namespace/lab labeled" in told
    await kubectl("delete", "pod", "a", "-n", "lab", "--now")
    await kubectl("wait", "quota/q", "-n", "lab", "--for=jsonpath={.status.used.pods}=1")
    with pytest.raises(AssertionError, match='violates PodSecurity "restricted:latest"'):
        await kubectl("run", "c", "-n", "lab", "--image=i")


async def test_a_budget_is_shown_and_kept(kubectl: Kubectl):
    await kubectl("create", "deployment", "web", "--image=i", "--replicas=2")
    await kubectl("create", "pdb", "web", "--selector=app=web", "--min-available=1")
    await kubectl("rollout", "status", "deployment/web", "--timeout=20s")
    await kubectl("wait", "pdb/web", "--for=jsonpath={.status.disruptionsAllowed}=1")
    shown = await kubectl("get", "pdb", "web")
    assert re.search(r"web\s+1\s+N/A\s+1\s", shown)
    assert "SufficientPods" in await kubectl("get", "pdb", "web", "-o", "yaml")
