"""Conversion by webhook: both ways, for every verb, and what is not believed."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web

from tests.apiserver.conftest import Http, Site

from .conftest import THINGS, definition, eventually, serve

Obj = dict[str, Any]
BETA = THINGS.replace("/v1/", "/v1beta1/")
MERGE = "application/merge-patch+json"
TEXT = {"type": "string"}


def version(name: str, fields: Obj, *, storage: bool) -> Obj:
    spec = {"type": "object", "properties": fields}
    schema = {"type": "object", "properties": {"spec": spec}}
    columns = [{"name": "Host", "type": "string", "jsonPath": ".spec.host"}]
    return {
        "name": name,
        "served": True,
        "storage": storage,
        "schema": {"openAPIV3Schema": schema},
        "additionalPrinterColumns": columns,
        "selectableFields": [{"jsonPath": f".spec.{next(iter(fields))}"}],
    }


@dataclass
class Webhook:
    """Splits `address` of v1beta1 into `host` and `port` of v1, and joins them again."""

    port: int = 0
    reviews: list[Obj] = field(default_factory=list)
    twist: Any = None  # changes an answer before it is sent

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        review = await request.json()
        self.reviews.append(review)
        wanted = review["request"]["desiredAPIVersion"]
        response = {
            "uid": review["request"]["uid"],
            "result": {"status": "Success"},
            "convertedObjects": [converted(one, wanted) for one in review["request"]["objects"]],
        }
        if self.twist is not None:
            self.twist(response)
        return web.json_response({**review, "request": None, "response": response})


def converted(obj: Obj, wanted: str) -> Obj:
    spec = dict(obj["spec"])
    if wanted.endswith("v1"):
        host, _, port = spec.pop("address").partition(":")
        spec |= {"host": host, "port": port}
    else:
        spec["address"] = f"{spec.pop('host')}:{spec.pop('port')}"
    return {**obj, "apiVersion": wanted, "spec": spec}


@pytest.fixture
async def webhook(site: Site) -> AsyncIterator[Webhook]:
    made = Webhook()
    runner = web.ServerRunner(web.Server(made.handle))
    await runner.setup()
    tls = site.authority.server_context(site.authority.apiserver)
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    made.port = runner.addresses[0][1]
    yield made
    await runner.cleanup()


def with_client(config: Obj) -> Obj:
    conversion = {
        "strategy": "Webhook",
        "webhook": {"clientConfig": config, "conversionReviewVersions": ["v1"]},
    }
    v1 = version("v1", {"host": TEXT, "port": TEXT}, storage=True)
    beta = version("v1beta1", {"address": TEXT}, storage=False)
    return definition(v1, beta, conversion=conversion)


@pytest.fixture
async def things(http: Http, site: Site, webhook: Webhook) -> Http:
    bundle = base64.b64encode(site.authority.ca.read_bytes()).decode()
    url = f"https://127.0.0.1:{webhook.port}/convert"
    await serve(http, with_client({"url": url, "caBundle": bundle}))
    return http


def beta(name: str = "a", address: str = "h:80") -> Obj:
    return {
        "apiVersion": "example.com/v1beta1",
        "kind": "Thing",
        "metadata": {"name": name},
        "spec": {"address": address},
    }


async def test_an_object_is_kept_in_the_storage_version_and_read_in_any(things: Http) -> None:
    made = await things("POST", BETA, beta())
    assert (made.code, made.json["spec"]) == (201, {"address": "h:80"})
    assert (await things("GET", f"{THINGS}/a")).json["spec"] == {"host": "h", "port": "80"}
    assert (await things("GET", f"{BETA}/a")).json["spec"] == {"address": "h:80"}
    assert (await things("GET", BETA)).json["items"][0]["spec"] == {"address": "h:80"}


async def test_the_review_is_as_upstream_sends_it(things: Http, webhook: Webhook) -> None:
    await things("POST", BETA, beta())
    review = webhook.reviews[0]
    assert (review["kind"], review["apiVersion"]) == ("ConversionReview", "apiextensions.k8s.io/v1")
    assert review["request"]["desiredAPIVersion"] == "example.com/v1"
    assert review["request"]["objects"][0]["metadata"]["name"] == "a"


async def test_what_was_converted_once_is_remembered(things: Http, webhook: Webhook) -> None:
    await things("POST", BETA, beta())
    await things("GET", f"{BETA}/a")
    before = len(webhook.reviews)
    await things("GET", f"{BETA}/a")
    await things("GET", BETA)
    assert len(webhook.reviews) == before


async def test_updates_and_patches_are_made_in_the_version_of_the_client(things: Http) -> None:
    made = (await things("POST", BETA, beta())).json
    made["spec"]["address"] = "i:81"
    assert (await things("PUT", f"{BETA}/a", made)).json["spec"] == {"address": "i:81"}
    patch = {"spec": {"address": "j:82"}}
    dry = await things("PATCH", f"{BETA}/a?dryRun=All", patch, Content_Type=MERGE)
    assert dry.json["spec"] == {"address": "j:82"}
    assert (await things("GET", f"{BETA}/a")).json["spec"] == {"address": "i:81"}
    reply = await things("PATCH", f"{BETA}/a", patch, Content_Type=MERGE)
    assert reply.json["spec"] == {"address": "j:82"}
    assert reply.json["metadata"]["generation"] == 3
    assert (await things("GET", f"{THINGS}/a")).json["spec"] == {"host": "j", "port": "82"}


async def test_selectors_see_the_version_of_the_client(things: Http) -> None:
    await things("POST", BETA, beta("a", "h:80"))
    await things("POST", BETA, beta("b", "h:81"))
    found = (await things("GET", f"{BETA}?fieldSelector=spec.address%3Dh:81")).json
    assert [one["metadata"]["name"] for one in found["items"]] == ["b"]


async def test_a_watch_shows_the_version_of_the_client(things: Http) -> None:
    async def first() -> Obj:
        url = f"{things.url}{BETA}?watch=true&resourceVersion=0&timeoutSeconds=3"
        async with things.session.get(url) as response:
            return dict(json.loads(await response.content.readline()))

    async with asyncio.TaskGroup() as group:
        task = group.create_task(first())
        await asyncio.sleep(0.1)
        await things("POST", THINGS, {**beta(), "apiVersion": "example.com/v1",
                                      "spec": {"host": "h", "port": "9"}})  # fmt: skip
    assert task.result()["object"]["spec"] == {"address": "h:9"}


def _other_uid(response: Obj) -> None:
    response["uid"] = "x"


def _failure(response: Obj) -> None:
    response["result"] = {"status": "Failure", "message": "I would rather not"}


def _none(response: Obj) -> None:
    response["convertedObjects"] = []


def _other_version(response: Obj) -> None:
    response["convertedObjects"][0]["apiVersion"] = "example.com/v9"


def _other_name(response: Obj) -> None:
    response["convertedObjects"][0]["metadata"]["name"] = "other"


def _first(change: Callable[[Obj], object]) -> Callable[[Obj], None]:
    def twist(response: Obj) -> None:
        change(response["convertedObjects"][0])

    return twist


def _instead(objects: Any) -> Callable[[Obj], None]:
    def twist(response: Obj) -> None:
        response["convertedObjects"] = objects

    return twist


def _deep() -> Any:
    value: Any = 1
    for _ in range(300):
        value = [value]
    return value


HOSTILE = [
    (_first(lambda obj: obj["metadata"].update(namespace="kube-system")), "namespace changed"),
    (_first(lambda obj: obj["metadata"].update(uid="x")), "uid changed"),
    (_first(lambda obj: obj.update(kind="Secret")), "invalid kind"),
    (_first(lambda obj: obj.update(metadata=[])), "it has no metadata"),
    (_first(lambda obj: obj["metadata"].update(labels=["a"])), "metadata.labels must be texts"),
    (_first(lambda obj: obj["metadata"].update(annotations={"a": 1})), "annotations must be texts"),
    (_first(lambda obj: obj.update(spec={"a": _deep()})), "nested more than"),
    (_first(lambda obj: obj.update(spec={"a": [{}] * 200_000})), "values"),
    (_first(lambda obj: obj.update(spec={"a": "x" * (4 << 20)})), "which is more than"),
    (_instead("abc"), "no list"),
    (_instead({"a": 1}), "no list"),
    (_instead([None]), "it has no metadata"),
    (_instead([[]]), "it has no metadata"),
    (_instead([{}, {}, {}]), "webhook returned 3 objects"),
    (lambda response: response.update(result=[]), "its answer has status"),
    (lambda response: response.update(result={"status": ["x"] * 10_000}), "its answer has status"),
]


@pytest.mark.parametrize(("twist", "why"), HOSTILE, ids=[why for _, why in HOSTILE])
async def test_a_hostile_answer_is_refused_and_nothing_is_kept(
    things: Http, webhook: Webhook, twist: Any, why: str
) -> None:
    webhook.twist = twist
    reply = await things("POST", BETA, beta())
    assert (reply.code, why in reply.json["message"]) == (500, True), reply.json["message"][:300]
    assert "see the control plane's log" not in reply.json["message"]
    assert len(reply.text) < 20_000
    assert (await things("GET", THINGS)).json["items"] == []


async def test_what_may_not_change_is_as_it_was(things: Http, webhook: Webhook) -> None:
    """Labels and annotations may; owners, finalizers and who manages what may not."""

    def twist(obj: Obj) -> None:
        obj["metadata"] |= {
            "labels": {"a": "b"}, "finalizers": ["x.io/y"], "generation": 9,
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "b"}],
        }  # fmt: skip

    webhook.twist = _first(twist)
    assert (await things("POST", BETA, beta())).code == 201
    webhook.twist = lambda response: None
    kept = (await things("GET", f"{THINGS}/a")).json["metadata"]
    assert kept["labels"] == {"a": "b"}
    assert "finalizers" not in kept
    assert "ownerReferences" not in kept
    assert kept["generation"] == 1


@pytest.mark.parametrize(
    ("twist", "why"),
    [
        (_other_uid, "expected response.uid="),
        (_failure, "I would rather not"),
        (_none, "webhook returned 0 objects, expected 1"),
        (_other_version, "invalid groupVersion"),
        (_other_name, "invalid metadata of object a: name changed"),
    ],
)
async def test_an_answer_that_is_not_right_is_not_believed(
    things: Http, webhook: Webhook, twist: Any, why: str
) -> None:
    webhook.twist = twist
    reply = await things("POST", BETA, beta())
    assert reply.code == 500
    assert reply.json["message"].startswith(
        "conversion webhook for example.com/v1beta1, Kind=Thing"
    )
    assert why in reply.json["message"]
    assert (await things("GET", THINGS)).json["items"] == []


async def test_the_storage_version_needs_no_webhook(things: Http, webhook: Webhook) -> None:
    webhook.twist = _failure
    body = {**beta(), "apiVersion": "example.com/v1", "spec": {"host": "h", "port": "1"}}
    assert (await things("POST", THINGS, body)).code == 201
    assert (await things("GET", f"{THINGS}/a")).code == 200
    assert (await things("GET", f"{BETA}/a")).code == 500
    assert (await things("DELETE", f"{THINGS}/a")).code == 200


async def test_a_service_that_is_not_there_is_told(http: Http) -> None:
    await serve(http, with_client({"service": {"name": "conv", "namespace": "default"}}))
    reply = await http("POST", BETA, beta())
    assert reply.code == 500
    assert (
        'https://conv.default.svc:443/?timeout=30s": services "conv" not found'
        in (reply.json["message"])
    )


async def test_a_webhook_that_nobody_serves_is_told(http: Http) -> None:
    await serve(http, with_client({"url": "https://127.0.0.1:1/", "caBundle": "bm9uZQ=="}))
    reply = await http("POST", BETA, beta())
    assert reply.code == 500
    assert "its caBundle holds no certificate" in reply.json["message"]


async def test_a_definition_goes_although_its_webhook_does_not_answer(
    things: Http, webhook: Webhook
) -> None:
    await things("POST", BETA, beta())
    webhook.twist = _failure
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.example.com"
    await things("DELETE", path)

    async def is_gone() -> bool:
        return (await things("GET", path)).code == 404

    await eventually(is_gone)
