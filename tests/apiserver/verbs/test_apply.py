"""Server-side apply over HTTP."""

from __future__ import annotations

import asyncio
import json

import pytest

from orlop.api import kinds
from orlop.api.objects import Key
from orlop.apiserver.registry import manager_of

YAML = "application/apply-patch+yaml"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
DEPLOYMENT = "/apis/apps/v1/namespaces/default/deployments/web"


def config(name: str = "a", **data: str) -> dict:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


@pytest.fixture
def apply(http):
    async def send(path: str, body: object, manager: str = "me", **query: str):
        text = body if isinstance(body, str) else json.dumps(body)
        options = "&".join(f"{name}={value}" for name, value in query.items())
        return await http(
            "PATCH", f"{path}?fieldManager={manager}&{options}", text, Content_Type=YAML
        )

    return send


def managers(obj: dict) -> dict:
    entries = obj["metadata"].get("managedFields", [])
    return {
        (one["manager"], one["operation"], one.get("subresource", "")): one["fieldsV1"]
        for one in entries
    }


async def test_an_apply_creates_then_changes(http, apply) -> None:
    made = await apply(f"{CONFIG_MAPS}/a", config(x="1", y="1"))
    assert made.code == 201
    changed = await apply(f"{CONFIG_MAPS}/a", config(x="2"))
    assert (changed.code, changed.json["data"]) == (200, {"x": "2"})
    owned = {"f:data": {"f:x": {}}}
    assert managers((await http("GET", f"{CONFIG_MAPS}/a")).json) == {("me", "Apply", ""): owned}


async def test_yaml_is_applied_as_json_is(apply) -> None:
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: 'on', y: 2020-01-01}\n"
    made = await apply(f"{CONFIG_MAPS}/a", text)
    assert (made.code, made.json["data"]) == (201, {"x": "on", "y": "2020-01-01"})


async def test_the_same_again_is_the_same_revision(apply) -> None:
    first = (await apply(f"{CONFIG_MAPS}/a", config(x="1"))).json
    assert (await apply(f"{CONFIG_MAPS}/a", config(x="1"))).json == first


async def test_what_decoding_drops_is_owned_and_still_changes_nothing(apply) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "creationTimestamp": None},
        "spec": {
            "hostNetwork": False,
            "containers": [
                {"name": "a", "image": "b", "resources": {"requests": {"cpu": "1000m"}}}
            ],
        },
    }
    path = "/api/v1/namespaces/default/pods/p"
    first = (await apply(path, pod)).json
    assert first["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]["f:hostNetwork"] == {}
    assert (await apply(path, pod)).json == first
    assert (await apply(path, pod, "other")).code == 200, "another way to write it is no conflict"


async def test_a_conflict_names_managers_and_fields(apply) -> None:
    await apply(f"{CONFIG_MAPS}/a", config(x="1", y="1"), "one")
    refused = await apply(f"{CONFIG_MAPS}/a", config(x="2", y="2"), "two")
    assert (refused.code, refused.json["reason"]) == (409, "Conflict")
    assert refused.json["message"] == (
        'Apply failed with 2 conflicts: conflicts with "one":\n- .data.x\n- .data.y'
    )
    assert [cause["field"] for cause in refused.json["details"]["causes"]] == [".data.x", ".data.y"]
    taken = await apply(f"{CONFIG_MAPS}/a", config(x="2"), "two", force="true")
    assert taken.json["data"] == {"x": "2", "y": "1"}
    assert managers(taken.json)["one", "Apply", ""] == {"f:data": {"f:y": {}}}


async def test_other_writes_have_managers_too(http, apply, config_map) -> None:
    await http("POST", f"{CONFIG_MAPS}?fieldManager=maker", config_map("a", {"x": "1", "y": "1"}))
    patch = {"data": {"x": "2"}}
    media_type = "application/merge-patch+json"
    path = f"{CONFIG_MAPS}/a"
    await http("PATCH", path, patch, Content_Type=media_type, User_Agent="robot/1.0 (linux)")
    found = (await http("GET", path)).json
    assert managers(found) == {
        ("maker", "Update", ""): {"f:data": {".": {}, "f:y": {}}},
        ("robot", "Update", ""): {"f:data": {"f:x": {}}},
    }
    assert (await apply(path, config(x="3"))).code == 409
    found["data"]["y"] = "2"
    replaced = await http("PUT", f"{path}?fieldManager=robot", found)
    assert managers(replaced.json)["robot", "Update", ""] == {"f:data": {"f:x": {}, "f:y": {}}}


@pytest.mark.parametrize(
    ("user_agent", "manager"),
    [
        ("kubectl/v1.32.0 (linux/amd64)", "kubectl"),
        ("a\x7fb\u200b c/1", "ab c"),
        ("ü" * 100, "ü" * 64),
        ("", ""),
    ],
)
def test_a_client_without_a_name_is_named_by_its_program(user_agent: str, manager: str) -> None:
    assert manager_of(user_agent) == manager


@pytest.mark.parametrize(
    ("query", "media_type", "cause"),
    [
        ("", YAML, "fieldManager: Required value: is required for apply patch"),
        (
            "fieldManager=" + "x" * 129,
            YAML,
            "fieldManager: Too long: may not be more than 128 bytes",
        ),
        (
            "force=true",
            "application/merge-patch+json",
            "force: Forbidden: may not be specified for non-apply patch",
        ),
        (
            "fieldManager=a%07",
            YAML,
            'fieldManager: Invalid value: "a\\u0007": should only contain printable characters',
        ),
    ],
)
async def test_options_that_upstream_refuses(http, query: str, media_type: str, cause: str) -> None:
    body = json.dumps(config(x="1"))
    reply = await http("PATCH", f"{CONFIG_MAPS}/a?{query}", body, Content_Type=media_type)
    assert (reply.code, reply.json["reason"]) == (422, "Invalid")
    assert reply.json["message"] == f'PatchOptions.meta.k8s.io "" is invalid: {cause}'


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("- a", "the body of an apply patch must be an object"),
        ("{", "not valid YAML"),
        ({"kind": "ConfigMap"}, "invalid object type: /, Kind=ConfigMap, expected: /v1, Kind="),
        ({**config(), "kind": "Pod"}, "invalid object type: /v1, Kind=Pod, expected: /v1, Kind="),
        ({**config(), "apiVersion": 1}, "invalid object type: /, Kind=ConfigMap"),
        (config("b"), "the name of the object (b) does not match the name on the URL (a)"),
        (
            {**config(), "metadata": {"name": "a", "managedFields": []}},
            "metadata.managedFields must be nil",
        ),
        (
            {**config(), "colour": "red"},
            "failed to create typed patch object (default/a; /v1, Kind=ConfigMap): .colour: field "
            "not declared in schema",
        ),
        ({**config(), "data": {"x": 1}}, "cannot unmarshal number into Go struct field"),
        ({**config(), "data": "x"}, ".data: expected map, got string"),
        ({**config(), "metadata": "x"}, "metadata must be an object"),
    ],
    ids=str,
)
async def test_bodies_that_cannot_be_applied(apply, body, message: str) -> None:
    for _ in range(2):  # where nothing is, and where something is
        reply = await apply(f"{CONFIG_MAPS}/a", body)
        assert (reply.code, reply.json["reason"]) == (400, "BadRequest")
        assert message in reply.json["message"]
        assert (await apply(f"{CONFIG_MAPS}/a", config(z="1"), "first")).code < 300


@pytest.mark.parametrize(
    "text",
    [
        '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"x":"1","x":"2"}}',
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: '1', x: '2'}\n",
    ],
    ids=["json", "yaml"],
)
async def test_fields_that_are_named_twice_are_told(apply, text: str) -> None:
    refused = await apply(f"{CONFIG_MAPS}/a", text, fieldValidation="Strict")
    assert refused.code == 400
    assert 'duplicate field "data.x"' in refused.json["message"]
    warned = await apply(f"{CONFIG_MAPS}/a", text)
    assert warned.headers["Warning"] == '299 - "duplicate field \\"data.x\\""'
    assert (
        "Warning" not in (await apply(f"{CONFIG_MAPS}/a", text, fieldValidation="Ignore")).headers
    )


async def test_an_apply_can_insist_on_a_revision(apply) -> None:
    old = (await apply(f"{CONFIG_MAPS}/a", config(x="1"))).json["metadata"]["resourceVersion"]
    await apply(f"{CONFIG_MAPS}/a", config(x="2"))
    body = {**config(x="3"), "metadata": {"name": "a", "resourceVersion": old}}
    refused = await apply(f"{CONFIG_MAPS}/a", body)
    assert refused.code == 409
    assert "the object has been modified" in refused.json["message"]
    body["metadata"] = {"name": "b", "uid": "u"}
    missing = await apply(f"{CONFIG_MAPS}/b", body)
    assert missing.code == 409
    assert "uid mismatch: the provided object specified uid u" in missing.json["message"]


async def test_a_dry_run_shows_what_would_be(http, apply) -> None:
    made = await apply(f"{CONFIG_MAPS}/a", config(x="1"), dryRun="All")
    assert (made.code, made.json["data"]) == (201, {"x": "1"})
    assert (await http("GET", f"{CONFIG_MAPS}/a")).code == 404
    first = (await apply(f"{CONFIG_MAPS}/a", config(x="1"))).json
    assert (await apply(f"{CONFIG_MAPS}/a", config(x="2"), dryRun="All")).json["data"] == {"x": "2"}
    assert (await http("GET", f"{CONFIG_MAPS}/a")).json == first


async def test_applying_needs_the_right_to_create_where_it_creates(http, site) -> None:
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["patch", "update"]}]
    path = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
    await http("POST", f"{path}/roles", {"metadata": {"name": "r"}, "rules": rules})
    binding = {
        "metadata": {"name": "b"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
        "subjects": [{"kind": "User", "name": "eve"}],
    }
    await http("POST", f"{path}/rolebindings", binding)
    async with site.http("eve") as eve:
        target, body = f"{CONFIG_MAPS}/a?fieldManager=eve", json.dumps(config(x="1"))
        refused = await eve("PATCH", target, body, Content_Type=YAML)
        assert refused.code == 403
        assert 'User "eve" cannot create resource "configmaps"' in refused.json["message"]
        await http("POST", CONFIG_MAPS, config(y="1"))
        assert (await eve("PATCH", target, body, Content_Type=YAML)).code == 200


async def test_status_is_applied_by_itself(http, apply, pod) -> None:
    await http("POST", "/api/v1/namespaces/default/pods?fieldManager=maker", pod("a"))
    path = "/api/v1/namespaces/default/pods/a"
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a"},
        "spec": {"nodeName": "ignored"},
        "status": {"message": "hi", "conditions": [{"type": "Ready", "status": "True"}]},
    }
    reply = await apply(f"{path}/status", body, "kubelet")
    assert reply.json["status"]["message"] == "hi"
    assert "nodeName" not in reply.json["spec"]
    condition = {'k:{"type":"Ready"}': {".": {}, "f:status": {}, "f:type": {}}}
    owned = {"f:status": {"f:conditions": condition, "f:message": {}}}
    assert managers(reply.json)["kubelet", "Apply", "status"] == owned
    body["status"] = {"conditions": [{"type": "Ready", "status": "True"}]}
    assert "message" not in (await apply(f"{path}/status", body, "kubelet")).json["status"]
    body["metadata"]["name"] = "none"
    missing = await apply("/api/v1/namespaces/default/pods/none/status", body)
    assert missing.code == 404


async def test_of_many_who_apply_at_once_one_wins_each_field(apply) -> None:
    path = f"{CONFIG_MAPS}/a"
    replies = await asyncio.gather(*(apply(path, config(x=f"{n}"), f"m{n}") for n in range(8)))
    won = [reply for reply in replies if reply.code < 300]
    assert len(won) == 1
    assert all(reply.code == 409 for reply in replies if reply not in won)


async def test_resetting_managers_forgets_them_all(http, apply) -> None:
    await apply(f"{CONFIG_MAPS}/a", config(x="1"))
    reset = [{"op": "replace", "path": "/metadata/managedFields", "value": [{}]}]
    path, media_type = f"{CONFIG_MAPS}/a", "application/json-patch+json"
    reply = await http("PATCH", path, json.dumps(reset), Content_Type=media_type)
    assert (reply.code, managers(reply.json)) == (200, {})
    again = await apply(path, config(y="1"))
    assert set(managers(again.json)) == {
        ("before-first-apply", "Update", ""),
        ("me", "Apply", ""),
    }


async def test_a_version_that_is_seen_otherwise_is_compared_as_it_is_seen(http, apply) -> None:
    scaler = {
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "a"},
        "spec": {
            "maxReplicas": 3,
            "minReplicas": 2,
            "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"},
        },
    }
    path = "namespaces/default/horizontalpodautoscalers/a"
    v1, v2 = f"/apis/autoscaling/v1/{path}", f"/apis/autoscaling/v2/{path}"
    first = await apply(v1, {**scaler, "apiVersion": "autoscaling/v1"}, "one")
    assert first.code == 201
    del scaler["spec"]["minReplicas"]
    other = {**scaler, "apiVersion": "autoscaling/v2", "spec": {**scaler["spec"], "maxReplicas": 9}}
    refused = await apply(v2, other, "two")
    assert refused.json["message"].endswith('conflict with "one": .spec.maxReplicas')
    moved = await apply(v2, {**scaler, "apiVersion": "autoscaling/v2"}, "one")
    assert moved.json["spec"].get("minReplicas") == 1, "given up, and so the default again"
    assert [one["apiVersion"] for one in moved.json["metadata"]["managedFields"]] == [
        "autoscaling/v2"
    ]


async def test_components_write_under_their_own_names(site, config_map) -> None:
    api = site.server.client("system:kube-controller-manager", ["system:masters"])
    made = await api.create(kinds.CONFIG_MAP, config_map("a"))
    assert list(managers(made)) == [("kube-controller-manager", "Update", "")]


async def test_binding_a_pod_makes_nobody_its_manager(site, http, pod) -> None:
    await http("POST", "/api/v1/namespaces/default/pods?fieldManager=maker", pod("a"))
    api = site.server.client("system:kube-scheduler", ["system:masters"])
    target = {"target": {"kind": "Node", "name": "n"}}
    await api.create_subresource(kinds.POD, Key("default", "a"), "binding", target)
    found = await api.get(kinds.POD, Key("default", "a"))
    assert found["spec"]["nodeName"] == "n"
    assert list(managers(found)) == [("maker", "Update", "")]
