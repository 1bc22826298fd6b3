"""What kubectl prints of every other kind, row by row."""

from __future__ import annotations

from typing import Any

import pytest

from orlop.api import kinds, tables, times
from orlop.api.kinds import Kind

Obj = dict[str, Any]
NOW = times.parse("2026-01-02T12:00:00Z")
META = {"name": "x", "creationTimestamp": "2026-01-02T11:00:00Z"}
TEMPLATE = {"spec": {"containers": [{"name": "a", "image": "i"}, {"name": "b", "image": "j"}]}}
SELECTOR = {"matchLabels": {"b": "2", "a": "1"}}
TRUE = {"status": "True"}

ROWS: list[tuple[str, Kind, Obj, list[Any]]] = [
    (
        "deployment",
        kinds.DEPLOYMENT,
        {
            "spec": {"replicas": 3, "template": TEMPLATE, "selector": SELECTOR},
            "status": {"readyReplicas": 1, "updatedReplicas": 2, "availableReplicas": 1},
        },
        ["x", "1/3", 2, 1, "60m", "a,b", "i,j", "a=1,b=2"],
    ),
    (
        "replica set",
        kinds.REPLICA_SET,
        {"spec": {"replicas": 3, "template": TEMPLATE, "selector": SELECTOR}},
        ["x", 3, 0, 0, "60m", "a,b", "i,j", "a=1,b=2"],
    ),
    (
        "replication controller",
        kinds.REPLICATION_CONTROLLER,
        {"kind": "ReplicationController", "spec": {"replicas": 1, "selector": {"a": "1"}}},
        ["x", 1, 0, 0, "60m", "", "", "a=1"],
    ),
    (
        "stateful set",
        kinds.STATEFUL_SET,
        {"spec": {"replicas": 2, "template": TEMPLATE}, "status": {"readyReplicas": 2}},
        ["x", "2/2", "60m", "a,b", "i,j"],
    ),
    (
        "daemon set",
        kinds.DAEMON_SET,
        {
            "spec": {"template": {"spec": {"nodeSelector": {"a": "b"}}}, "selector": SELECTOR},
            "status": {"desiredNumberScheduled": 4, "numberReady": 3},
        },
        ["x", 4, 0, 3, 0, 0, "a=b", "60m", "", "", "a=1,b=2"],
    ),
    (
        "job that runs",
        kinds.JOB,
        {
            "spec": {"completions": 5, "template": TEMPLATE, "selector": SELECTOR},
            "status": {"succeeded": 2, "startTime": "2026-01-02T11:58:00Z"},
        },
        ["x", "Running", "2/5", "2m", "60m", "a,b", "i,j", "a=1,b=2"],
    ),
    (
        "job that is done",
        kinds.JOB,
        {
            "spec": {"completions": 1},
            "status": {
                "succeeded": 1,
                "startTime": "2026-01-02T11:00:00Z",
                "completionTime": "2026-01-02T11:00:09Z",
                "conditions": [{"type": "Complete", **TRUE}],
            },
        },
        ["x", "Complete", "1/1", "9s", "60m", "", "", "<none>"],
    ),
    (
        "job that failed",
        kinds.JOB,
        {"spec": {"parallelism": 3}, "status": {"conditions": [{"type": "Failed", **TRUE}]}},
        ["x", "Failed", "0/1 of 3", "", "60m", "", "", "<none>"],
    ),
    (
        "job that is suspended",
        kinds.JOB,
        {"spec": {"parallelism": 1}, "status": {"conditions": [{"type": "Suspended", **TRUE}]}},
        ["x", "Suspended", "0/1", "", "60m", "", "", "<none>"],
    ),
    (
        "cron job",
        kinds.CRON_JOB,
        {
            "spec": {
                "schedule": "@daily",
                "suspend": True,
                "jobTemplate": {"spec": {"template": TEMPLATE}},
            },
            "status": {"active": [{}], "lastScheduleTime": "2026-01-02T11:59:00Z"},
        },
        ["x", "@daily", "<none>", "True", 1, "60s", "60m", "a,b", "i,j", "<none>"],
    ),
    (
        "service",
        kinds.SERVICE,
        {
            "spec": {
                "type": "NodePort",
                "clusterIP": "10.0.0.1",
                "ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"}, {"port": 53}],
                "selector": {"a": "b"},
            }
        },
        ["x", "NodePort", "10.0.0.1", "<none>", "80:30080/TCP,53/TCP", "60m", "a=b"],
    ),
    (
        "service without address",
        kinds.SERVICE,
        {"spec": {"type": "ClusterIP", "clusterIP": "None", "clusterIPs": ["None"]}},
        ["x", "ClusterIP", "None", "<none>", "<none>", "60m", "<none>"],
    ),
    (
        "service elsewhere",
        kinds.SERVICE,
        {"spec": {"type": "ExternalName", "externalName": "a.b"}},
        ["x", "ExternalName", "<none>", "a.b", "<none>", "60m", "<none>"],
    ),
    (
        "service that waits for an address",
        kinds.SERVICE,
        {"spec": {"type": "LoadBalancer"}},
        ["x", "LoadBalancer", "<none>", "<pending>", "<none>", "60m", "<none>"],
    ),
    (
        "service with a load balancer",
        kinds.SERVICE,
        {
            "spec": {"type": "LoadBalancer", "externalIPs": ["3.3.3.3"]},
            "status": {"loadBalancer": {"ingress": [{"ip": "1.1.1.1"}, {"hostname": "h"}]}},
        },
        ["x", "LoadBalancer", "<none>", "1.1.1.1,h,3.3.3.3", "<none>", "60m", "<none>"],
    ),
    (
        "endpoints",
        kinds.ENDPOINTS,
        {
            "subsets": [
                {"addresses": [{"ip": f"10.0.0.{n}"} for n in range(5)], "ports": [{"port": 80}]}
            ]
        },
        ["x", "10.0.0.0:80,10.0.0.1:80,10.0.0.2:80 + 2 more...", "60m"],
    ),
    ("endpoints of nothing", kinds.ENDPOINTS, {}, ["x", "<none>", "60m"]),
    (
        "endpoint slice",
        kinds.ENDPOINT_SLICE,
        {
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["10.0.0.1"]}],
            "ports": [{"port": 80}, {"name": "any"}],
        },
        ["x", "IPv4", "80,*", "10.0.0.1", "60m"],
    ),
    (
        "empty endpoint slice",
        kinds.ENDPOINT_SLICE,
        {"addressType": "IPv4"},
        ["x", "IPv4", "<unset>", "<unset>", "60m"],
    ),
    (
        "node",
        kinds.NODE,
        {
            "metadata": {
                **META,
                "labels": {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "gpu"},
            },
            "spec": {"unschedulable": True},
            "status": {
                "conditions": [{"type": "Ready", **TRUE}],
                "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
                "nodeInfo": {
                    "kubeletVersion": "v1.36",
                    "osImage": "Debian",
                    "kernelVersion": "6.1",
                    "containerRuntimeVersion": "crun://1.8",
                },
            },
        },
        [
            "x",
            "Ready,SchedulingDisabled",
            "gpu,worker",
            "60m",
            "v1.36",
            "10.0.0.1",
            "<none>",
            "Debian",
            "6.1",
            "crun://1.8",
        ],
    ),
    (
        "node that is not ready",
        kinds.NODE,
        {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}},
        ["x", "NotReady", "<none>", "60m", "", "<none>", "<none>", *["<unknown>"] * 3],
    ),
    (
        "node that says nothing",
        kinds.NODE,
        {},
        ["x", "Unknown", "<none>", "60m", "", "<none>", "<none>", *["<unknown>"] * 3],
    ),
    ("namespace", kinds.NAMESPACE, {"status": {"phase": "Active"}}, ["x", "Active", "60m"]),
    (
        "event",
        kinds.EVENT,
        {
            "involvedObject": {"kind": "Pod", "name": "p", "fieldPath": "spec.containers{c}"},
            "type": "Normal",
            "reason": "Started",
            "message": " it runs\n",
            "source": {"component": "kubelet", "host": "n1"},
            "firstTimestamp": "2026-01-02T11:50:00Z",
            "lastTimestamp": "2026-01-02T11:59:50Z",
            "count": 3,
        },
        [
            "10s",
            "Normal",
            "Started",
            "pod/p",
            "spec.containers{c}",
            "kubelet, n1",
            "it runs",
            "10m",
            3,
            "x",
        ],
    ),
    (
        "event of the new kind",
        kinds.EVENTS_EVENT,
        {
            "regarding": {"kind": "Pod"},
            "type": "Warning",
            "reason": "R",
            "note": "n",
            "reportingController": "c",
            "eventTime": "2026-01-02T11:50:00.000000Z",
            "series": {"count": 7, "lastObservedTime": "2026-01-02T11:59:00.000000Z"},
        },
        ["60s", "Warning", "R", "pod", "", "c", "n", "10m", 7, "x"],
    ),
    (
        "config map",
        kinds.CONFIG_MAP,
        {"data": {"a": "b"}, "binaryData": {"c": ""}},
        ["x", 2, "60m"],
    ),
    ("secret", kinds.SECRET, {"type": "Opaque", "data": {"a": ""}}, ["x", "Opaque", 1, "60m"]),
    ("service account", kinds.SERVICE_ACCOUNT, {}, ["x", 0, "60m"]),
    ("lease", kinds.LEASE, {"spec": {"holderIdentity": "me"}}, ["x", "me", "60m"]),
    (
        "volume",
        kinds.PERSISTENT_VOLUME,
        {
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
                "persistentVolumeReclaimPolicy": "Retain",
                "claimRef": {"namespace": "n", "name": "c"},
                "storageClassName": "s",
                "volumeMode": "Filesystem",
            },
            "status": {"phase": "Bound"},
        },
        [
            "x",
            "1Gi",
            "RWO,ROX",
            "Retain",
            "Bound",
            "n/c",
            "s",
            "<unset>",
            "",
            "60m",
            "Filesystem",
        ],
    ),
    (
        "claim that is bound",
        kinds.PERSISTENT_VOLUME_CLAIM,
        {
            "spec": {"volumeName": "v", "storageClassName": "s", "volumeMode": "Filesystem"},
            "status": {
                "phase": "Bound",
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteMany"],
            },
        },
        ["x", "Bound", "v", "1Gi", "RWX", "s", "<unset>", "60m", "Filesystem"],
    ),
    (
        "claim that waits",
        kinds.PERSISTENT_VOLUME_CLAIM,
        {"status": {"phase": "Pending"}},
        ["x", "Pending", "", "", "", "", "<unset>", "60m", "<unset>"],
    ),
    (
        "default storage class",
        kinds.STORAGE_CLASS,
        {
            "metadata": {
                **META,
                "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
            },
            "provisioner": "p",
            "reclaimPolicy": "Delete",
            "volumeBindingMode": "Immediate",
        },
        ["x (default)", "p", "Delete", "Immediate", False, "60m"],
    ),
    (
        "quota",
        kinds.RESOURCE_QUOTA,
        {
            "status": {
                "hard": {"pods": "5", "limits.cpu": "2"},
                "used": {"pods": "1"},
            }
        },
        ["x", "pods: 1/5", "limits.cpu: 0/2", "60m"],
    ),
    ("limit range", kinds.LIMIT_RANGE, {}, ["x", "2026-01-02T11:00:00Z"]),
    ("role", kinds.ROLE, {}, ["x", "2026-01-02T11:00:00Z"]),
    (
        "role binding",
        kinds.ROLE_BINDING,
        {
            "roleRef": {"kind": "Role", "name": "r"},
            "subjects": [
                {"kind": "User", "name": "u"},
                {"kind": "User", "name": "v"},
                {"kind": "Group", "name": "g"},
                {"kind": "ServiceAccount", "name": "s", "namespace": "n"},
            ],
        },
        ["x", "Role/r", "60m", "u, v", "g", "n/s"],
    ),
    (
        "priority class",
        kinds.PRIORITY_CLASS,
        {"value": 5, "preemptionPolicy": "Never"},
        ["x", 5, False, "60m", "Never"],
    ),
    (
        "disruption budget",
        kinds.POD_DISRUPTION_BUDGET,
        {"spec": {"minAvailable": "50%"}, "status": {"disruptionsAllowed": 1}},
        ["x", "50%", "N/A", 1, "60m"],
    ),
    (
        "autoscaler",
        kinds.HORIZONTAL_POD_AUTOSCALER,
        {
            "spec": {
                "minReplicas": 1,
                "maxReplicas": 5,
                "scaleTargetRef": {"kind": "Deployment", "name": "d"},
                "metrics": [
                    {
                        "type": "Resource",
                        "resource": {"name": "cpu", "target": {"averageUtilization": 80}},
                    },
                    {
                        "type": "Resource",
                        "resource": {"name": "memory", "target": {"averageValue": "1Gi"}},
                    },
                    {"type": "Pods", "pods": {"target": {"averageValue": "5"}}},
                ],
            },
            "status": {
                "currentReplicas": 2,
                "currentMetrics": [
                    {"type": "Resource", "resource": {"current": {"averageUtilization": 12}}}
                ],
            },
        },
        [
            "x",
            "Deployment/d",
            "cpu: 12%/80%, memory: <unknown>/1Gi + 1 more...",
            "1",
            5,
            2,
            "60m",
        ],
    ),
    (
        "old autoscaler",
        kinds.HORIZONTAL_POD_AUTOSCALER_V1,
        {
            "apiVersion": "autoscaling/v1",
            "spec": {"maxReplicas": 5, "targetCPUUtilizationPercentage": 80},
        },
        ["x", "/", "cpu: <unknown>/80%", "<unset>", 5, 0, "60m"],
    ),
    (
        "old autoscaler without a target",
        kinds.HORIZONTAL_POD_AUTOSCALER_V1,
        {"apiVersion": "autoscaling/v1", "spec": {"minReplicas": 2, "maxReplicas": 5}},
        ["x", "/", "<none>", "2", 5, 0, "60m"],
    ),
    (
        "a selector nobody can read",
        kinds.NETWORK_POLICY,
        {"spec": {"podSelector": {"matchExpressions": [{"operator": "Near"}]}}},
        ["x", "<error>", "60m"],
    ),
    (
        "job that is being deleted",
        kinds.JOB,
        {"metadata": {**META, "deletionTimestamp": "2026-01-02T11:59:00Z"}},
        ["x", "Terminating", "0/1", "", "60m", "", "", "<none>"],
    ),
    (
        "ingress",
        kinds.INGRESS,
        {
            "spec": {
                "ingressClassName": "c",
                "rules": [{"host": f"h{n}"} for n in range(4)],
                "tls": [{}],
            },
            "status": {"loadBalancer": {"ingress": [{"ip": "1.1.1.1"}]}},
        },
        ["x", "c", "h0,h1,h2 + 1 more...", "1.1.1.1", "80, 443", "60m"],
    ),
    ("ingress for all", kinds.INGRESS, {}, ["x", "<none>", "*", "", "80", "60m"]),
    (
        "ingress class",
        kinds.INGRESS_CLASS,
        {
            "spec": {
                "controller": "c",
                "parameters": {"kind": "K", "name": "n", "apiGroup": "g"},
            }
        },
        ["x", "c", "K.g/n", "60m"],
    ),
    (
        "network policy",
        kinds.NETWORK_POLICY,
        {"spec": {"podSelector": {}}},
        ["x", "<none>", "60m"],
    ),
    ("runtime class", kinds.RUNTIME_CLASS, {"handler": "crun"}, ["x", "crun", "60m"]),
    ("webhooks", kinds.MUTATING_WEBHOOK_CONFIGURATION, {"webhooks": [{}]}, ["x", 1, "60m"]),
    (
        "controller revision",
        kinds.CONTROLLER_REVISION,
        {
            "metadata": {
                **META,
                "ownerReferences": [
                    {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "controller": True}
                ],
            },
            "revision": 3,
        },
        ["x", "daemonset.apps/d", 3, "60m"],
    ),
    (
        "signing request",
        kinds.CERTIFICATE_SIGNING_REQUEST,
        {
            "spec": {"signerName": "s", "username": "u", "expirationSeconds": 60},
            "status": {"conditions": [{"type": "Approved", **TRUE}], "certificate": "AA=="},
        },
        ["x", "60m", "s", "u", "60s", "Approved,Issued"],
    ),
    (
        "api service",
        kinds.API_SERVICE,
        {
            "spec": {"service": {"namespace": "n", "name": "s"}},
            "status": {
                "conditions": [{"type": "Available", "status": "False", "reason": "Missing"}]
            },
        },
        ["x", "n/s", "False (Missing)", "60m"],
    ),
    ("csi node", kinds.CSI_NODE, {"spec": {"drivers": [{}]}}, ["x", 1, "60m"]),
    (
        "csi driver",
        kinds.CSI_DRIVER,
        {"spec": {"volumeLifecycleModes": ["Persistent"]}},
        ["x", True, False, False, "Persistent", "60m"],
    ),
    (
        "volume attachment",
        kinds.VOLUME_ATTACHMENT,
        {"spec": {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "v"}}},
        ["x", "a", "v", "n", "false", "60m"],
    ),
    ("any other", kinds.POD_TEMPLATE, {}, ["x", "60m"]),
    ("custom", Kind("example.com", "v1", "Widget", "widgets", True), {}, ["x", "60m"]),
]


@pytest.mark.parametrize(
    ("kind", "obj", "cells"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_rows(kind: Kind, obj: Obj, cells: list[Any]) -> None:
    obj = {"metadata": META, **obj}
    assert tables.row(kind, obj, NOW)["cells"] == cells


@pytest.mark.parametrize("kind", kinds.STORED, ids=lambda kind: kind.resource + "." + kind.version)
def test_rows_are_as_long_as_their_columns_even_of_empty_objects(kind: Kind) -> None:
    columns = tables.columns(kind)
    assert len(tables.row(kind, {}, NOW)["cells"]) == len(columns)
    assert len(tables.row(kind, {"metadata": {}, "spec": {}, "status": {}}, NOW)["cells"]) == len(
        columns
    )
    assert len({column["name"] for column in columns}) == len(columns)


def test_columns_are_whole() -> None:
    for kind in kinds.STORED:
        for column in tables.columns(kind):
            assert set(column) == {"name", "type", "format", "description", "priority"}
            assert column["type"] in ("string", "integer", "boolean", "date")
    assert tables.columns(kinds.POD)[0]["format"] == "name"


@pytest.mark.parametrize(
    ("include", "expected"),
    [
        (
            "Metadata",
            {
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": META,
            },
        ),
        ("Object", {"metadata": META, "data": {}}),
        ("None", None),
    ],
)
def test_a_row_carries_as_much_of_the_object_as_was_asked_for(
    include: Any, expected: Obj | None
) -> None:
    table = tables.table(kinds.CONFIG_MAP, [{"metadata": META, "data": {}}], NOW, include)
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert table["columnDefinitions"] == tables.columns(kinds.CONFIG_MAP)
    assert [row["object"] for row in table["rows"]] == [expected]
