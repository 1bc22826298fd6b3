"""The text that Prometheus reads."""

from __future__ import annotations

import os
import re

import pytest

from orlop.metrics import PROCESS, Registry


def test_counters_and_gauges_have_a_line_per_combination_of_labels():
    registry = Registry()
    total = registry.counter("requests_total", "All requests.", "verb", "code")
    total.add("GET", "200")
    total.add("GET", "200")
    total.add("GET", "404", by=0.5)
    registry.gauge("depth", "How deep.").set(3)
    assert registry.text() == (
        "# HELP depth How deep.\n"
        "# TYPE depth gauge\n"
        "depth 3\n"
        "# HELP requests_total All requests.\n"
        "# TYPE requests_total counter\n"
        'requests_total{verb="GET",code="200"} 2\n'
        'requests_total{verb="GET",code="404"} 0.5\n'
    )
    assert total.value("GET", "200") == 2


def test_a_histogram_counts_up_to_each_bound():
    registry = Registry()
    seconds = registry.histogram("seconds", "Time.", "verb", buckets=(0.1, 1))
    for value in (0.05, 0.1, 0.5, 7):
        seconds.observe(value, "GET")
    assert registry.text().splitlines()[2:] == [
        'seconds_bucket{verb="GET",le="0.1"} 2',
        'seconds_bucket{verb="GET",le="1"} 3',
        'seconds_bucket{verb="GET",le="+Inf"} 4',
        'seconds_sum{verb="GET"} 7.65',
        'seconds_count{verb="GET"} 4',
    ]
    assert seconds.count("GET") == 4


def test_what_nobody_counted_is_not_shown():
    registry = Registry()
    registry.counter("a_total", "A.")
    assert registry.text() == "\n"


def test_values_of_labels_are_escaped():
    registry = Registry()
    registry.counter("a_total", "A.", "x").add('q"b\\n\n')
    assert 'a_total{x="q\\"b\\\\n\\n"} 1' in registry.text()


def test_two_metrics_have_two_names():
    registry = Registry()
    registry.counter("a_total", "A.")
    with pytest.raises(ValueError, match="a_total"):
        registry.gauge("a_total", "A.")


def test_what_is_looked_at_is_looked_at_each_time_by_the_last_who_came():
    registry = Registry()
    gauge = registry.gauge("a", "A.")
    registry.before("me", lambda: gauge.add(by=100))
    registry.before("me", lambda: gauge.add())
    registry.text()
    assert "\na 2\n" in registry.text()


def test_the_process_itself_is_measured():
    text = PROCESS.text()
    values = dict(re.findall(r"(?m)^(process_\w+) (\S+)$", text))
    assert float(values["process_resident_memory_bytes"]) > 10e6
    assert float(values["process_virtual_memory_bytes"]) > float(
        values["process_resident_memory_bytes"]
    )
    assert 0 < float(values["process_cpu_seconds_total"]) < 1e6
    assert int(values["process_open_fds"]) <= int(values["process_max_fds"])
    assert float(values["process_start_time_seconds"]) > 1.7e9
    with open(os.devnull):
        assert int(re.findall(r"(?m)^process_open_fds (\d+)$", PROCESS.text())[0]) > 0
