"""Webhooks that change objects: what they are asked, what becomes of it, in which order."""

from __future__ import annotations

import json
from typing import Any

import pytest
from aiohttp import web

from tests.apiserver.conftest import Http

from .conftest import GROUP, MAPS, Hook, add, configure, patch

Obj = dict[str, Any]
PATH = "/api/v1/namespaces/default/pods"
MAP_PATH = "/api/v1/namespaces/default/configmaps"
LABEL = add("/metadata/labels", {"by": "hook"})


async def test_a_webhook_changes_the_object_and_defaults_are_filled_in_again(
    http: Http, hook: Hook, pod
) -> None:
    container = {"name": "side", "image": "i:1", "ports": [{"containerPort": 80}]}
    hook.answer = lambda request: patch(LABEL, add("/spec/containers/-", container))
    await configure(http, "mutating", hook.config())
    made = (await http("POST", PATH, pod())).json
    assert made["metadata"]["labels"] == {"by": "hook"}
    side = made["spec"]["containers"][1]
    assert side["imagePullPolicy"] == "IfNotPresent"
    assert side["ports"][0]["protocol"] == "TCP"


async def test_the_review_is_as_upstream_sends_it(http: Http, hook: Hook, pod) -> None:
    await configure(http, "mutating", hook.config(path="/mutate", timeoutSeconds=7))
    await http("POST", f"{PATH}?fieldManager=me&dryRun=All", pod())
    review, request = hook.reviews[0], hook.requests[0]
    assert (review["apiVersion"], review["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    assert hook.paths == ["/mutate?timeout=7s"]
    assert request["kind"] == {"group": "", "version": "v1", "kind": "Pod"}
    assert request["resource"] == {"group": "", "version": "v1", "resource": "pods"}
    assert request["requestKind"] == request["kind"]
    assert (request["namespace"], request["name"]) == ("default", "a")
    assert (request["operation"], request["dryRun"], request["oldObject"]) == ("CREATE", True, None)
    assert request["userInfo"]["username"] == "kubernetes-admin"
    assert "system:masters" in request["userInfo"]["groups"]
    assert request["object"]["spec"]["restartPolicy"] == "Always"
    assert request["options"] == {
        "kind": "CreateOptions",
        "apiVersion": "meta.k8s.io/v1",
        "dryRun": ["All"],
        "fieldManager": "me",
    }


@pytest.mark.parametrize(
    ("method", "suffix", "operation", "options"),
    [
        ("PUT", "/a", "UPDATE", "UpdateOptions"),
        ("PATCH", "/a", "UPDATE", "PatchOptions"),
        ("DELETE", "/a", "DELETE", "DeleteOptions"),
    ],
)
async def test_updates_and_deletions_show_the_old_object(
    http: Http, hook: Hook, config_map, method, suffix, operation, options
) -> None:
    await http("POST", MAP_PATH, config_map())
    await configure(http, "mutating", hook.config(rules=[{**MAPS, "operations": ["*"]}]))
    body = None if method == "DELETE" else config_map(data={"k": "new"})
    kind = {"Content_Type": "application/merge-patch+json"} if method == "PATCH" else {}
    reply = await http(method, MAP_PATH + suffix, json.dumps(body) if kind else body, **kind)
    assert reply.code == 200, reply.text
    (request,) = hook.requests
    assert (request["operation"], request["options"]["kind"]) == (operation, options)
    assert request["oldObject"]["data"] == {"k": "v"}
    assert (request["object"] or {}).get("data") == (None if body is None else {"k": "new"})


async def test_webhooks_are_called_in_the_order_of_their_names_each_after_the_other(
    http: Http, hook: Hook, pod
) -> None:
    def answer(request: Obj) -> Obj:
        labels = request["object"]["metadata"].get("labels") or {}
        return patch(add("/metadata/labels", {**labels, f"l{len(labels)}": "x"}))

    hook.answer = answer
    await configure(http, "mutating", hook.config(path="/third"), name="b")
    await configure(
        http,
        "mutating",
        hook.config("z.example.com", path="/first"),
        hook.config("a.example.com", path="/second"),
        name="a",
    )
    made = (await http("POST", PATH, pod())).json
    assert [path.partition("?")[0] for path in hook.paths] == ["/first", "/second", "/third"]
    assert made["metadata"]["labels"] == {"l0": "x", "l1": "x", "l2": "x"}


@pytest.mark.parametrize(
    ("policy", "calls"), [("Never", ["/a", "/b"]), ("IfNeeded", ["/a", "/b", "/a"])]
)
async def test_a_webhook_is_asked_again_if_it_wants_when_others_changed_the_object(
    http: Http, hook: Hook, pod, policy, calls
) -> None:
    first = hook.config("a.example.com", path="/a", reinvocationPolicy=policy)
    second = hook.config("b.example.com", path="/b")
    seen: list[str] = []

    def answer(request: Obj) -> Obj:
        seen.append(hook.paths[-1].partition("?")[0])
        if seen[-1] == "/b":
            return patch(add("/metadata/annotations", {"b": "was here"}))
        return {"allowed": True}

    hook.answer = answer
    await configure(http, "mutating", first, second)
    await http("POST", PATH, pod())
    assert seen == calls


@pytest.mark.parametrize(
    ("status", "code", "message"),
    [
        ({"message": "no pods today", "code": 403, "reason": "Forbidden"}, 403, ": no pods today"),
        ({"reason": "NotNow"}, 400, ": NotNow"),
        (None, 400, " without explanation"),
        ({"message": "odd", "code": 200}, 400, ": odd"),
    ],
)
async def test_a_refusal_is_told_in_upstreams_words(
    http: Http, hook: Hook, pod, status, code, message
) -> None:
    hook.answer = lambda request: {"allowed": False, **({"status": status} if status else {})}
    await configure(http, "mutating", hook.config())
    reply = await http("POST", PATH, pod())
    assert reply.code == code
    assert reply.json["message"] == (
        'admission webhook "hook.example.com" denied the request' + message
    )
    assert (await http("GET", f"{PATH}/a")).code == 404


async def test_warnings_reach_the_client_and_reviews_can_be_v1beta1(
    http: Http, hook: Hook, pod
) -> None:
    hook.answer = lambda request: {"allowed": True, "warnings": ["mind the gap"]}
    await configure(http, "mutating", hook.config(admissionReviewVersions=["v2", "v1beta1"]))
    reply = await http("POST", PATH, pod())
    assert reply.headers["Warning"] == '299 - "mind the gap"'
    assert hook.reviews[0]["apiVersion"] == "admission.k8s.io/v1beta1"


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ({"response": None}, "webhook response was absent"),
        ({"response": {"uid": "other"}}, 'got "other"'),
        ({"apiVersion": "admission.k8s.io/v1beta1"}, "expected webhook response of"),
        ({"patch": "W10="}, "webhook returned response.patch but not response.patchType"),
        ({"patchType": "JSONPatch"}, "webhook returned response.patchType but not response.patch"),
        ({"patchType": "Merge", "patch": "W10="}, 'unsupported patch type "Merge"'),
        ({"patchType": "JSONPatch", "patch": "!"}, "response.patch is no JSON patch in base64"),
        (503, "an error on the server"),
        ("{", "json parse error"),
    ],
)
async def test_an_answer_that_is_none_fails_or_is_ignored_by_policy(
    http: Http, hook: Hook, pod, policy, reply, why
) -> None:
    def answer(review: Obj) -> web.Response:
        if isinstance(reply, int):
            return web.Response(status=reply, text="broken")
        if isinstance(reply, str):
            return web.Response(text=reply)
        response = {"uid": review["request"]["uid"], "allowed": True}
        top = {k: v for k, v in reply.items() if k in ("response", "apiVersion")}
        response |= {k: v for k, v in reply.items() if k not in top}
        return web.json_response({**review, "response": response, **top})

    hook.reply = answer
    await configure(http, "mutating", hook.config(failurePolicy=policy))
    made = await http("POST", PATH, pod())
    if policy == "Ignore":
        assert made.code == 201
    else:
        assert made.code == 500
        assert made.json["message"].startswith(
            'Internal error occurred: failed calling webhook "hook.example.com": '
        )
        assert why in made.json["message"]


async def test_a_webhook_that_is_too_slow_is_told_with_its_address(
    http: Http, hook: Hook, pod
) -> None:
    hook.delay = 30
    await configure(http, "mutating", hook.config(timeoutSeconds=1))
    reply = await http("POST", PATH, pod())
    url = f"https://127.0.0.1:{hook.port}/?timeout=1s"
    assert reply.json["message"].endswith(
        f'failed to call webhook: Post "{url}": context deadline exceeded'
    )


async def test_a_webhook_of_another_authority_is_not_believed(http: Http, hook: Hook, pod) -> None:
    config = hook.config()
    del config["clientConfig"]["caBundle"]
    await configure(http, "mutating", config)
    message = (await http("POST", PATH, pod())).json["message"]
    assert "tls: failed to verify certificate: x509: certificate signed by unknown authority" in (
        message
    )


async def test_a_dry_run_is_refused_if_the_webhook_is_stored_as_having_side_effects(
    http: Http, hook: Hook, pod, site
) -> None:
    await configure(http, "mutating", hook.config(sideEffects="NoneOnDryRun"))
    assert (await http("POST", f"{PATH}?dryRun=All", pod())).code == 201
    bad = {"webhooks": [hook.config(sideEffects="Some")], "metadata": {"name": "x"}}
    reply = await http("POST", f"{GROUP}/mutatingwebhookconfigurations", bad)
    assert reply.code == 422


async def test_what_a_webhook_makes_invalid_is_refused_as_any_object(
    http: Http, hook: Hook, pod
) -> None:
    hook.answer = lambda request: patch(add("/spec/restartPolicy", "Sometimes"))
    await configure(http, "mutating", hook.config())
    reply = await http("POST", PATH, pod())
    assert (reply.code, reply.json["reason"]) == (422, "Invalid")


async def test_a_patch_that_does_not_apply_is_an_internal_error(
    http: Http, hook: Hook, pod
) -> None:
    hook.answer = lambda request: patch({"op": "remove", "path": "/spec/nowhere"})
    await configure(http, "mutating", hook.config(failurePolicy="Ignore"))
    reply = await http("POST", PATH, pod())
    assert reply.code == 500


async def test_a_scale_is_seen_as_a_scale_and_changed_as_one(http: Http, hook: Hook) -> None:
    apps = "/apis/apps/v1/namespaces/default/deployments"
    labels = {"matchLabels": {"a": "b"}}
    template = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    deployment = {"metadata": {"name": "d"}, "spec": {"selector": labels, "template": template}}
    await http("POST", apps, deployment)
    hook.answer = lambda request: patch(add("/spec/replicas", 3))
    rule = {"apiGroups": ["apps"], "apiVersions": ["*"], "resources": ["*/scale"]}
    await configure(http, "mutating", hook.config(rules=[{**rule, "operations": ["UPDATE"]}]))
    scale = {"metadata": {"name": "d"}, "spec": {"replicas": 9}}
    assert (await http("PUT", f"{apps}/d/scale", scale)).json["spec"] == {"replicas": 3}
    (request,) = hook.requests
    assert request["kind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    assert (request["subResource"], request["object"]["spec"]) == ("scale", {"replicas": 9})
    assert (await http("GET", f"{apps}/d")).json["spec"]["replicas"] == 3
