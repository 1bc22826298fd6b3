"""Why a pod cannot run on a node, in words that help."""

from __future__ import annotations

import pytest

from orlop.scheduler.filters import explain, refusal, wish_of
from tests.scheduler.nodes import a_node, a_pod

PARTITION = "slurm.orlop.dev/partition"


def why(pod: dict, node: dict) -> str:
    return refusal(wish_of(pod), node)


@pytest.mark.parametrize(
    ("pod", "node", "reason"),
    [
        (a_pod(), a_node("n"), ""),
        (a_pod(), a_node("n", unschedulable=True), "node(s) were unschedulable"),
        (a_pod(tolerations=[{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]),
         a_node("n", unschedulable=True), ""),
        (a_pod(), a_node("n", taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}]),
         "node(s) had untolerated taint {k: v}"),
        (a_pod(), a_node("n", taints=[{"key": "k", "effect": "NoExecute"}]),
         "node(s) had untolerated taint {k: }"),
        (a_pod(nodeSelector={"a": "b"}), a_node("n"),
         "node(s) didn't match Pod's node affinity/selector"),
        (a_pod(), a_node("n", ready="False"), "node(s) were not ready"),
        (a_pod(), a_node("n", ready="Unknown"), "node(s) were not ready"),
        (a_pod(requests={"cpu": "65"}), a_node("n"), "Insufficient cpu"),
        (a_pod(requests={"cpu": "64"}), a_node("n"), ""),
        (a_pod(limits={"cpu": "65"}), a_node("n"), "Insufficient cpu"),
        (a_pod(requests={"memory": "257Gi"}), a_node("n"), "Insufficient memory"),
        (a_pod(limits={"nvidia.com/gpu": "1"}), a_node("n"), "Insufficient nvidia.com/gpu"),
        (a_pod(limits={"nvidia.com/gpu": "4"}), a_node("n", gpus=4), ""),
        (a_pod(requests={"cpu": "33"}), a_node("n", host=(32, 64000)),
         "Insufficient cpu on the largest host"),
        (a_pod(requests={"memory": "100Gi"}), a_node("n", host=(32, 64000)),
         "Insufficient memory on the largest host"),
        (a_pod(requests={"cpu": "33"}, annotations={"slurm.orlop.dev/flags": "--cpus-per-task=2"}),
         a_node("n", host=(32, 64000)), ""),
    ],
    ids=["fits", "cordoned", "cordon tolerated", "taint", "taint without value", "selector",
         "not ready", "unknown", "too many cpus", "just enough", "limits count", "memory",
         "no gpus", "gpus", "largest host", "largest host's memory", "flags speak for themselves"],
)  # fmt: skip
def test_the_first_reason_against_a_node(pod, node, reason):
    assert why(pod, node) == reason


@pytest.mark.parametrize(
    ("annotations", "fits"),
    [
        ({PARTITION: "gpu"}, True),
        ({PARTITION: "debug"}, False),
        ({PARTITION: "debug,gpu"}, True),
        ({"slurm.orlop.dev/flags": "--partition=gpu"}, True),
        ({"slurm.orlop.dev/flags": "-p debug -N2"}, False),
        ({"slurm-job.hpk.io/flags": "-pdebug"}, False),
        ({"slurm-job.hpk.io/flags": "--partition gpu"}, True),
        ({"slurmjob.slinky.slurm.net/partition": "debug"}, False),
        ({PARTITION: "gpu", "slurm.orlop.dev/flags": "-p debug"}, True),
        ({"slurm.orlop.dev/flags": "--wrap=x"}, True),
    ],
    ids=["its own", "another", "one of two", "flags", "short flags", "alias", "alias long",
         "bridge", "the option beats the flags", "what cannot be read is the kubelet's to refuse"],
)  # fmt: skip
def test_a_pod_may_name_its_partition(annotations, fits):
    assert (why(a_pod(annotations=annotations), a_node("gpu")) == "") is fits


def test_the_partition_is_the_label_not_the_nodes_name():
    node = a_node("gpu-big", partition="GPU_big")
    assert why(a_pod(annotations={PARTITION: "GPU_big"}), node) == ""
    assert "partition" in why(a_pod(annotations={PARTITION: "gpu-big"}), node)


def test_a_host_without_partitions_takes_pods_written_for_a_cluster():
    node = a_node("laptop", partition=None, labels={"orlop.dev/engine": "local"})
    assert why(a_pod(annotations={PARTITION: "gpu"}), node) == ""
    other = a_node("worker", partition=None)
    assert why(a_pod(annotations={PARTITION: "gpu"}), other) != ""


def test_a_node_that_somebody_made_by_hand_may_lack_everything():
    bare = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "bare"}}
    assert why(a_pod(), bare) == ""
    assert why(a_pod(nodeSelector={"a": "b"}), bare) != ""


def told(pod: dict, *nodes: dict) -> str:
    wish = wish_of(pod)
    return explain(wish, nodes, [refusal(wish, node) for node in nodes])


def test_the_reasons_are_counted_as_upstream_does():
    nodes = [a_node("a", unschedulable=True), a_node("b"), a_node("c")]
    assert told(a_pod(nodeSelector={"x": "y"}), *nodes) == (
        "0/3 nodes are available: 1 node(s) were unschedulable, "
        "2 node(s) didn't match Pod's node affinity/selector."
    )


def test_no_nodes_at_all():
    assert told(a_pod()) == "no nodes available to schedule pods"


def test_a_partition_that_does_not_exist_names_those_that_do():
    message = told(a_pod(annotations={PARTITION: "gpuu"}), a_node("gpu"), a_node("debug"))
    assert message == (
        "0/2 nodes are available: 2 node(s) didn't match the partition gpuu. "
        "There is no partition gpuu; the partitions here are: debug, gpu."
    )


def test_a_partition_that_exists_is_not_listed():
    pod = a_pod(annotations={PARTITION: "gpu"}, requests={"cpu": "100"})
    assert "There is no partition" not in told(pod, a_node("gpu"), a_node("debug"))


def test_what_no_host_can_hold_names_the_largest():
    message = told(a_pod(requests={"cpu": "40"}), a_node("debug", host=(32, 64000)))
    assert message == (
        "0/1 nodes are available: 1 Insufficient cpu on the largest host. "
        "The largest hosts: debug 32 CPUs and 64000Mi."
    )


@pytest.mark.parametrize(
    "taint", ["slurm.orlop.dev/closed", "node.kubernetes.io/not-ready"], ids=["closed", "not ready"]
)
def test_a_closed_partition_speaks_for_itself(taint):
    node = a_node("debug", taints=[{"key": taint, "effect": "NoSchedule"}])
    node["status"]["conditions"][0]["message"] = "partition debug is down: no job starts there"
    assert told(a_pod(), node) == (
        f"0/1 nodes are available: 1 node(s) had untolerated taint {{{taint}: }}. "
        "debug: partition debug is down: no job starts there."
    )


def test_of_many_closed_partitions_only_some_speak():
    nodes = [a_node(f"n{number}", ready="False") for number in range(20)]
    for node in nodes:
        node["status"]["conditions"][0]["message"] = "down"
    assert told(a_pod(), *nodes).count("down.") == 5


@pytest.mark.parametrize(
    "resource",
    ["nvidia.com/gpu-h100", "slurm.orlop.dev/license-ansys", "hugepages-2Mi", "example.com/thing"],
)
def test_what_no_partition_has_is_told_at_once_and_nothing_else_with_it(resource):
    node = a_node("main")
    ready = {"type": "Ready", "status": "True", "message": "the kubelet takes pods for this node"}
    node["status"]["conditions"] = [ready]
    message = told(a_pod(limits={resource: "1"}), node)
    assert message == f"0/1 nodes are available: 1 Insufficient {resource}."
    node["status"]["allocatable"] = {**node["status"]["allocatable"], resource: "1"}
    assert why(a_pod(limits={resource: "1"}), node) == ""


def test_a_pod_without_a_partition_goes_to_that_of_its_namespace():
    plain, named = a_pod(), a_pod(annotations={PARTITION: "gpu"})
    assert refusal(wish_of(plain, "gpu"), a_node("gpu")) == ""
    assert "partition gpu" in refusal(wish_of(plain, "gpu"), a_node("main"))
    assert refusal(wish_of(named, "main"), a_node("gpu")) == ""
