"""Defaults of pods and pod templates."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from orlop.api import kinds
from orlop.api.defaults import apply_defaults, pods

Obj = dict[str, Any]


def defaulted(spec: Obj) -> Obj:
    pod = {"metadata": {"name": "p"}, "spec": copy.deepcopy(spec)}
    apply_defaults(kinds.POD, pod)
    result: Obj = pod["spec"]
    return result


def one(container: Obj, **spec: Any) -> Obj:
    """The container of a pod with just this one, after defaulting."""
    result = defaulted({"containers": [{"name": "c", "image": "i:1", **container}], **spec})
    found: Obj = result["containers"][0]
    return found


def test_a_minimal_pod_is_completed_as_upstream_does() -> None:
    assert defaulted({"containers": [{"name": "c", "image": "busybox"}]}) == {
        "containers": [
            {
                "name": "c",
                "image": "busybox",
                "imagePullPolicy": "Always",
                "resources": {},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
            }
        ],
        "dnsPolicy": "ClusterFirst",
        "enableServiceLinks": True,
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "terminationGracePeriodSeconds": 30,
    }


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("restartPolicy", "Never"),
        ("dnsPolicy", "Default"),
        ("schedulerName", "mine"),
        ("terminationGracePeriodSeconds", 0),
        ("securityContext", {"runAsUser": 1}),
        ("enableServiceLinks", False),
    ],
)
def test_what_is_said_stays(key: str, value: object) -> None:
    assert defaulted({"containers": [], key: value})[key] == value


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("busybox", "Always"),
        ("busybox:latest", "Always"),
        ("busybox:1.36", "IfNotPresent"),
        ("localhost:5000/busybox", "Always"),
        ("localhost:5000/busybox:1", "IfNotPresent"),
        ("r.example/a/b:latest", "Always"),
        ("busybox@sha256:" + "0" * 64, "IfNotPresent"),
        ("busybox:latest@sha256:" + "0" * 64, "Always"),
        ("", "Always"),
    ],
)
def test_the_pull_policy_follows_the_tag(image: str, policy: str) -> None:
    assert pods.pull_policy(image) == policy
    assert one({"image": image})["imagePullPolicy"] == policy


def test_requests_follow_limits_in_pods_only() -> None:
    resources = {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}
    assert one({"resources": resources})["resources"]["requests"] == {
        "cpu": "500m",
        "memory": "1Gi",
    }
    template = {"spec": {"containers": [{"name": "c", "resources": copy.deepcopy(resources)}]}}
    pods.template(template)
    assert template["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "500m"}
    assert "enableServiceLinks" not in template["spec"]


def test_requests_of_init_containers_follow_their_limits_too() -> None:
    spec = defaulted(
        {"containers": [], "initContainers": [{"name": "i", "resources": {"limits": {"cpu": "1"}}}]}
    )
    assert spec["initContainers"][0]["resources"]["requests"] == {"cpu": "1"}


def test_pod_level_requests_come_from_containers_then_from_limits() -> None:
    spec = defaulted(
        {
            "containers": [
                {"name": "a", "resources": {"requests": {"cpu": "200m"}}},
                {"name": "b", "resources": {"requests": {"cpu": "300m"}}},
            ],
            "resources": {"limits": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"}},
        }
    )
    assert spec["resources"]["requests"] == {"cpu": "500m", "memory": "1Gi"}


def test_pod_level_requests_count_the_largest_init_container() -> None:
    def asking(cpu: str) -> Obj:
        return {"name": cpu, "resources": {"requests": {"cpu": cpu}}}

    spec = defaulted(
        {
            "containers": [asking("200m")],
            "initContainers": [asking("700m"), asking("100m")],
            "resources": {"limits": {"cpu": "1"}},
        }
    )
    assert spec["resources"]["requests"] == {"cpu": "700m"}
    without_limits = {"containers": [asking("200m")], "resources": {"requests": {"cpu": "1"}}}
    assert defaulted(without_limits)["resources"] == {"requests": {"cpu": "1"}}


@pytest.mark.parametrize(
    ("inits", "expected"),
    [
        ([("side", "1", "Always")], "2"),
        ([("side", "1", "Always"), ("init", "3", None)], "4"),
        ([("init", "3", None), ("side", "1", "Always")], "3"),
    ],
)
def test_pod_level_requests_count_sidecars_beside_what_follows_them(inits, expected) -> None:
    spec = defaulted({
        "initContainers": [
            {"name": name, "resources": {"requests": {"cpu": cpu}}}
            | ({"restartPolicy": policy} if policy else {})
            for name, cpu, policy in inits
        ],
        "containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}}}],
        "resources": {"limits": {"cpu": "8"}},
    })  # fmt: skip
    assert spec["resources"]["requests"]["cpu"] == expected


def test_amounts_finer_than_a_thousandth_are_rounded_up() -> None:
    container = one({"resources": {"requests": {"cpu": "100u"}}})
    assert container["resources"]["requests"]["cpu"] == "1m"


def test_ports_are_tcp_and_with_the_hosts_network_the_hosts() -> None:
    assert one({"ports": [{"containerPort": 80}]})["ports"] == [
        {"containerPort": 80, "protocol": "TCP"}
    ]
    assert one({"ports": [{"containerPort": 80}]}, hostNetwork=True)["ports"] == [
        {"containerPort": 80, "hostPort": 80, "protocol": "TCP"}
    ]


@pytest.mark.parametrize("probe", ["livenessProbe", "readinessProbe", "startupProbe"])
def test_probes_have_their_numbers(probe: str) -> None:
    container = one({probe: {"httpGet": {"port": 80}, "failureThreshold": 5}})
    assert container[probe] == {
        "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"},
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 5,
    }


def test_grpc_probes_and_hooks() -> None:
    container = one(
        {
            "livenessProbe": {"grpc": {"port": 1}},
            "lifecycle": {"preStop": {"httpGet": {"port": 1}}, "stopSignal": "SIGTERM"},
        }
    )
    assert container["livenessProbe"]["grpc"] == {"port": 1, "service": ""}
    assert container["lifecycle"]["preStop"]["httpGet"]["scheme"] == "HTTP"


def test_references_to_fields_are_of_version_one() -> None:
    container = one({"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}]})
    assert container["env"][0]["valueFrom"]["fieldRef"] == {"fieldPath": "x", "apiVersion": "v1"}


@pytest.mark.parametrize(
    ("volume", "completed"),
    [
        ({}, {"emptyDir": {}}),
        ({"emptyDir": {"medium": "Memory"}}, {"emptyDir": {"medium": "Memory"}}),
        ({"secret": {"secretName": "s"}}, {"secret": {"secretName": "s", "defaultMode": 420}}),
        ({"configMap": {"name": "c"}}, {"configMap": {"name": "c", "defaultMode": 420}}),
        (
            {"configMap": {"name": "c", "defaultMode": 0}},
            {"configMap": {"name": "c", "defaultMode": 0}},
        ),
        ({"hostPath": {"path": "/x"}}, {"hostPath": {"path": "/x", "type": ""}}),
        (
            {"downwardAPI": {"items": [{"path": "p", "fieldRef": {"fieldPath": "f"}}]}},
            {
                "downwardAPI": {
                    "defaultMode": 420,
                    "items": [{"path": "p", "fieldRef": {"fieldPath": "f", "apiVersion": "v1"}}],
                }
            },
        ),
        (
            {"projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}},
            {
                "projected": {
                    "defaultMode": 420,
                    "sources": [
                        {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}}
                    ],
                }
            },
        ),
        (
            {"ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
            {"ephemeral": {"volumeClaimTemplate": {"spec": {"volumeMode": "Filesystem"}}}},
        ),
        (
            {"image": {"reference": "a:1"}},
            {"image": {"reference": "a:1", "pullPolicy": "IfNotPresent"}},
        ),
        (
            {"iscsi": {"targetPortal": "t"}},
            {"iscsi": {"targetPortal": "t", "iscsiInterface": "default"}},
        ),
        (
            {"rbd": {"image": "i"}},
            {"rbd": {"image": "i", "pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"}},
        ),
    ],
)
def test_volumes(volume: Obj, completed: Obj) -> None:
    spec = defaulted({"containers": [], "volumes": [{"name": "v", **volume}]})
    assert spec["volumes"] == [{"name": "v", **completed}]


@pytest.mark.parametrize("key", ["serviceAccount", "serviceAccountName"])
def test_the_service_account_goes_by_both_its_names(key: str) -> None:
    spec = defaulted({"containers": [], key: "robot"})
    assert spec["serviceAccountName"] == spec["serviceAccount"] == "robot"


def test_defaulting_twice_changes_nothing_more() -> None:
    pod: Obj = {
        "spec": {
            "containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}}}],
            "volumes": [{"name": "v"}],
        }
    }
    apply_defaults(kinds.POD, pod)
    once = copy.deepcopy(pod)
    apply_defaults(kinds.POD, pod)
    assert pod == once


def test_ephemeral_containers_are_completed_like_the_others() -> None:
    spec = defaulted({"containers": [], "ephemeralContainers": [{"name": "e", "image": "x:1"}]})
    assert spec["ephemeralContainers"][0]["imagePullPolicy"] == "IfNotPresent"
