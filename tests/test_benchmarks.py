from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

import benchmarks
from benchmarks import apiserver, burst, network
from benchmarks.__main__ import ALONE, BENCHMARKS, main
from benchmarks.table import Samples, quantile

MS = 0.001
SAMPLES = Samples(
    "Start",
    {"by hand": [100 * MS, 110 * MS, 300 * MS], "ours": [150 * MS, 160 * MS, 165 * MS]},
    {"ours": "by hand"},
    "Aim: fast.",
)


def test_medians_are_compared_with_the_plain_tools():
    assert SAMPLES.rows() == [
        ("by hand", "3", "110 ms", "100 ms", "300 ms", "", ""),
        ("ours", "3", "160 ms", "150 ms", "165 ms", "+50 ms", "1.45"),
    ]


def test_the_table_is_aligned_and_says_its_aim():
    lines = str(SAMPLES).splitlines()
    assert lines[0] == "Start"
    assert len({len(line) for line in lines[2:5]}) == 1
    assert lines[-1] == "Aim: fast."


def test_quantiles_of_few_samples_are_samples():
    assert quantile([3.0, 1.0, 2.0], 0.1) == 1.0
    assert quantile([3.0, 1.0, 2.0], 0.9) == 3.0
    assert quantile([5.0], 0.9) == 5.0


def test_an_unknown_benchmark_is_named(capsys):
    assert main(["nonsense"]) == 2
    said = capsys.readouterr().out
    assert [name for name in ("nonsense", *ALONE, *BENCHMARKS) if name not in said] == []


def test_a_small_run_over_the_api_server_measures_everything():
    size = apiserver.Size(
        pods=30, config_maps=30, gets=50, patches=20, lists=1, events=5, watchers=10, recovered=40
    )
    (report,) = apiserver.measure(size)
    assert len(report.lines) == 15
    assert all(line.value > 0 for line in report.lines.values())
    assert "POST Pod" in str(report)


def test_a_peer_stands_beside_ours_with_a_ratio_that_is_higher_where_ours_is_better():
    ours = {"GET": apiserver.Line("GET", 300, "/s"), "LIST": apiserver.Line("LIST", 0.5, " s")}
    peer = {"GET": apiserver.Line("GET", 100, "/s"), "LIST": apiserver.Line("LIST", 1.0, " s")}
    text = str(apiserver.Report("Both", ours, peer)).splitlines()
    assert [line.split()[-1] for line in text[3:]] == ["3.0x", "2.0x"]


@pytest.mark.parametrize("driver", ["pod_start_driver.py", "mpi_driver.py", "burst_driver.py"])
def test_the_driver_needs_nothing_but_the_standard_library(driver):
    """It is sent to a Python that has nothing else."""
    tree = ast.parse((Path(benchmarks.__path__[0]) / driver).read_text())
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import)]
    froms = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    names = {alias.name for node in imports for alias in node.names}
    names |= {node.module or "." for node in froms}
    assert {name.partition(".")[0] for name in names} <= set(sys.stdlib_module_names)


def test_a_burst_is_told_in_rates_beside_the_arrays():
    array, pods = burst.Way(0.1, 10.0, 2.0), burst.Way(0.5, 20.0, 10.0, 0.9, 0.4)
    rates = burst.Rates(100, {"one array": array, "pods of a Job": pods}, load=1.5)
    assert rates.rows() == [
        ("one array", "1000/s", "10.0/s", "1.00", "20.0 ms", "-", "-"),
        ("pods of a Job", "200/s", "5.0/s", "0.50", "100.0 ms", "9.0 ms", "4.0 ms"),
    ]
    assert str(rates).startswith("A burst of 100 jobs of one second, begun at a load of 1.5")


def test_rates_are_parts_of_the_hosts_and_short_round_trips_are_good():
    host = {name: [2.0, 4.0] for name in network.MEASURES}
    ours = {name: [1.5] for name in network.MEASURES}
    (_, first), (way, second) = [
        (row[0], row[1:]) for row in network.Rates("N", {"host": host, "pod": ours}).rows()
    ]
    assert way == "pod"
    assert all(cell.endswith("(1.00)") for cell in first)
    parts = dict(zip(network.MEASURES, second, strict=True))
    assert parts.pop("round trip").endswith("(2.00)")
    assert all(cell.endswith("(0.50)") for cell in parts.values())
