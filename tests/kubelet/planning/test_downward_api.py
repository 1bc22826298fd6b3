"""The downward API tells a pod of itself."""

from __future__ import annotations

import pytest

from orlop.kubelet.planning.downward_api import field_value, resource_value, with_addresses
from orlop.kubelet.planning.refusal import Refusal

from ..objects import NODE, UID, a_container, a_pod

POD = a_pod(
    a_container(
        resources={
            "limits": {"cpu": "1500m", "memory": "100Mi"},
            "requests": {"cpu": "250m", "memory": "64Mi", "ephemeral-storage": "1Gi"},
        }
    ),
    a_container("plain"),
    serviceAccountName="robot",
    metadata={
        "labels": {"app": "web", "tier": "a"},
        "annotations": {"note": 'say "hi"\nthere', "a/b": "\x01"},
    },
)
MAIN, PLAIN = POD["spec"]["containers"]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("metadata.name", "web"),
        ("metadata.namespace", "default"),
        ("metadata.uid", UID),
        ("metadata.labels['app']", "web"),
        ("metadata.labels['none']", ""),
        ("metadata.annotations['note']", 'say "hi"\nthere'),
        ("metadata.labels", 'app="web"\ntier="a"'),
        ("metadata.annotations", 'a/b="\\x01"\nnote="say \\"hi\\"\\nthere"'),
        ("spec.nodeName", "main"),
        ("spec.serviceAccountName", "robot"),
    ],
)
def test_a_field_is_told(path, expected):
    assert field_value(POD, path) == expected


def test_a_backslash_before_a_u_is_not_taken_for_an_escape():
    pod = a_pod(metadata={"labels": {"a": "\\u0001"}})
    assert field_value(pod, "metadata.labels") == 'a="\\\\u0001"'


def test_a_field_that_cannot_be_told_is_refused():
    with pytest.raises(Refusal, match="not supported"):
        field_value(POD, "spec.containers")


@pytest.mark.parametrize(
    ("path", "own", "of_node"),
    [
        ("status.podIP", "10.244.0.7", "\0hostIP\0"),
        ("status.podIPs", "10.244.0.7", "\0hostIPs\0"),
        ("status.hostIP", "\0hostIP\0", "\0hostIP\0"),
        ("status.hostIPs", "\0hostIPs\0", "\0hostIPs\0"),
    ],
)
def test_an_address_is_the_pods_own_or_a_mark_for_the_nodes(path, own, of_node):
    assert field_value(with_addresses(POD, "10.244.0.7"), path) == own
    assert field_value(with_addresses(POD, ""), path) == of_node


@pytest.mark.parametrize(
    ("container", "reference", "expected"),
    [
        (MAIN, {"resource": "limits.cpu"}, "2"),
        (MAIN, {"resource": "limits.cpu", "divisor": "1m"}, "1500"),
        (MAIN, {"resource": "limits.memory"}, str(100 << 20)),
        (MAIN, {"resource": "limits.memory", "divisor": "1Mi"}, "100"),
        (MAIN, {"resource": "requests.memory", "divisor": "1Gi"}, "1"),
        (MAIN, {"resource": "requests.cpu", "divisor": "0"}, "1"),
        (MAIN, {"resource": "requests.ephemeral-storage", "divisor": "1Mi"}, "1024"),
        (PLAIN, {"resource": "limits.cpu"}, "64"),
        (PLAIN, {"resource": "limits.memory", "divisor": "1Gi"}, "256"),
        (PLAIN, {"resource": "requests.cpu"}, "0"),
        (PLAIN, {"resource": "limits.cpu", "containerName": "main"}, "2"),
    ],
)
def test_resources_are_told_in_whole_divisors_rounded_up(container, reference, expected):
    assert resource_value(POD, container, reference, NODE) == expected


@pytest.mark.parametrize(
    "reference",
    [{"resource": "cpu"}, {"resource": "limits.cpu", "containerName": "nobody"}],
    ids=["no limits or requests", "no such container"],
)
def test_a_resource_that_is_none_is_refused(reference):
    with pytest.raises(Refusal):
        resource_value(POD, MAIN, reference, NODE)
