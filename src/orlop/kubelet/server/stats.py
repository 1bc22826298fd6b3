"""Writes what pods use in upstream's formats: stats/summary, metrics/resource, cadvisor.

Called by the kubelet's server with what was measured. Pure. One kubelet of ours has many nodes: the
pages tell of one node where `node` names it, else of all under the name of the host.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ...api import quantity
from ...api.objects import Obj, key_of, meta, uid_of
from ...api.times import rfc3339
from ...metrics import escaped, number
from .measurements import ContainerUsage, PodUsage

NANO = 1_000_000_000


class Sample(NamedTuple):
    labels: Mapping[str, str]
    value: float
    time: float | None = None


class Family(NamedTuple):
    """All samples of one name."""

    name: str
    kind: str
    help: str
    samples: Sequence[Sample]


def text(families: Iterable[Family]) -> str:
    """Return the page that Prometheus reads."""
    lines: list[str] = []
    for family in families:
        if family.samples:
            lines.append(f"# HELP {family.name} {escaped(family.help)}")
            lines.append(f"# TYPE {family.name} {family.kind}")
            lines += (_line(family.name, sample) for sample in family.samples)
    return "\n".join(lines) + "\n"


def _line(name: str, sample: Sample) -> str:
    pairs = ",".join(f'{key}="{escaped(value)}"' for key, value in sample.labels.items())
    when = f" {int(sample.time * 1000)}" if sample.time is not None else ""
    return (
        f"{name}{{{pairs}}} {number(sample.value)}{when}"
        if pairs
        else (f"{name} {number(sample.value)}{when}")
    )


# /metrics/resource


def resource_metrics(usages: Sequence[PodUsage], now: float) -> str:
    """Return the page of pkg/kubelet/metrics/collectors/resource_metrics.go."""
    each = [(usage, one) for usage in usages for one in usage.containers]
    every = [one for usage in usages for one in usage.whole]
    cpu, memory, starts = [], [], []
    for usage, one in each:
        labels = {"container": one.name, **_pod_labels(usage)}
        cpu.append(Sample(labels, one.point.cpu / NANO, one.point.time))
        memory.append(Sample(labels, one.point.working_set, one.point.time))
        if one.started is not None:
            starts.append(Sample(labels, one.started))
    of_pods = [(_pod_labels(usage), usage.whole) for usage in usages]
    return text(
        [
            _counter("container_cpu_usage_seconds_total", "Cumulative cpu time", cpu),
            _gauge("container_memory_working_set_bytes", "Current working set", memory),
            _gauge("container_start_time_seconds", "Start time since unix epoch", starts),
            _counter("node_cpu_usage_seconds_total", "Cumulative cpu time", [_cpu({}, every, now)]),
            _gauge("node_memory_working_set_bytes", "Working set", [_memory({}, every, now)]),
            _counter(
                "pod_cpu_usage_seconds_total",
                "Cumulative cpu time",
                [_cpu(labels, whole, now) for labels, whole in of_pods],
            ),
            _gauge(
                "pod_memory_working_set_bytes",
                "Current working set",
                [_memory(labels, whole, now) for labels, whole in of_pods],
            ),
            _gauge("resource_scrape_error", "1 if metrics could not be had", [Sample({}, 0)]),
        ]
    )


def _counter(name: str, help: str, samples: Sequence[Sample]) -> Family:
    words = f"[STABLE] {help} consumed in core-seconds"
    return Family(name, "counter", words, samples)


def _gauge(name: str, help: str, samples: Sequence[Sample]) -> Family:
    return Family(name, "gauge", f"[STABLE] {help}", samples)


def _pod_labels(usage: PodUsage) -> dict[str, str]:
    namespace, name = key_of(usage.pod)
    return {"namespace": namespace, "pod": name}


def _cpu(labels: Mapping[str, str], whole: Sequence[ContainerUsage], now: float) -> Sample:
    return Sample(labels, sum(one.point.cpu for one in whole) / NANO, _latest(whole, now))


def _memory(labels: Mapping[str, str], whole: Sequence[ContainerUsage], now: float) -> Sample:
    return Sample(labels, sum(one.point.working_set for one in whole), _latest(whole, now))


def _latest(whole: Sequence[ContainerUsage], now: float) -> float:
    return max((one.point.time for one in whole), default=now)


# /metrics/cadvisor


def cadvisor_metrics(usages: Sequence[PodUsage], version: str) -> str:
    """Return the part of github.com/google/cadvisor/metrics/prometheus.go that is measured here."""
    cpu, usage_bytes, working_set, rss, seen, starts, limits = ([] for _ in range(7))
    for usage in usages:
        specs = {one["name"]: one for one in usage.pod["spec"]["containers"]}
        for one in usage.containers:
            labels = _cadvisor_labels(usage, one.name, specs.get(one.name) or {})
            when = one.point.time
            cpu.append(Sample({**labels, "cpu": "total"}, one.point.cpu / NANO, when))
            usage_bytes.append(Sample(labels, one.point.usage, when))
            working_set.append(Sample(labels, one.point.working_set, when))
            rss.append(Sample(labels, one.point.rss, when))
            seen.append(Sample(labels, int(when), when))
            starts.append(Sample(labels, one.started or 0, when))
            limits.append(Sample(labels, _memory_limit(specs.get(one.name) or {}), when))
    about = {"cadvisorVersion": "", "kernelVersion": "", "osVersion": "", "orlopVersion": version}
    return text(
        [
            Family("cadvisor_version_info", "gauge", "Versions.", [Sample(about, 1)]),
            Family("container_cpu_usage_seconds_total", "counter", "Cumulative cpu time.", cpu),
            Family("container_last_seen", "gauge", "Last time a container was seen.", seen),
            Family("container_memory_rss", "gauge", "Size of RSS in bytes.", rss),
            Family("container_memory_usage_bytes", "gauge", "Memory usage.", usage_bytes),
            Family("container_memory_working_set_bytes", "gauge", "Working set.", working_set),
            Family("container_spec_memory_limit_bytes", "gauge", "Memory limit.", limits),
            Family("container_start_time_seconds", "gauge", "Start time.", starts),
        ]
    )


def _cadvisor_labels(usage: PodUsage, container: str, spec: Obj) -> dict[str, str]:
    uid = uid_of(usage.pod)
    return {
        "container": container,
        "id": f"/kubepods/pod{uid}/{container}",
        "image": str(spec.get("image") or ""),
        "name": f"{uid}_{container}",
        **_pod_labels(usage),
    }


def _memory_limit(spec: Obj) -> int:
    limits = (spec.get("resources") or {}).get("limits") or {}
    return quantity.to_bytes(limits["memory"]) if "memory" in limits else 0


# /stats/summary


def summary(usages: Sequence[PodUsage], node: str, started: float, now: float) -> Obj:
    """Return the Summary of pkg/kubelet/apis/stats/v1alpha1."""
    every = [one for usage in usages for one in usage.whole]
    return {
        "node": {
            "nodeName": node,
            "startTime": rfc3339(started),
            **_summed(every, now),
        },
        "pods": [_pod_summary(usage, now) for usage in usages],
    }


def _pod_summary(usage: PodUsage, now: float) -> Obj:
    namespace, name = key_of(usage.pod)
    start = (usage.pod.get("status") or {}).get("startTime")
    return {
        "podRef": {"name": name, "namespace": namespace, "uid": uid_of(usage.pod)},
        "startTime": start or meta(usage.pod).get("creationTimestamp"),
        "containers": [_container_summary(one, now) for one in usage.containers],
        **_summed(usage.whole, now),
    }


def _container_summary(one: ContainerUsage, now: float) -> Obj:
    started = {"startTime": rfc3339(one.started)} if one.started is not None else {}
    return {"name": one.name, **started, **_summed([one], now)}


def _summed(whole: Sequence[ContainerUsage], now: float) -> Obj:
    when = rfc3339(_latest(whole, now))
    return {
        "cpu": {
            "time": when,
            "usageNanoCores": sum(one.nanocores for one in whole),
            "usageCoreNanoSeconds": sum(one.point.cpu for one in whole),
        },
        "memory": {
            "time": when,
            "usageBytes": sum(one.point.usage for one in whole),
            "workingSetBytes": sum(one.point.working_set for one in whole),
            "rssBytes": sum(one.point.rss for one in whole),
        },
    }
