"""Counts what this process does: counters, gauges and histograms in Prometheus' text format.

Modules make their metrics at import time, under upstream's names, and count; the API server shows
all of them at /metrics. A page of code in place of a dependency: it starts no thread, opens no
port, and a series appears once it is counted.
"""

from __future__ import annotations

import bisect
import os
import resource
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeVar

Labels = tuple[str, ...]
MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Metric(ABC):
    """One name, and a series per combination of label values."""

    kind = ""

    def __init__(self, name: str, help: str, labels: Sequence[str] = ()) -> None:
        self.name = name
        self.help = help
        self.labels = tuple(labels)

    @abstractmethod
    def lines(self) -> list[str]: ...

    def _series(self, suffix: str, values: Labels, value: float, *more: tuple[str, str]) -> str:
        pairs = [*zip(self.labels, values, strict=True), *more]
        shown = ",".join(f'{name}="{escaped(text)}"' for name, text in pairs)
        named = f"{{{shown}}}" if pairs else ""
        return f"{self.name}{suffix}{named} {number(value)}"


class Counter(Metric):
    kind = "counter"

    def __init__(self, name: str, help: str, labels: Sequence[str] = ()) -> None:
        super().__init__(name, help, labels)
        self._values: dict[Labels, float] = {}

    def add(self, *labels: str, by: float = 1) -> None:
        self._values[labels] = self._values.get(labels, 0) + by

    def value(self, *labels: str) -> float:
        return self._values.get(labels, 0)

    def lines(self) -> list[str]:
        return [self._series("", labels, value) for labels, value in sorted(self._values.items())]


class Gauge(Counter):
    kind = "gauge"

    def set(self, value: float, *labels: str) -> None:
        self._values[labels] = value

    def forget(self, *labels: str) -> None:
        """Remove the series of what is gone."""
        self._values.pop(labels, None)


class Histogram(Metric):
    kind = "histogram"

    def __init__(
        self, name: str, help: str, labels: Sequence[str] = (), *, buckets: Sequence[float]
    ) -> None:
        super().__init__(name, help, labels)
        self._bounds = tuple(buckets)
        self._counts: dict[Labels, list[int]] = {}
        self._sums: dict[Labels, float] = {}

    def observe(self, value: float, *labels: str) -> None:
        counts = self._counts.get(labels)
        if counts is None:
            counts = self._counts[labels] = [0] * (len(self._bounds) + 1)
            self._sums[labels] = 0.0
        counts[bisect.bisect_left(self._bounds, value)] += 1
        self._sums[labels] += value

    def count(self, *labels: str) -> int:
        return sum(self._counts.get(labels, ()))

    def lines(self) -> list[str]:
        made = []
        for labels, counts in sorted(self._counts.items()):
            total = 0
            for bound, count in zip((*self._bounds, float("inf")), counts, strict=True):
                total += count
                made.append(self._series("_bucket", labels, total, ("le", number(bound))))
            made.append(self._series("_sum", labels, self._sums[labels]))
            made.append(self._series("_count", labels, total))
        return made


_M = TypeVar("_M", bound=Metric)


class Registry:
    """All metrics of a process; `before` is called at each look, to set what nobody counts."""

    def __init__(self) -> None:
        self._metrics: dict[str, Metric] = {}
        self._before: dict[str, Callable[[], None]] = {}

    def counter(self, name: str, help: str, *labels: str) -> Counter:
        return self._keep(Counter(name, help, labels))

    def gauge(self, name: str, help: str, *labels: str) -> Gauge:
        return self._keep(Gauge(name, help, labels))

    def histogram(self, name: str, help: str, *labels: str, buckets: Sequence[float]) -> Histogram:
        return self._keep(Histogram(name, help, labels, buckets=buckets))

    def before(self, name: str, look: Callable[[], None]) -> None:
        """Register a hook; a later one under the same name replaces the earlier one."""
        self._before[name] = look

    def text(self) -> str:
        """Return the page that Prometheus reads."""
        for look in list(self._before.values()):
            look()
        made = []
        for name in sorted(self._metrics):
            metric = self._metrics[name]
            lines = metric.lines()
            if lines:
                made += [f"# HELP {name} {escaped(metric.help)}", f"# TYPE {name} {metric.kind}"]
                made += lines
        return "\n".join(made) + "\n"

    def _keep(self, metric: _M) -> _M:
        if metric.name in self._metrics:
            raise ValueError(f"two metrics of the name {metric.name}")
        self._metrics[metric.name] = metric
        return metric


def number(value: float) -> str:
    if value == float("inf"):
        return "+Inf"
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


PROCESS = Registry()
_STARTED = time.time()
_cpu = PROCESS.counter("process_cpu_seconds_total", "User and system CPU time spent in seconds.")
_resident = PROCESS.gauge("process_resident_memory_bytes", "Resident memory size in bytes.")
_virtual = PROCESS.gauge("process_virtual_memory_bytes", "Virtual memory size in bytes.")
_files = PROCESS.gauge("process_open_fds", "Number of open file descriptors.")
_max_files = PROCESS.gauge("process_max_fds", "Maximum number of open file descriptors.")
_start = PROCESS.gauge(
    "process_start_time_seconds", "Start time of the process since unix epoch in seconds."
)


def _look_at_process() -> None:
    with open("/proc/self/statm") as file:
        virtual, resident = file.read().split()[:2]
    _virtual.set(int(virtual) * _PAGE)
    _resident.set(int(resident) * _PAGE)
    _cpu.add(by=time.process_time() - _cpu.value())
    _files.set(len(os.listdir("/proc/self/fd")))
    _max_files.set(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    _start.set(_STARTED)


PROCESS.before("process", _look_at_process)
