"""kubectl top tells what /proc says, and an autoscaler follows the load, inside Slurm jobs."""

from __future__ import annotations

import json
import re

import pytest

from tests.e2e.site import Site, eventually, pod

# The line behind `sleep` keeps the shell, and what it holds, alive.
HOLD = "x=$(head -c 40000000 /dev/zero | tr '\\0' x); grep VmRSS /proc/1/status; sleep 600; :"
MAIN = "/api/v1/nodes/main/proxy"
BURN = "while :; do :; done"


def top(site: Site, *args: str) -> list[list[str]]:
    return [line.split() for line in site.kubectl("top", *args, "--no-headers").splitlines()]


def uptime_and_cpu(site: Site, name: str) -> tuple[float, float]:
    """The node's clock, and the CPU seconds of the container's first process, as /proc has them."""
    script = "cat /proc/uptime /proc/1/stat"
    text = site.kubectl("exec", name, "-c", "main", "--", "sh", "-c", script)
    fields = text.rpartition(")")[2].split()
    return float(text.split()[0]), (int(fields[11]) + int(fields[12])) / 100


def test_top_agrees_with_proc(site: Site) -> None:
    busy = pod("busy", "busybox", BURN, terminationGracePeriodSeconds=0)
    holds = {"name": "holds", "image": "busybox", "command": ["sh", "-c", HOLD]}
    busy["spec"]["containers"].append(holds)
    site.apply(busy)
    site.wait_phase("busy", "Running")
    resident = eventually(
        lambda: re.search(r"VmRSS:\s+(\d+) kB", site.kubectl("logs", "busy", "-c", "holds")),
        "the memory is held",
    )
    held = int(resident.group(1)) / 1024
    (began, used), (whole,) = uptime_and_cpu(site, "busy"), top(site, "pods")
    found = {row[1]: row[2:] for row in top(site, "pods", "--containers", "--sort-by=memory")}
    until, used_then = uptime_and_cpu(site, "busy")

    assert list(found) == ["holds", "main"]
    assert 0.9 * held <= int(found["holds"][1].removesuffix("Mi")) <= 1.3 * held + 4
    cores = (used_then - used) / (until - began)
    assert int(found["main"][0].removesuffix("m")) == pytest.approx(cores * 1000, rel=0.5)
    assert int(whole[1].removesuffix("m")) >= int(found["main"][0].removesuffix("m"))
    nodes = {row[0]: row for row in top(site, "nodes")}
    assert nodes["main"][1] != "0m"
    assert nodes["main"][2].endswith("%")
    summary = json.loads(site.kubectl("get", "--raw", f"{MAIN}/stats/summary"))
    assert summary["node"]["nodeName"] == "main"
    names = {
        one["podRef"]["name"]: [c["name"] for c in one["containers"]] for one in summary["pods"]
    }
    assert sorted(names["busy"]) == ["holds", "main"]
    page = site.kubectl("get", "--raw", f"{MAIN}/metrics/resource")
    assert f'namespace="{site.namespace}",pod="busy"' in page


# About a third of a core while the file is there.
LOAD = """
while :; do
  i=0; while [ -e /flag/load ] && [ $i -lt 4000 ]; do i=$((i+1)); done
  sleep 0.05
done
"""


def test_an_autoscaler_goes_from_one_to_four_and_back_on_real_load(site: Site) -> None:
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

    def jobs() -> int:
        return len(site.squeue("%i", "-t", "running"))

    eventually(lambda: jobs() == 4, "four jobs carry the load", 60)
    row = site.kubectl("get", "hpa", "web", "--no-headers").split()
    assert row[1] == "Deployment/web"
    site.run("rm", str(flag / "load"))
    eventually(lambda: jobs() == 1, "one job is enough", 60)
    said = site.kubectl("describe", "hpa", "web")
    assert "New size: 4; reason: cpu resource utilization" in said
    assert "New size: 1; reason: All metrics below target" in said
    assert "the HPA was able to successfully calculate a replica count" in said
    site.kubectl("delete", "hpa,deployment", "web")
