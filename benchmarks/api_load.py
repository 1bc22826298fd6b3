"""What is asked of an API server: bodies of a realistic size, as requests ready for the wire.

Used by the API server's benchmark. A pod is as a Deployment makes it, 1.4 kB as sent and more than
3 kB as kept; a status is as a kubelet reports it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from benchmarks.api_client import request

NAMESPACE = "bench"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
CONFIG_MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
_STRATEGIC = "application/strategic-merge-patch+json"
_TIME = "2026-01-01T00:00:00Z"


def compact(obj: dict[str, Any]) -> bytes:
    """As Go's clients write it."""
    return json.dumps(obj, separators=(",", ":")).encode()


def pod(name: str, node: str) -> dict[str, Any]:
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "web-5d7f8c9b64",
        "uid": "7d0c6f0e-6d1b-4c55-9d0c-3f6f0a9f2d11",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    probe = {"httpGet": {"path": "/healthz", "port": "http"}, "periodSeconds": 10}
    container = {
        "name": "web",
        "image": "registry.example.org/team/web:1.2.3",
        "args": ["--listen=:8080", "--verbose"],
        "env": [
            {"name": "MODE", "value": "production"},
            {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        ],
        "ports": [{"name": "http", "containerPort": 8080}],
        "resources": {
            "requests": {"cpu": "100m", "memory": "128Mi"},
            "limits": {"memory": "256Mi"},
        },
        "readinessProbe": probe,
        "livenessProbe": probe,
        "volumeMounts": [{"name": "config", "mountPath": "/etc/web"}],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "labels": {"app": "web", "pod-template-hash": "5d7f8c9b64", "one": name},
            "annotations": {"example.org/checksum": "0f343b0931126a20f133d67c2b018a3b"},
            "ownerReferences": [owner],
        },
        "spec": {
            "nodeName": node,
            "containers": [container],
            "volumes": [{"name": "config", "configMap": {"name": "web"}}],
        },
    }


def status() -> dict[str, Any]:
    conditions = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    return {
        "status": {
            "phase": "Running",
            "podIP": "10.1.2.3",
            "startTime": _TIME,
            "conditions": [
                {"type": name, "status": "True", "lastTransitionTime": _TIME} for name in conditions
            ],
            "containerStatuses": [
                {
                    "name": "web",
                    "image": "registry.example.org/team/web:1.2.3",
                    "imageID": "sha256:0f343b0931126a20f133d67c2b018a3b",
                    "containerID": "orlop://web",
                    "ready": True,
                    "started": True,
                    "restartCount": 0,
                    "state": {"running": {"startedAt": _TIME}},
                    "lastState": {},
                }
            ],
        }
    }


def post_pods(count: int) -> Iterator[bytes]:
    for number in range(count):
        body = compact(pod(f"web-{number}", f"node-{number % 100}"))
        yield request("POST", PODS, body)


def post_config_maps(prefix: str, count: int) -> Iterator[bytes]:
    for number in range(count):
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": f"{prefix}-{number}", "labels": {"app": "web"}},
            "data": {"web.conf": "listen = 8080\n" * 20},
        }
        yield request("POST", CONFIG_MAPS, compact(body))


def get_pods(count: int, among: int) -> Iterator[bytes]:
    wires = [request("GET", f"{PODS}/web-{number}") for number in range(among)]
    for number in range(count):
        yield wires[(number * 7919) % among]


def patch_statuses(count: int) -> Iterator[bytes]:
    body = compact(status())
    for number in range(count):
        yield request("PATCH", f"{PODS}/web-{number}/status", body, _STRATEGIC)


def prepare(user: str) -> Iterator[bytes]:
    """What must be there: a namespace, its account, and a user who may do all of this."""
    objects: list[tuple[str, dict[str, Any]]] = [
        ("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}),
        (f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", {"metadata": {"name": "default"}}),
        (
            "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
            {
                "metadata": {"name": user},
                "subjects": [
                    {"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}
                ],
                "roleRef": {
                    "kind": "ClusterRole",
                    "name": "cluster-admin",
                    "apiGroup": "rbac.authorization.k8s.io",
                },
            },
        ),
    ]
    for path, body in objects:
        yield request("POST", path, compact(body))
