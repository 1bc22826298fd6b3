"""Kubelets that run elsewhere: what they may read, and what they may change."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from orlop.api import kinds
from orlop.api.objects import Key
from tests.apiserver.conftest import Http, Site

Obj = dict[str, Any]
BASE = "/api/v1/namespaces/default"
MERGE = {"Content_Type": "application/merge-patch+json"}
LEASES = "/apis/coordination.k8s.io/v1/namespaces"


@pytest.fixture
async def kubelet(site: Site, local, pod) -> AsyncIterator[Http]:
    """Of node n1, which runs pod `a`; `b` runs on n2."""
    for node in ("n1", "n2"):
        await local.create(kinds.NODE, {"metadata": {"name": node}})
    for name, node in (("a", "n1"), ("b", "n2")):
        made = pod(name)
        made["spec"]["volumes"] = [{"name": "v", "secret": {"secretName": f"secret-{name}"}}]
        made["spec"]["containers"][0]["envFrom"] = [{"configMapRef": {"name": f"map-{name}"}}]
        await local.create(kinds.POD, made)
        for kind, prefix in ((kinds.SECRET, "secret"), (kinds.CONFIG_MAP, "map")):
            metadata = {"name": f"{prefix}-{name}", "namespace": "default"}
            await local.create(kind, {"metadata": metadata})
        target = {"target": {"name": node}}
        await local.create_subresource(kinds.POD, Key("default", name), "binding", target)
    async with site.http("system:node:n1", ("system:nodes",)) as http:
        yield http


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", f"{BASE}/secrets/secret-a", 200),
        ("GET", f"{BASE}/secrets/secret-b", 403),
        ("GET", f"{BASE}/secrets", 403),
        ("GET", f"{BASE}/configmaps/map-a", 200),
        ("GET", f"{BASE}/configmaps/map-b", 403),
        ("GET", "/api/v1/pods?fieldSelector=spec.nodeName%3Dn1", 200),
        ("GET", "/api/v1/nodes/n1", 200),
        ("GET", "/api/v1/services", 200),
        ("GET", f"{LEASES}/kube-node-lease/leases/n1", 404),
        ("GET", f"{LEASES}/kube-node-lease/leases/n2", 403),
        ("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles", 403),
        ("DELETE", f"{BASE}/pods/b", 403),
        ("DELETE", f"{BASE}/pods/a?gracePeriodSeconds=0", 200),
    ],
)
async def test_what_it_may_reach(kubelet: Http, method: str, path: str, code: int) -> None:
    reply = await kubelet(method, path)
    assert reply.code == code, reply.text


@pytest.mark.parametrize(
    ("path", "body", "why"),
    [
        ("/api/v1/nodes/n2/status", {"metadata": {"name": "n2"}},
         'node "n1" is not allowed to modify node "n2"'),
        (f"{BASE}/pods/b/status", {"metadata": {"name": "b"}, "status": {"phase": "Running"}},
         "can only update pod status for pods with spec.nodeName set to itself"),
        ("/api/v1/nodes/n1", {"metadata": {"name": "n1"}, "spec": {"taints": [
            {"key": "k", "effect": "NoSchedule"}]}}, 'node "n1" is not allowed to modify taints'),
        ("/api/v1/nodes/n1", {"metadata": {"name": "n1", "labels": {
            "node-restriction.kubernetes.io/x": "y"}}}, "is not allowed to modify labels"),
    ],
    ids=["another node", "another's pod", "taints", "labels"],
)  # fmt: skip
async def test_what_it_may_not_change(kubelet: Http, path: str, body: Obj, why: str) -> None:
    reply = await kubelet("PATCH", path, json.dumps(body), **MERGE)
    assert reply.code == 403, reply.text
    assert why in reply.json["message"]


async def test_what_it_may_change(kubelet: Http) -> None:
    labels = {"kubernetes.io/os": "linux", "mine": "x", "node.kubernetes.io/y": "z"}
    patch = json.dumps({"metadata": {"labels": labels}})
    changed = await kubelet("PATCH", "/api/v1/nodes/n1", patch, **MERGE)
    assert changed.code == 200, changed.text
    running = {"metadata": {"name": "a"}, "status": {"phase": "Running"}}
    assert (await kubelet("PUT", f"{BASE}/pods/a/status", running)).code == 200
    lease = {"metadata": {"name": "n1", "namespace": "kube-node-lease"}, "spec": {}}
    assert (await kubelet("POST", f"{LEASES}/kube-node-lease/leases", lease)).code == 201
    lease["metadata"]["name"] = "n2"
    refused = await kubelet("POST", f"{LEASES}/kube-node-lease/leases", lease)
    assert "can only access node lease with the same name" in refused.json["message"]


async def test_it_makes_only_mirror_pods_of_its_own(kubelet: Http, pod) -> None:
    plain = await kubelet("POST", f"{BASE}/pods", pod("x"))
    assert 'node "n1" can only create mirror pods' in plain.json["message"]
    mirror = pod("x", annotations={"kubernetes.io/config.mirror": "1"})
    mirror["spec"]["nodeName"] = "n2"
    assert (await kubelet("POST", f"{BASE}/pods", mirror)).code == 403
    mirror["spec"]["nodeName"] = "n1"
    assert (await kubelet("POST", f"{BASE}/pods", mirror)).code == 201


async def test_a_name_without_the_group_is_nobody_special(site: Site, kubelet: Http) -> None:
    async with site.http("system:node:n1") as http:
        assert (await http("GET", f"{BASE}/secrets/secret-a")).code == 403
