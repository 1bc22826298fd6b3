"""What a small account would do to become a large one: each is tried on a running server."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from orlop.api import kinds
from orlop.api.objects import Key
from orlop.wellknown import JOB_ID, MIRROR
from tests.apiserver.admission.rights.test_certificates import (
    GROUP,
    PATH,
    SIGNER,
    condition,
    csr,
    let,
    pem,
    rule,
)
from tests.apiserver.auth.test_authorization import binding, subject
from tests.apiserver.conftest import Http, Site, TokenSite

Obj = dict[str, Any]
MERGE = {"Content_Type": "application/merge-patch+json"}
APPLY = {"Content_Type": "application/apply-patch+yaml"}
JSON = {"Content_Type": "application/json-patch+json"}
RBAC = "/apis/rbac.authorization.k8s.io/v1"
PODS = "/api/v1/namespaces/default/pods"
MIRRORED = {MIRROR: "1"}


async def allow(local: Any, user: str, group: str, *resources: str, verbs: str = "*") -> None:
    """Cluster-wide, on these resources."""
    name = f"{user}-{len(resources)}-{resources[0].replace('/', '-')}"
    rules = [{"verbs": verbs.split(), "apiGroups": [group], "resources": list(resources)}]
    await local.create(kinds.CLUSTER_ROLE, {"metadata": {"name": name}, "rules": rules})
    bound = binding(name, "ClusterRole", name, subject("User", user))
    await local.create(kinds.CLUSTER_ROLE_BINDING, bound)


@asynccontextmanager
async def asker(site: Site, local: Any, *more: str) -> AsyncIterator[Http]:
    """eve may ask for certificates and write the status of requests; `more` verbs on signers."""
    asks = rule("create get list", "certificatesigningrequests")
    status = rule("get update patch", "certificatesigningrequests/status")
    main = rule("update patch", "certificatesigningrequests")
    signers = [rule(verb, "signers", SIGNER) for verb in more]
    await let(local, "eves", "eve", asks, status, main, *signers)
    async with site.http("eve") as eve:
        yield eve


def _conditions(obj: Obj) -> list[str]:
    return [one["type"] for one in (obj.get("status") or {}).get("conditions") or []]


APPROVED = {"status": {"conditions": [condition("Approved")]}}


@pytest.mark.parametrize("may_sign", [False, True])
async def test_nobody_approves_by_the_status(site: Site, local, may_sign: bool) -> None:
    typed = {"apiVersion": f"{GROUP}/v1", "kind": "CertificateSigningRequest"}
    async with asker(site, local, *(["sign"] if may_sign else [])) as eve:
        made = (await eve("POST", PATH, {**csr(request=pem("admin")), **APPROVED})).json
        assert _conditions(made) == []
        patch = [{"op": "add", "path": "/status/conditions", "value": [condition("Approved")]}]
        for where in (f"{PATH}/c/status", f"{PATH}/c"):
            await eve("PUT", where, {**made, **APPROVED})
            await eve("PATCH", where, json.dumps(APPROVED), **MERGE)
            await eve("PATCH", where, json.dumps(patch), **JSON)
            applied = json.dumps({**typed, "metadata": {"name": "c"}, **APPROVED})
            await eve("PATCH", f"{where}?fieldManager=x&force=true", applied, **APPLY)
        found = (await eve("GET", f"{PATH}/c")).json
    assert _conditions(found) == []
    assert "certificate" not in found.get("status", {})


async def test_a_denial_is_not_undone_by_the_status(site: Site, local, http: Http) -> None:
    async with asker(site, local, "sign") as eve:
        made = (await eve("POST", PATH, csr())).json
        denied = {**made, "status": {"conditions": [condition("Denied")]}}
        assert (await http("PUT", f"{PATH}/c/approval", denied)).code == 200
        bare = json.dumps({"status": {"conditions": [condition("Failed")]}})
        assert (await eve("PATCH", f"{PATH}/c/status", bare, **MERGE)).code == 200
        assert _conditions((await eve("GET", f"{PATH}/c")).json) == ["Denied", "Failed"]


async def test_whoever_does_not_sign_does_not_say_that_it_failed(site: Site, local) -> None:
    async with asker(site, local) as eve:
        await eve("POST", PATH, csr())
        failed = json.dumps({"status": {"conditions": [condition("Failed")]}})
        reply = await eve("PATCH", f"{PATH}/c/status", failed, **MERGE)
    assert (reply.code, "not permitted to sign" in reply.text) == (403, True)


@pytest.mark.parametrize(
    "patch",
    [
        {"metadata": {"labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}}},
        {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}},
    ],
    ids=["label", "aggregation"],
)
async def test_a_strong_role_is_not_made_part_of_a_weak_one(site: Site, local, patch: Obj) -> None:
    await allow(local, "eve", kinds.CLUSTER_ROLE.group, "clusterroles", verbs="get update patch")
    strong = [{"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]}]
    await local.create(kinds.CLUSTER_ROLE, {"metadata": {"name": "strong"}, "rules": strong})
    path = f"{RBAC}/clusterroles/strong"
    async with site.http("eve") as eve:
        reply = await eve("PATCH", path, json.dumps(patch), **MERGE)
        assert (reply.code, "not currently held" in reply.text) == (403, True)
        note = json.dumps({"metadata": {"annotations": {"a": "b"}}})
        assert (await eve("PATCH", path, note, **MERGE)).code == 200


async def test_a_sum_of_roles_is_not_made_a_role_of_ones_own(site: Site, local) -> None:
    await allow(local, "eve", kinds.CLUSTER_ROLE.group, "clusterroles", verbs="get update patch")
    rule_ = {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}
    made = {"metadata": {"name": "sum"}, "aggregationRule": rule_, "rules": []}
    await local.create(kinds.CLUSTER_ROLE, made)
    async with site.http("eve") as eve:
        other = {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"c": "d"}}]}}
        for patch in (other, {"aggregationRule": None}):
            body = json.dumps(patch)
            reply = await eve("PATCH", f"{RBAC}/clusterroles/sum", body, **MERGE)
            assert reply.code == 403


@pytest.mark.parametrize("what", ["exec?command=id", "attach", "portforward?ports=80"])
@pytest.mark.parametrize(("verbs", "is_let"), [("get", False), ("create get", True)])
async def test_who_may_only_look_at_pods_runs_nothing_in_them(
    site: Site, local, pod: Any, what: str, verbs: str, is_let: bool
) -> None:
    """As upstream since 1.35: a role with `get` on all there is of pods is meant to read."""
    named = [f"pods/{name}" for name in ("exec", "attach", "portforward", "log")]
    await allow(local, "eve", "", "pods", *named, verbs=verbs)
    await local.create(kinds.POD, pod("a"))
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket"}
    async with site.http("eve") as eve:
        reply = await eve("GET", f"{PODS}/a/{what}", **upgrade)
    assert (reply.code != 403) is is_let, reply.text
    assert is_let or "cannot create resource" in reply.text


# Nodes


@pytest.fixture
async def node(token_site: TokenSite) -> AsyncIterator[Http]:
    """The kubelet of n1, in a cluster with service accounts and their tokens."""
    admin = token_site.admin
    for name in ("n1", "n2"):
        await admin.create(kinds.NODE, {"metadata": {"name": name}})
    strong = {"metadata": {"name": "strong", "namespace": "default"}}
    await admin.create(kinds.SERVICE_ACCOUNT, strong)
    await admin.create(kinds.SECRET, {"metadata": {"name": "s", "namespace": "default"}})
    async with token_site.http("system:node:n1", ("system:nodes",)) as http:
        yield http


def _mirror(pod: Any, **spec: Any) -> Obj:
    made: Obj = pod("x", annotations=MIRRORED)
    made["spec"] |= {"nodeName": "n1", **spec}
    return made


@pytest.mark.parametrize(
    "spec",
    [
        {"serviceAccountName": "strong"},
        {"serviceAccount": "strong"},
        {"volumes": [{"name": "v", "secret": {"secretName": "s"}}]},
        {"volumes": [{"name": "v", "configMap": {"name": "s"}}]},
        {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "s"}}]},
        {"volumes": [{"name": "v", "projected": {"sources": [
            {"serviceAccountToken": {"path": "t"}}]}}]},
        {"volumes": [{"name": "v", "projected": {"sources": [{"secret": {"name": "s"}}]}}]},
        {"imagePullSecrets": [{"name": "s"}]},
        {"containers": [{"name": "c", "image": "i",
                         "envFrom": [{"secretRef": {"name": "s"}}]}]},
    ],
)  # fmt: skip
async def test_a_node_makes_no_pod_to_read_or_speak_as_others(
    node: Http, pod: Any, spec: Obj
) -> None:
    reply = await node("POST", PODS, _mirror(pod, **spec))
    assert (reply.code, "reference other objects" in reply.text) == (403, True)
    assert (await node("GET", "/api/v1/namespaces/default/secrets/s")).code == 403


async def test_a_mirror_pod_speaks_for_nobody(node: Http, pod: Any) -> None:
    made = await node("POST", PODS, _mirror(pod))
    assert made.code == 201
    assert "serviceAccountName" not in made.json["spec"]
    assert not made.json["spec"].get("volumes")
    bound = {"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": made.json["metadata"]["uid"]}
    for account in ("default", "strong"):
        path = f"/api/v1/namespaces/default/serviceaccounts/{account}/token"
        refused = await node("POST", path, {"spec": {"boundObjectRef": bound}})
        assert refused.code in (400, 403, 404)


@pytest.mark.parametrize(
    ("path", "patch"),
    [
        ("/api/v1/nodes/n1", {"metadata": {"ownerReferences": [
            {"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "u"}]}}),
        (f"{PODS}/x/status", {"metadata": {"labels": {"app": "another"}}}),
    ],
    ids=["owner", "labels"],
)  # fmt: skip
async def test_a_node_does_not_pass_for_more(node: Http, pod: Any, path: str, patch: Obj) -> None:
    await node("POST", PODS, _mirror(pod))
    reply = await node("PATCH", path, json.dumps(patch), **MERGE)
    assert reply.code == 403, reply.text


# What Orlop goes by


@pytest.mark.parametrize("where", ["", "/status"])
async def test_nobody_gives_a_pod_another_job(site: Site, local, pod: Any, where: str) -> None:
    await allow(local, "eve", "", "pods", "pods/status")
    async with site.http("eve") as eve:
        made = await eve("POST", PODS, pod("a", annotations={JOB_ID: "1", "mine": "x"}))
        assert made.json["metadata"]["annotations"] == {"mine": "x"}
        written = {"metadata": {"annotations": {JOB_ID: "17"}}}
        await local.patch(kinds.POD, Key("default", "a"), written, subresource="status")
        for text in ("18", None):
            change = json.dumps({"metadata": {"annotations": {JOB_ID: text, "mine": "y"}}})
            reply = await eve("PATCH", f"{PODS}/a{where}", change, **MERGE)
            assert reply.json["metadata"]["annotations"] == {JOB_ID: "17", "mine": "y"}


async def test_nor_does_a_template(local, pod: Any) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u"}
    made = pod("a", annotations={JOB_ID: "1"}, ownerReferences=[{**owner, "controller": True}])
    assert not (await local.create(kinds.POD, made))["metadata"].get("annotations")


async def test_a_pod_does_not_become_a_mirror(http: Http, pod: Any) -> None:
    await http("POST", PODS, pod("a"))
    change = json.dumps({"metadata": {"annotations": MIRRORED}})
    reply = await http("PATCH", f"{PODS}/a", change, **MERGE)
    assert (reply.code, "mirror pod annotation" in reply.text) == (422, True)


async def test_nothing_of_the_cluster_is_below_a_namespace(site: Site, local) -> None:
    """Whoever may do all in one namespace is asked for no more by a path that leads through it."""
    role = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
    team = {"namespace": "team", "name": "all"}
    await local.create(kinds.NAMESPACE, {"metadata": {"name": "team"}})
    await local.create(kinds.ROLE, {"metadata": team, "rules": [role]})
    bound = {**binding("all", "Role", "all", subject("User", "eve")), "metadata": team}
    await local.create(kinds.ROLE_BINDING, bound)
    others = [kind for kind in kinds.BUILT_IN if not kind.namespaced]
    assert len(others) > 15
    async with site.http("eve") as eve:
        for kind in others:
            group = f"/apis/{kind.group}" if kind.group else "/api"
            below = f"{group}/{kind.version}/namespaces/team/{kind.plural}"
            for method, path in (
                ("GET", below), ("GET", f"{below}?watch=1"), ("POST", below), ("DELETE", below),
                ("GET", f"{below}/default"), ("PUT", f"{below}/default"),
                ("PATCH", f"{below}/default"), ("DELETE", f"{below}/default"),
                ("GET", f"{below}/default/status"), ("PUT", f"{below}/default/finalize"),
                ("GET", f"{below}/default/proxy/pods"), ("PUT", f"{below}/default/approval"),
            ):  # fmt: skip
                code = (await eve(method, path, {} if method in ("POST", "PUT") else None)).code
                assert code == 404, (method, path, code)
        assert (await eve("GET", "/api/v1/namespaces/team")).code == 200
        assert (await eve("GET", "/api/v1/namespaces/default")).code == 403
