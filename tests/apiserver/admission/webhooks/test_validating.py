"""Webhooks that refuse objects, what they may not do, and configurations that are not right."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from orlop.apiserver.admission.webhooks.review import verdict_of
from orlop.apiserver.proxy.webhook_client import CallFailed
from tests.apiserver.conftest import Http, Site

from .conftest import GROUP, PODS, Hook, Kubelet, configure, patch, serve_by

Obj = dict[str, Any]
PATH = "/api/v1/namespaces/default/pods"


async def test_it_sees_the_object_as_it_would_be_kept(http: Http, hook: Hook, pod) -> None:
    await configure(http, "validating", hook.config())
    made = (await http("POST", PATH, pod())).json
    assert hook.requests[0]["object"]["metadata"]["uid"] == made["metadata"]["uid"]
    assert hook.requests[0]["object"]["status"]["phase"] == "Pending"


async def test_all_are_asked_and_one_refusal_is_enough(http: Http, hook: Hook, pod) -> None:
    hook.answer = lambda request: {
        "allowed": len(hook.requests) != 2,
        "status": {"message": "the second", "code": 403},
    }
    webhooks = [hook.config(f"w{number}.example.com") for number in range(3)]
    await configure(http, "validating", *webhooks)
    reply = await http("POST", PATH, pod())
    assert (reply.code, len(hook.requests)) == (403, 3)
    assert reply.json["message"].endswith("denied the request: the second")


async def test_it_may_not_change_the_object(http: Http, hook: Hook, pod) -> None:
    hook.answer = lambda request: patch({"op": "remove", "path": "/spec"})
    await configure(http, "validating", hook.config())
    message = (await http("POST", PATH, pod())).json["message"]
    assert "validating webhook may not return response.patch" in message


async def test_a_deletion_can_be_refused(http: Http, hook: Hook, pod) -> None:
    await http("POST", PATH, pod())
    hook.answer = lambda request: {"allowed": False, "status": {"message": "it stays"}}
    rules = [{**PODS, "operations": ["DELETE"]}]
    await configure(http, "validating", hook.config(rules=rules))
    for method, path in (("DELETE", f"{PATH}/a"), ("DELETE", PATH)):
        reply = await http(method, path)
        assert reply.code == 400, reply.text
        assert reply.json["message"].endswith("denied the request: it stays")
    assert (await http("GET", f"{PATH}/a")).code == 200


async def test_a_webhook_behind_a_service_is_reached_through_the_kubelet(
    http: Http, hook: Hook, site: Site, kubelet: Kubelet, pod, service_authority
) -> None:
    """TLS is from the API server to the pod: its certificate has the name of the service."""
    hook.answer = lambda request: {"allowed": False, "status": {"message": "seen"}}
    async with service_authority(hook) as (port, bundle):
        await serve_by(site, "hook", 443, target=port)
        service = {"name": "hook", "namespace": "default", "path": "/check"}
        config = hook.config(clientConfig={"service": service, "caBundle": bundle})
        config["rules"][0]["operations"] = ["CREATE"]
        await configure(http, "validating", config)
        for _ in range(3):
            reply = await http("POST", PATH, pod("b"))
            assert reply.json["message"].endswith("denied the request: seen")
    assert hook.paths == ["/check?timeout=10s"] * 3
    assert kubelet.asked == [f"/portForward/default/hook-pod?ports={port}"]  # and used again


@pytest.mark.parametrize(
    ("setup", "why"),
    [
        ("none", 'services "hook" not found'),
        ("not ready", 'no endpoints available for service "hook"'),
        ("other port", 'no service port 8443 found for service "hook"'),
        ("nobody listens", "error forwarding port 1:"),
    ],
)
async def test_a_service_that_cannot_be_reached_is_told(
    http: Http, hook: Hook, site: Site, kubelet: Kubelet, pod, setup, why
) -> None:
    if setup != "none":
        await serve_by(site, "hook", 443, target=1, ready=setup != "not ready")
    service = {"name": "hook", "namespace": "default"}
    service |= {"port": 8443} if setup == "other port" else {}
    config = hook.config(clientConfig={"service": service, "caBundle": hook.bundle})
    await configure(http, "validating", config)
    reply = await http("POST", PATH, pod("b"))
    assert reply.code == 500
    assert why in reply.json["message"]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": "short"}, "webhooks[0].name"),
        ({"sideEffects": None}, "webhooks[0].sideEffects"),
        ({"sideEffects": "Some"}, "webhooks[0].sideEffects"),
        ({"admissionReviewVersions": []}, "webhooks[0].admissionReviewVersions"),
        ({"admissionReviewVersions": ["v2"]}, "webhooks[0].admissionReviewVersions"),
        ({"timeoutSeconds": 31}, "webhooks[0].timeoutSeconds"),
        ({"failurePolicy": "Perhaps"}, "webhooks[0].failurePolicy"),
        ({"clientConfig": {}}, "webhooks[0].clientConfig"),
        ({"clientConfig": {"url": "http://x/"}}, "webhooks[0].clientConfig.url"),
        ({"clientConfig": {"url": "https://x/?a=b"}}, "webhooks[0].clientConfig.url"),
        ({"clientConfig": {"service": {"name": "x"}}},
         "webhooks[0].clientConfig.service.namespace"),
        ({"rules": [{**PODS, "operations": ["SELL"]}]}, "webhooks[0].rules[0].operations[0]"),
        ({"rules": [{**PODS, "operations": []}]}, "webhooks[0].rules[0].operations"),
        ({"matchConditions": [{"name": "x", "expression": "object."}]},
         "webhooks[0].matchConditions[0].expression"),
        ({"matchConditions": [{"name": "x", "expression": "nobody"}]},
         "webhooks[0].matchConditions[0].expression"),
    ],
)  # fmt: skip
async def test_a_configuration_that_is_not_right_is_refused(
    http: Http, hook: Hook, change, field
) -> None:
    webhook = {**hook.config(), **change}
    body = {"metadata": {"name": "x"}, "webhooks": [webhook]}
    reply = await http("POST", f"{GROUP}/validatingwebhookconfigurations", body)
    assert reply.code == 422, reply.text
    assert field in [cause["field"] for cause in reply.json["details"]["causes"]]


async def test_calls_are_counted_under_upstreams_names(http: Http, hook: Hook, pod) -> None:
    config = hook.config("counted.example.com")
    config["rules"][0]["operations"] = ["CREATE"]
    await configure(http, "validating", config)
    await http("POST", PATH, pod())
    hook.answer = lambda request: {"allowed": False, "status": {"code": 403}}
    await http("POST", PATH, pod("b"))
    text = (await http("GET", "/metrics")).text
    lines = [line for line in text.splitlines() if "counted.example.com" in line]
    assert any("webhook_request_total" in line and 'rejected="false"' in line for line in lines)
    refused = [line for line in lines if "webhook_rejection_count" in line]
    assert len(refused) == 1
    assert 'error_type="no_error"' in refused[0]
    assert 'rejection_code="403"' in refused[0]


@pytest.mark.parametrize("nonsense", [{"warnings": 5}, {"auditAnnotations": [1]}], ids=str)
def test_an_answer_of_other_types_is_none(nonsense: Obj) -> None:
    """So that the failure policy applies to it."""
    answer = {"response": {"uid": "u", "allowed": True, **nonsense}}
    with pytest.raises(CallFailed, match="received invalid webhook response"):
        verdict_of(answer, "u", "v1beta1", is_mutating=False)


async def test_an_answer_may_come_in_pieces(http: Http, hook: Hook, pod) -> None:
    async def pieces(review: Obj) -> AsyncIterator[bytes]:
        response = {"uid": review["request"]["uid"], "allowed": False}
        said = json.dumps({**review, "request": None, "response": response}).encode()
        for piece in (said[:40], said[40:]):
            yield piece
            await asyncio.sleep(0.05)  # so that each is a piece of its own

    hook.reply = lambda review: web.Response(body=pieces(review), content_type="application/json")
    await configure(http, "validating", hook.config())
    refused = await http("POST", PATH, pod())
    assert "denied the request" in refused.json["message"]
