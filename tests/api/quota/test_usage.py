"""What objects use of a quota."""

from __future__ import annotations

import pytest

from orlop.api.kinds import (
    CONFIG_MAP,
    DEPLOYMENT,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    SERVICE,
    Kind,
)
from orlop.api.quota import charged_on_update, constraint, resources_of, usage

NOW = 1_800_000_000.0
WIDGET = Kind("example.com", "v1", "Widget", "widgets", True)
RESOURCES = {
    "requests": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "2", "hugepages-2Mi": "4Mi"},
    "limits": {"cpu": "2", "nvidia.com/gpu": "2"},
}
POD_OBJECT = {"spec": {"containers": [{"name": "c", "resources": RESOURCES}]}}


def shown(kind: Kind, obj: dict) -> dict[str, str]:
    return {name: str(amount) for name, amount in usage(kind, obj, NOW).items()}


def test_a_pod_uses_what_it_asks_for() -> None:
    assert shown(POD, POD_OBJECT) == {
        "count/pods": "1",
        "pods": "1",
        "cpu": "1",
        "requests.cpu": "1",
        "limits.cpu": "2",
        "memory": "1Gi",
        "requests.memory": "1Gi",
        "requests.nvidia.com/gpu": "2",
        "hugepages-2Mi": "4Mi",
        "requests.hugepages-2Mi": "4Mi",
    }


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_is_only_counted(phase) -> None:
    assert shown(POD, {**POD_OBJECT, "status": {"phase": phase}}) == {"count/pods": "1"}


@pytest.mark.parametrize(("seconds", "expected"), [(-100, False), (-1, True), (60, True)])
def test_a_pod_that_should_be_gone_is_only_counted(seconds, expected) -> None:
    from orlop.api.times import rfc3339

    metadata = {"deletionTimestamp": rfc3339(NOW + seconds), "deletionGracePeriodSeconds": 30}
    assert ("pods" in usage(POD, {**POD_OBJECT, "metadata": metadata}, NOW)) is expected


@pytest.mark.parametrize(
    ("spec", "more"),
    [
        ({"type": "ClusterIP", "ports": [{"port": 1}]}, {}),
        ({"type": "NodePort", "ports": [{"port": 1}, {"port": 2}]}, {"services.nodeports": "2"}),
        (
            {"type": "LoadBalancer", "ports": [{"port": 1}]},
            {"services.nodeports": "1", "services.loadbalancers": "1"},
        ),
        (
            {
                "type": "LoadBalancer",
                "allocateLoadBalancerNodePorts": False,
                "ports": [{"port": 1}, {"port": 2, "nodePort": 30000}],
            },
            {"services.nodeports": "1", "services.loadbalancers": "1"},
        ),
    ],
)
def test_a_service_uses_node_ports_and_load_balancers(spec, more) -> None:
    assert shown(SERVICE, {"spec": spec}) == {"count/services": "1", "services": "1", **more}


def test_a_claim_uses_storage_in_all_and_of_its_class() -> None:
    claim = {"spec": {"storageClassName": "home", "resources": {"requests": {"storage": "5Gi"}}}}
    assert shown(PERSISTENT_VOLUME_CLAIM, claim) == {
        "count/persistentvolumeclaims": "1",
        "persistentvolumeclaims": "1",
        "requests.storage": "5Gi",
        "home.storageclass.storage.k8s.io/requests.storage": "5Gi",
        "home.storageclass.storage.k8s.io/persistentvolumeclaims": "1",
    }


def test_anything_else_is_counted_custom_kinds_too() -> None:
    assert shown(CONFIG_MAP, {}) == {"count/configmaps": "1", "configmaps": "1"}
    assert shown(DEPLOYMENT, {}) == {"count/deployments.apps": "1"}
    assert shown(WIDGET, {}) == {"count/widgets.example.com": "1"}


NAMES = ["pods", "cpu", "limits.memory", "requests.nvidia.com/gpu", "requests.storage", "services",
         "count/pods", "services.nodeports", "count/widgets.example.com", "configmaps",
         "gold.storageclass.storage.k8s.io/requests.storage", "requests.hugepages-2Mi",
         "ephemeral-storage"]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (POD, {"pods", "cpu", "limits.memory", "requests.nvidia.com/gpu", "count/pods",
               "requests.hugepages-2Mi", "ephemeral-storage"}),
        (SERVICE, {"services", "services.nodeports"}),
        (PERSISTENT_VOLUME_CLAIM,
         {"requests.storage", "gold.storageclass.storage.k8s.io/requests.storage"}),
        (WIDGET, {"count/widgets.example.com"}),
        (CONFIG_MAP, {"configmaps"}),
        (DEPLOYMENT, set()),
    ],
)  # fmt: skip
def test_which_resources_are_whose(kind, expected) -> None:
    assert set(resources_of(kind, NAMES)) == expected


def test_a_limited_pod_must_say_what_it_wants() -> None:
    spec = {
        "containers": [{"name": "b"}, {"name": "a", "resources": {"requests": {"cpu": "1"}}}],
        "initContainers": [{"name": "i"}],
    }
    said = constraint(POD, {"spec": spec}, ["cpu", "limits.memory", "pods", "requests.storage"])
    assert said == "must specify cpu for: b,i; limits.memory for: a,b,i"
    assert constraint(POD, {"spec": spec}, ["pods"]) == ""
    assert constraint(SERVICE, {}, ["services"]) == ""


def test_only_services_and_claims_grow() -> None:
    assert charged_on_update(SERVICE)
    assert charged_on_update(PERSISTENT_VOLUME_CLAIM)
    assert not charged_on_update(POD)
