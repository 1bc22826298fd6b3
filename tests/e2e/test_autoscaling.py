"""kubectl top tells what /proc says, and an autoscaler follows the load, inside Slurm jobs."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.e2e.site import Obj, Site, eventually, pod

# The line behind `sleep` keeps the shell, and what it holds, alive.
HOLD = "x=$(head -c 40000000 /dev/zero | tr '\\0' x); grep VmRSS /proc/1/status; sleep 600; :"
MAIN = "/api/v1/nodes/main/proxy"
BURN = "while :; do :; done"


def top(site: Site, *args: str) -> list[list[str]]:
    return [line.split() for line in site.kubectl("top", *args, "--no-headers").splitlines()]


def has_metrics(site: Site) -> bool:
    """As upstream's, the API has nothing to say of a pod before it has looked at it."""
    return site.run("kubectl", "-n", site.namespace, "top", "pods", check=False).returncode == 0


def cpu_seconds(site: Site, name: str) -> float:
    """Of the container's first process, as its own /proc has it."""
    stat = site.kubectl("exec", name, "-c", "main", "--", "cat", "/proc/1/stat")
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def containers(site: Site, name: str) -> dict[str, Obj]:
    """A pod's containers in the summary of its node."""
    summary = json.loads(site.kubectl("get", "--raw", f"{MAIN}/stats/summary"))
    assert summary["node"]["nodeName"] == "main"
    (found,) = [one for one in summary["pods"] if one["podRef"]["name"] == name]
    return {one["name"]: one for one in found["containers"]}


def test_what_is_measured_is_what_proc_says(site: Site) -> None:
    busy = pod("busy", "busybox", BURN, terminationGracePeriodSeconds=0)
    holds = {"name": "holds", "image": "busybox", "command": ["sh", "-c", HOLD]}
    busy["spec"]["containers"].append(holds)
    site.apply(busy)
    site.wait_phase("busy", "Running")
    resident = eventually(
        lambda: re.search(r"VmRSS:\s+(\d+) kB", site.kubectl("logs", "busy", "-c", "holds")),
        "the memory is held",
    )
    before = cpu_seconds(site, "busy")
    found = containers(site, "busy")
    after = cpu_seconds(site, "busy")
    used = found["main"]["cpu"]["usageCoreNanoSeconds"] / 1e9
    assert before - 0.05 <= used <= after + 0.5  # commands run in the container count for it
    held = int(resident.group(1)) * 1024
    assert 0.9 * held <= found["holds"]["memory"]["workingSetBytes"] <= 1.3 * held + (4 << 20)


def test_top_shows_pods_containers_and_nodes(site: Site) -> None:
    busy = pod("busy", "busybox", BURN, terminationGracePeriodSeconds=0)
    idle = {"name": "idle", "image": "busybox", "command": ["sleep", "600"]}
    busy["spec"]["containers"].append(idle)
    site.apply(busy)
    site.wait_phase("busy", "Running")
    eventually(lambda: has_metrics(site), "the first look at the pods", timeout=60)
    (whole,) = top(site, "pods")
    each = {row[1]: row[2:] for row in top(site, "pods", "--containers", "--sort-by=cpu")}
    assert list(each) == ["main", "idle"]
    assert 0 < int(each["main"][0].removesuffix("m")) <= int(whole[1].removesuffix("m")) <= 1200
    assert top(site, "pods", "--sum")[-1] == whole[1:]
    nodes = {row[0]: row for row in top(site, "nodes")}
    assert nodes["main"][1] != "0m"
    assert nodes["main"][2].endswith("%")
    page = site.kubectl("get", "--raw", f"{MAIN}/metrics/resource")
    assert f'namespace="{site.namespace}",pod="busy"' in page


# About a third of a core while the file is there.
LOAD = """
while :; do
  i=0; while [ -e /flag/load ] && [ $i -lt 4000 ]; do i=$((i+1)); done
  sleep 0.05
done
"""


def autoscaled(site: Site) -> Path:
    """A Deployment `web` of one to four, which is busy while the file that is returned exists."""
    flag = site.cluster.home / f"flag-{site.namespace}"
    site.run("mkdir", str(flag))
    site.run("touch", str(flag / "load"))
    main = {
        "name": "main",
        "image": "busybox",
        "command": ["sh", "-c", LOAD],
        "resources": {"requests": {"cpu": "100m"}},
        "volumeMounts": [{"name": "flag", "mountPath": "/flag"}],
    }
    volume = {"name": "flag", "hostPath": {"path": str(flag)}}
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [main], "volumes": [volume], "terminationGracePeriodSeconds": 0},
    }
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    head = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}}
    site.apply({**head, "spec": spec})
    site.kubectl("rollout", "status", "deployment/web", "--timeout=30s")
    site.kubectl("autoscale", "deployment", "web", "--cpu-percent=50", "--min=1", "--max=4")
    at_once = {"stabilizationWindowSeconds": 0}
    change = json.dumps({"spec": {"behavior": {"scaleDown": at_once}}})
    site.kubectl("patch", "hpa", "web", "--type=merge", "-p", change)
    return flag / "load"


def jobs(site: Site) -> int:
    return len(site.squeue("%i", "-t", "running"))


def test_an_autoscaler_goes_from_one_to_four_and_back_on_real_load(site: Site) -> None:
    load = autoscaled(site)
    eventually(lambda: jobs(site) == 4, "four jobs carry the load", 60)
    row = site.kubectl("get", "hpa", "web", "--no-headers").split()
    assert row[1] == "Deployment/web"
    site.run("rm", str(load))
    eventually(lambda: jobs(site) == 1, "one job is enough", 60)
    said = site.kubectl("describe", "hpa", "web")
    assert "New size: 4; reason: cpu resource utilization" in said
    assert "New size: 1; reason: All metrics below target" in said
    assert "the HPA was able to successfully calculate a replica count" in said
    site.kubectl("delete", "hpa,deployment", "web")
