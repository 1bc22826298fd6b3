"""The API server under load: requests a second, and a CPU-second, beside kube-apiserver and etcd.

Run by `python -m benchmarks apiserver`. Over TLS, with client certificates, RBAC, admission and
every answer durable; ours on one core, the client on another. On a busy machine the rate by CPU
time is the one to trust. Where kube-apiserver and etcd are on PATH they are measured in the same
run; beside them stand figures of kube-apiserver 1.35 with etcd 3.6 on two such cores.
"""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.api_client import Client, Run, request
from benchmarks.api_load import (
    CONFIG_MAPS,
    NAMESPACE,
    PODS,
    get_pods,
    patch_statuses,
    pod,
    post_config_maps,
    post_pods,
    prepare,
)
from benchmarks.api_targets import Ours, Target, Upstream
from orlop.api.objects import Key
from orlop.store import Store

USER = "bench"
CONNECTIONS = 16
WATCHERS = 1000
HEADER = ("", "wall", "per CPU-second", "p50", "p99", "yardstick")


@dataclass(frozen=True, slots=True)
class Size:
    """How much of each; the smoke test of the benchmark itself takes little."""

    pods: int = 10_000
    config_maps: int = 4_000
    gets: int = 20_000
    patches: int = 3_000
    lists: int = 5
    events: int = 100
    watchers: int = WATCHERS
    recovered: int = 50_000


@dataclass(frozen=True, slots=True)
class Line:
    """One thing measured: of a rate more is better, of all others less."""

    name: str
    value: float
    unit: str
    per_cpu: float = 0.0
    p50: float = 0.0
    p99: float = 0.0
    yardstick: str = ""

    def cells(self) -> tuple[str, ...]:
        cpu = f"{self.per_cpu:,.0f}/s" if self.per_cpu else ""
        times = [f"{seconds * 1000:.1f} ms" if seconds else "" for seconds in (self.p50, self.p99)]
        digits = 0 if self.unit in ("/s", " MB") else 2
        return (self.name, f"{self.value:,.{digits}f}{self.unit}", cpu, *times, self.yardstick)


@dataclass(frozen=True, slots=True)
class Report:
    title: str
    lines: Mapping[str, Line]
    peer: Mapping[str, Line]

    def __str__(self) -> str:
        header = (*HEADER, "kube-apiserver here", "ratio") if self.peer else HEADER
        rows = [header, *(self._row(line) for line in self.lines.values())]
        widths = [max(len(row[column]) for row in rows) for column in range(len(header))]
        text = [
            "  ".join(
                cell.ljust(width) if column == 0 else cell.rjust(width)
                for column, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            for row in rows
        ]
        return "\n".join([self.title, "", *text])

    def _row(self, line: Line) -> tuple[str, ...]:
        if not self.peer:
            return line.cells()
        other = self.peer.get(line.name)
        if other is None:
            return (*line.cells(), "", "")
        better = line.value / other.value if line.unit == "/s" else other.value / line.value
        return (*line.cells(), other.cells()[1], f"{better:.1f}x")


def measure(size: Size = Size()) -> list[Report]:
    ours_before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(ours_before)})
    try:
        return _measure(size)
    finally:
        os.sched_setaffinity(0, ours_before)


def _measure(size: Size) -> list[Report]:
    with tempfile.TemporaryDirectory(prefix="orlop-bench-") as folder:
        ours = _all(Ours(Path(folder) / "ours"), size)
        ours |= _recovery(Ours(Path(folder) / "recovery"), size)
        peer = _all(Upstream(Path(folder) / "peer"), size) if Upstream.is_there() else {}
    return [Report("The API server, on one core", ours, peer)]


def _all(target: Target, size: Size) -> dict[str, Line]:
    target.home.mkdir(parents=True)
    cold = target.start()
    try:
        lines = [
            Line("cold start", cold, " s", yardstick="2.3 s"),
            Line("memory, empty", target.usage().memory, " MB"),
            *_requests(target, size),
        ]
        memory = target.usage().memory
        name = f"memory, {size.pods:,} pods"
        lines.append(Line(name, memory, " MB", yardstick="688 MB"))
        lines.append(_fan_out(target, size))
        target.stop(signal.SIGKILL)
        lines.append(Line(f"start again, {size.pods:,} pods", target.start(), " s"))
    finally:
        target.stop()
    return {line.name: line for line in lines}


def _requests(target: Target, size: Size) -> list[Line]:
    admin = Client(target.address(), 1)
    _checked(admin.run(prepare(USER)))
    admin.close()
    client = Client(target.address(USER), CONNECTIONS)
    one = Client(target.address(USER), 1)
    everything = request("GET", PODS)
    table = everything.replace(
        b"Accept: application/json", b"Accept: application/json;as=Table;v=v1;g=meta.k8s.io"
    )
    of_node = request("GET", f"{PODS}?fieldSelector=spec.nodeName%3Dnode-7")
    labelled = request("GET", f"{PODS}?labelSelector=one%3Dweb-77")
    count = f"{size.pods:,} pods"
    try:
        return [
            _rate(target, client, "POST ConfigMap", post_config_maps("cm", size.config_maps),
                  "2,070/s"),
            _rate(target, client, "POST Pod", post_pods(size.pods), "1,460/s"),
            _rate(target, client, "GET Pod", get_pods(size.gets, min(1000, size.pods)), "3,905/s"),
            _rate(target, client, "PATCH Pod status", patch_statuses(size.patches), "531/s"),
            _time(target, one, f"LIST {count}", [everything] * size.lists, "0.33 s"),
            _time(target, one, f"LIST {count} as a Table", [table] * size.lists, "0.30 s"),
            _time(target, one, f"LIST of one node among {count}", [of_node] * 20, "0.01 s"),
            _time(target, one, f"LIST of one label among {count}", [labelled] * 20, "0.01 s"),
        ]  # fmt: skip
    finally:
        client.close()
        one.close()


def _rate(
    target: Target, client: Client, name: str, requests: Iterable[bytes], yardstick: str
) -> Line:
    run, cpu = _ran(target, client, requests)
    ordered = sorted(run.latencies)
    return Line(
        name,
        run.count / run.seconds,
        "/s",
        run.count / cpu,
        ordered[len(ordered) // 2],
        ordered[int(len(ordered) * 0.99)],
        yardstick,
    )


def _time(
    target: Target, client: Client, name: str, requests: Iterable[bytes], yardstick: str
) -> Line:
    run, cpu = _ran(target, client, requests)
    ordered = sorted(run.latencies)
    return Line(
        name, ordered[len(ordered) // 2], " s", run.count / max(cpu, 0.01), yardstick=yardstick
    )


def _ran(target: Target, client: Client, requests: Iterable[bytes]) -> tuple[Run, float]:
    wires = list(requests)
    before = target.usage().cpu
    run = _checked(client.run(wires))
    return run, max(target.usage().cpu - before, 0.01)


def _checked(run: Run) -> Run:
    if run.refused:
        raise RuntimeError(f"{len(run.refused)} refused, first: {run.refused[0].decode()}")
    return run


def _fan_out(target: Target, size: Size) -> Line:
    """Every watcher sees every event: deliveries a second."""
    now = _checked_revision(target)
    watchers = Client(target.address(USER), size.watchers)
    writer = Client(target.address(USER), 4)
    try:
        wire = request("GET", f"{CONFIG_MAPS}?watch=1&resourceVersion={now}")
        watchers.begin_streams(wire)
        before = target.usage().cpu
        began = time.perf_counter()
        _checked(writer.run(post_config_maps("fan", size.events)))
        watchers.count(b'"type":"ADDED"', size.events * size.watchers)
        seconds = time.perf_counter() - began
        cpu = max(target.usage().cpu - before, 0.01)
    finally:
        watchers.close()
        writer.close()
    sent = size.events * size.watchers
    name = f"events to {size.watchers:,} watchers"
    return Line(name, sent / seconds, "/s", sent / cpu, yardstick="45,300/s")


def _checked_revision(target: Target) -> int:
    client = Client(target.address(USER), 1)
    connection = client.connections[0]
    connection.send(request("GET", f"{CONFIG_MAPS}?limit=1"))
    text = b""
    while b'"resourceVersion":"' not in text:
        text += connection.receive()
        time.sleep(0.001)
    client.close()
    return int(text.partition(b'"resourceVersion":"')[2].partition(b'"')[0])


def _recovery(target: Ours, size: Size) -> dict[str, Line]:
    """A home with many objects, after kill -9."""
    target.home.mkdir(parents=True)
    target.start()
    target.stop()
    asyncio.run(_fill(target.home / "state.db", size.recovered))
    target.start()
    target.stop(signal.SIGKILL)
    took = target.start()
    memory = target.usage().memory
    target.stop()
    name = f"recovery of {size.recovered:,} pods"
    return {
        name: Line(name, took, " s"),
        f"{name}, memory": Line(f"{name}, memory", memory, " MB"),
    }


async def _fill(state: Path, count: int) -> None:
    store = await Store.open(state)
    for start in range(0, count, 1000):
        await asyncio.gather(
            *(_put(store, f"old-{number}") for number in range(start, min(start + 1000, count)))
        )
    await store.close()


async def _put(store: Store, name: str) -> None:
    padded = pod(name, "node-1") | {"status": {"message": "x" * 1800}}
    await store.create("pods", Key(NAMESPACE, name), padded)
