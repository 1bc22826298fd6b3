"""Each subresource on a running server: all that may be written is written, and little changes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from orlop.wellknown import RUNTIME_ANNOTATION
from tests.apiserver.admission.rights.test_certificates import condition, csr

Obj = dict[str, Any]
NAMESPACE = "/api/v1/namespaces/default"
_CONTAINER = {"name": "main", "image": "busybox"}
_TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [_CONTAINER]}}
_WORKLOAD = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": _TEMPLATE}

# Where it is made, where it is; its spec and another one.
OBJECTS: dict[str, tuple[str, Obj, Obj]] = {
    "pod": (f"{NAMESPACE}/pods", {"spec": {"containers": [_CONTAINER]}}, {
        "spec": {"containers": [{**_CONTAINER, "image": "host"}], "priority": 5, "nodeName": "n",
                 "activeDeadlineSeconds": 3, "ephemeralContainers": [
                     {"name": "e", "image": "busybox"}]},
        "status": {"phase": "Running"}}),
    "deployment": ("/apis/apps/v1/namespaces/default/deployments", {"spec": _WORKLOAD}, {
        "spec": {"replicas": 7, "paused": True, "template": {}},
        "status": {"replicas": 9, "readyReplicas": 9}}),
    "namespace": ("/api/v1/namespaces", {}, {
        "spec": {"finalizers": ["a.example.com/b"]}, "status": {"phase": "Terminating"}}),
    "csr": ("/apis/certificates.k8s.io/v1/certificatesigningrequests", csr("x"), {
        "spec": {"signerName": "a.example.com/b", "username": "admin", "groups": ["g"]},
        "status": {"conditions": [condition("Approved")], "certificate": "eA=="}}),
    "node": ("/api/v1/nodes", {}, {
        "spec": {"unschedulable": True, "taints": [{"key": "k", "effect": "NoSchedule"}]},
        "status": {"phase": "Running"}}),
    "service": (f"{NAMESPACE}/services", {"spec": {"ports": [{"port": 80}]}}, {
        "spec": {"externalIPs": ["192.0.2.1"], "type": "NodePort"},
        "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}}),
    "claim": (f"{NAMESPACE}/persistentvolumeclaims", {"spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}, {
        "spec": {"volumeName": "another"}, "status": {"phase": "Bound"}}),
}  # fmt: skip
_AROUND = ["metadata.annotations.mine", "metadata.finalizers", "metadata.labels.mine"]
_ANY = [*_AROUND, f"metadata.annotations.{RUNTIME_ANNOTATION}"]  # only pods are run by it
TABLE = [
    ("pod", "status", ["status.phase", *_AROUND]),
    ("pod", "ephemeralcontainers", ["spec.ephemeralContainers"]),
    ("deployment", "status",
     ["status.readyReplicas", "status.replicas", *(one for one in _ANY if "labels" not in one)]),
    ("deployment", "scale", ["spec.replicas"]),
    ("namespace", "status", ["status.phase", *_AROUND]),
    ("namespace", "finalize", ["spec.finalizers"]),
    ("csr", "status", ["status.certificate", *_ANY]),
    ("csr", "approval", ["status.conditions"]),
    ("node", "status", ["status.phase", *_ANY]),
    ("service", "status",
     ["status.loadBalancer.ingress", *_ANY]),
    ("claim", "status", ["status.phase", *_ANY]),
]  # fmt: skip
_OF_THE_SERVER = ("metadata.managedFields", "metadata.resourceVersion", "metadata.generation")


def changed(new: Any, old: Any, path: str = "") -> Iterator[str]:
    if new == old:
        return
    if not isinstance(new, dict | None) or not isinstance(old, dict | None):
        yield path
        return
    for name in {*(new or {}), *(old or {})}:
        here = f"{path}.{name}" if path else name
        yield from changed((new or {}).get(name), (old or {}).get(name), here)


@pytest.mark.parametrize(("which", "subresource", "expected"), TABLE)
async def test_what_changes(http, local, which: str, subresource: str, expected: list[str]) -> None:
    base, made, all_of_it = OBJECTS[which]
    body = {**made, "metadata": {"name": "x"}}
    old = (await http("POST", base, body)).json
    path = f"{base}/x/{subresource}"
    metadata = {
        "labels": {"mine": "x"},
        "annotations": {"mine": "x", RUNTIME_ANNOTATION: "host"},
        "finalizers": ["a.example.com/b"],
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "b"}],
        "creationTimestamp": "1999-01-01T00:00:00Z",
    }
    for written in (all_of_it, {**all_of_it, "metadata": metadata}):
        for spec in ({}, all_of_it["spec"]):  # what is refused as a whole may hide the rest
            patch = json.dumps({**written, "spec": spec or written.get("spec", {})})
            if subresource == "finalize":
                await http("PUT", path, {**old, **json.loads(patch), "metadata": {"name": "x"}})
            await http("PATCH", path, patch, Content_Type="application/merge-patch+json")
    new = (await http("GET", f"{base}/x")).json
    found = {one for one in changed(new, old) if one not in _OF_THE_SERVER}
    assert found == {one for one in expected if one not in _OF_THE_SERVER}
