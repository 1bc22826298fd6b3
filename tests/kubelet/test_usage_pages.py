"""What pods use at the kubelet's own endpoints, and as objects of metrics.k8s.io."""

from __future__ import annotations

import asyncio
import json
import time

from orlop.api.kinds import NODE_METRICS, POD_METRICS
from orlop.settings import AutoscalingSettings, Settings, SlurmSettings

from .objects import running, started
from .server.test_server import master, nobody

__all__ = ["master", "nobody"]

SECOND = 1_000_000_000


def pytest_generate_tests(metafunc):
    if "settings" in metafunc.fixturenames:
        slurm = SlurmSettings(busy_tick=0.05, idle_tick=0.2)
        measured = AutoscalingSettings(metric_resolution=0.01)
        made = Settings(listen="127.0.0.1", slurm=slurm, autoscaling=measured)
        metafunc.parametrize("settings", [made], ids=["quick"])


async def a_measured_pod(site):
    """A pod that has used ten seconds of CPU in the twenty since it started."""
    await site.create()
    agent = await site.agent()
    began = time.time() - 20
    await agent.say(started(), running(startedAt=began))
    await site.until_phase("Running")

    async def answer():
        while True:
            asked = await agent.hear("stats")
            usage = {"cpu": 10 * SECOND, "usage": 3 << 20, "workingSet": 2 << 20, "rss": 1 << 20}
            told = [{"name": "main", "restart": 0, **usage}]
            moment = {"time": began + 20, "containers": told}
            agent.tell({"type": "stats", "id": asked["id"], **moment})

    return asyncio.ensure_future(answer())


async def test_pod_metrics_have_the_pods_labels_and_usage(site):
    answering = await a_measured_pod(site)
    (found,) = await site.parts.serving.metrics.objects(POD_METRICS, "default")
    assert found["metadata"]["name"] == "web"
    assert found["window"] == "20s"
    assert found["containers"] == [
        {"name": "main", "usage": {"cpu": "500000000n", "memory": "2048Ki"}}
    ]
    assert await site.parts.serving.metrics.objects(POD_METRICS, "elsewhere") == []
    answering.cancel()


async def test_a_node_uses_what_its_pods_use(site):
    answering = await a_measured_pod(site)
    nodes = await site.parts.serving.metrics.objects(NODE_METRICS, "")
    usage = {one["metadata"]["name"]: one["usage"] for one in nodes}
    assert usage.pop("main") == {"cpu": "500000000n", "memory": "2048Ki"}
    assert all(one == {"cpu": "0", "memory": "0"} for one in usage.values())
    answering.cancel()


async def test_the_summary_is_upstreams(site, master):
    answering = await a_measured_pod(site)
    code, text = await master.get("/stats/summary?node=main")
    summary = json.loads(text)
    assert code == 200
    assert summary["node"]["nodeName"] == "main"
    (pod,) = summary["pods"]
    assert pod["podRef"]["name"] == "web"
    (container,) = pod["containers"]
    assert container["cpu"]["usageCoreNanoSeconds"] == 10 * SECOND
    assert container["cpu"]["usageNanoCores"] == SECOND // 2
    memory = container["memory"]
    assert (memory["workingSetBytes"], memory["rssBytes"]) == (2 << 20, 1 << 20)
    assert json.loads((await master.get("/stats/summary?node=other"))[1])["pods"] == []
    answering.cancel()


async def test_resource_metrics_are_what_metrics_server_reads(site, master):
    answering = await a_measured_pod(site)
    code, page = await master.get("/metrics/resource")
    assert code == 200
    labels = '{container="main",namespace="default",pod="web"}'
    assert f"container_cpu_usage_seconds_total{labels} 10 " in page
    assert f"container_memory_working_set_bytes{labels} {2 << 20} " in page
    assert 'pod_cpu_usage_seconds_total{namespace="default",pod="web"} 10 ' in page
    assert "\nnode_memory_working_set_bytes " in page
    answering.cancel()


async def test_cadvisor_names_image_and_container(site, master):
    answering = await a_measured_pod(site)
    _, page = await master.get("/metrics/cadvisor")
    (line,) = [one for one in page.splitlines() if one.startswith("container_memory_rss{")]
    assert 'container="main"' in line
    assert 'image="busybox"' in line
    assert f" {1 << 20} " in line
    assert 'cpu="total"' in page
    answering.cancel()


async def test_the_kubelets_own_metrics_are_there_too(site, master):
    assert "kubelet_running_pods" in (await master.get("/metrics"))[1]


async def test_strangers_learn_nothing(site, nobody):
    for path in ("/stats/summary", "/metrics/resource", "/metrics/cadvisor", "/metrics"):
        assert (await nobody.get(path))[0] == 401
