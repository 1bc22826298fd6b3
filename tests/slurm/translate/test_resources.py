"""What a pod asks for in all, against upstream's rules and examples."""

from __future__ import annotations

import pytest

from orlop.errors import ConfigError
from orlop.slurm.translate.resources import Demand, demand

from ..pods import container, pod


def asks(**amounts: str) -> dict[str, str]:
    return {name.replace("gpu", "nvidia.com/gpu"): text for name, text in amounts.items()}


@pytest.mark.parametrize(
    ("cpu", "cpus"),
    [("1", 1), ("100m", 1), ("1001m", 2), ("1.5", 2), ("2e0", 2), ("0", 0), ("250u", 1)],
)
def test_cpus_are_whole_and_never_too_few(cpu, cpus):
    assert demand(pod(container({"cpu": cpu}))).cpus == cpus


@pytest.mark.parametrize(
    ("memory", "mib"),
    [("1Mi", 1), ("1Gi", 1024), ("1G", 954), ("1", 1), ("1500Ki", 2), ("0", 0), ("128974848", 123)],
)
def test_memory_is_in_mib_rounded_up(memory, mib):
    assert demand(pod(container({"memory": memory}))).memory_mib == mib


def test_a_pod_that_asks_for_nothing_demands_nothing():
    assert demand(pod(container(), {"name": "bare"})) == Demand()


def test_containers_add_up_before_they_are_rounded():
    two = pod(container({"cpu": "250m", "memory": "512Ki"}), container({"cpu": "250m"}))
    assert demand(two) == Demand(cpus=1, memory_mib=1)


def test_limits_count_where_there_is_no_request():
    limited = {"name": "x", "resources": {"limits": {"cpu": "2", "memory": "1Gi"}}}
    both = {"name": "y", "resources": {"limits": {"cpu": "4"}, "requests": {"cpu": "1"}}}
    assert demand(pod(limited, both)) == Demand(cpus=3, memory_mib=1024)


def test_the_largest_init_container_counts_if_it_is_larger_than_all_containers():
    inits = [container({"cpu": "1", "memory": "2Gi"}), container({"cpu": "5"})]
    found = demand(pod(container({"cpu": "2", "memory": "1Gi"}), initContainers=inits))
    assert found == Demand(cpus=5, memory_mib=2048)


def test_sidecars_count_beside_containers_and_beside_later_init_containers():
    sidecar = container({"cpu": "1"}, restartPolicy="Always")
    init = container({"cpu": "3"})
    assert demand(pod(container({"cpu": "1"}), initContainers=[sidecar, init])).cpus == 4
    assert demand(pod(container({"cpu": "1"}), initContainers=[init, sidecar])).cpus == 3
    assert demand(pod(container({"cpu": "2"}), initContainers=[sidecar])).cpus == 3


def test_overhead_is_added():
    found = demand(pod(container({"cpu": "1"}), overhead={"cpu": "500m", "memory": "64Mi"}))
    assert found == Demand(cpus=2, memory_mib=64)


def test_resources_of_the_whole_pod_replace_the_sum():
    whole = {"requests": {"cpu": "8"}}
    found = demand(pod(container({"cpu": "1", "memory": "1Gi"}), resources=whole))
    assert found == Demand(cpus=8, memory_mib=1024)


def test_gpus_of_both_makers_are_gpus():
    nvidia = container({"nvidia.com/gpu": "2"})
    amd = {"name": "amd", "resources": {"limits": {"amd.com/gpu": 1}}}
    assert demand(pod(nvidia, amd)).gpus == 3


def test_a_quantity_that_is_none_is_told_with_its_resource():
    with pytest.raises(ConfigError, match="memory"):
        demand(pod(container({"memory": "lots"})))
