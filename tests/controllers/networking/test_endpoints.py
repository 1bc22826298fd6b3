"""The Endpoints object of a Service, from its pods."""

from __future__ import annotations

import pytest

from orlop.controllers.networking.endpoints import LARGEST, OVER_CAPACITY, endpoints_of


def service(**spec) -> dict:
    return {
        "metadata": {"name": "web", "namespace": "ns", "labels": {"team": "a"}},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}], **spec},
    }


def a_pod(name: str, ip: str = "10.0.0.1", *, ready=True, deleting=False, phase="Running", **spec):
    metadata = {"name": name, "namespace": "ns", "uid": name}
    if deleting:
        metadata["deletionTimestamp"] = "now"
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    status = {"phase": phase, "podIP": ip, "conditions": [condition]}
    return {"metadata": metadata, "spec": {"nodeName": "n1", **spec}, "status": status}


def subsets(made: dict, *pods: dict) -> list[dict]:
    return endpoints_of(made, pods)["subsets"]


def names(subset: dict, field: str = "addresses") -> list[str]:
    return [one["targetRef"]["name"] for one in subset.get(field, [])]


def test_ready_and_unready_pods_are_told_apart():
    (subset,) = subsets(service(), a_pod("a"), a_pod("b", "10.0.0.2", ready=False))
    assert names(subset) == ["a"]
    assert names(subset, "notReadyAddresses") == ["b"]
    assert subset["ports"] == [{"port": 80, "protocol": "TCP"}]
    assert subset["addresses"][0] == {
        "ip": "10.0.0.1",
        "nodeName": "n1",
        "targetRef": {"kind": "Pod", "namespace": "ns", "name": "a", "uid": "a"},
    }


@pytest.mark.parametrize(
    ("pod", "spec", "field"),
    [
        (a_pod("a", deleting=True), {}, None),
        (a_pod("a", deleting=True), {"publishNotReadyAddresses": True}, "addresses"),
        (a_pod("a", ready=False), {"publishNotReadyAddresses": True}, "addresses"),
        (a_pod("a", phase="Succeeded"), {"publishNotReadyAddresses": True}, None),
        (a_pod("a", ip=""), {}, None),
        (a_pod("a", ip="fd00::1"), {}, None),
        (a_pod("a", ip="fd00::1"), {"ipFamilies": ["IPv6"]}, "addresses"),
    ],
    ids=["going", "going but wanted", "not ready but wanted", "ended", "no address",
         "another family", "its family"],
)  # fmt: skip
def test_who_belongs(pod, spec, field):
    found = subsets(service(**spec), pod)
    assert [key for one in found for key in one if key != "ports"] == ([field] if field else [])


def test_pods_with_other_ports_are_another_subset():
    ports = [{"name": "http", "containerPort": 9000}]
    named = a_pod("b", "10.0.0.2", containers=[{"ports": ports}])
    other = a_pod("c", "10.0.0.3", containers=[{"ports": [{**ports[0], "containerPort": 9001}]}])
    found = subsets(service(ports=[{"port": 80, "targetPort": "http"}]), named, other, a_pod("a"))
    assert {one["ports"][0]["port"]: names(one) for one in found} == {9000: ["b"], 9001: ["c"]}


def test_a_headless_service_needs_no_ports():
    (subset,) = subsets(service(clusterIP="None", ports=None), a_pod("a"))
    assert "ports" not in subset
    assert names(subset) == ["a"]


def test_addresses_are_in_order_and_labels_are_the_services_own_and_ours():
    pods = [a_pod(f"p{n}", f"10.0.0.{n}") for n in (3, 1, 2)]
    made = endpoints_of(service(clusterIP="None"), pods)
    assert [one["ip"] for one in made["subsets"][0]["addresses"]] == [
        "10.0.0.1",
        "10.0.0.2",
        "10.0.0.3",
    ]
    assert made["metadata"]["labels"] == {
        "team": "a",
        "endpoints.kubernetes.io/managed-by": "endpoint-controller",
        "service.kubernetes.io/headless": "",
    }


def test_beyond_a_thousand_the_unready_are_left_out_first_and_it_is_said():
    pods = [
        a_pod(f"p{n}", f"10.0.{n // 250}.{n % 250}", ready=n % 2 == 0) for n in range(LARGEST + 200)
    ]
    made = endpoints_of(service(), pods)
    (subset,) = made["subsets"]
    assert len(subset["addresses"]) == 600
    assert len(subset["notReadyAddresses"]) == 400
    assert made["metadata"]["annotations"] == {OVER_CAPACITY: "truncated"}
