"""/metrics: who may read it, and what it says of requests and objects."""

from __future__ import annotations

import asyncio
import re

import pytest

from orlop.api import kinds
from orlop.apiserver.request import metrics as instruments
from orlop.apiserver.request.requestinfo import parse

MAPS = "/api/v1/namespaces/default/configmaps"


def series(text: str, name: str, **labels: str) -> float:
    """The sum of all series of a name with these labels."""
    total = 0.0
    for found, value in re.findall(rf"(?m)^{name}\{{(.*)\}} (\S+)$", text):
        if all(f'{key}="{wanted}"' in found for key, wanted in labels.items()):
            total += float(value)
    return total


async def metrics(http) -> str:
    reply = await http("GET", "/metrics")
    assert reply.code == 200
    assert reply.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    return reply.text


async def test_requests_are_counted_by_verb_resource_and_code(http, config_map) -> None:
    before = await metrics(http)
    await http("POST", MAPS, config_map("a"))
    await http("GET", f"{MAPS}/a")
    await http("GET", f"{MAPS}/none")
    await http("GET", MAPS)
    after = await metrics(http)
    for labels in (
        {"verb": "POST", "code": "201", "scope": "namespace"},
        {"verb": "GET", "code": "200", "scope": "resource"},
        {"verb": "GET", "code": "404", "scope": "resource"},
        {"verb": "LIST", "code": "200", "scope": "namespace"},
    ):
        labels |= {"resource": "configmaps", "version": "v1", "component": "apiserver"}
        name = "apiserver_request_total"
        assert series(after, name, **labels) == series(before, name, **labels) + 1
    name = "apiserver_request_duration_seconds_count"
    labels = {"verb": "GET", "resource": "configmaps"}
    assert series(after, name, **labels) == series(before, name, **labels) + 2


async def test_a_watch_is_long_running_and_no_latency(http, site) -> None:
    name, labels = "apiserver_longrunning_requests", {"verb": "WATCH", "resource": "configmaps"}
    before = series(await metrics(http), name, **labels)
    watch = asyncio.ensure_future(http("GET", f"{MAPS}?watch=1&timeoutSeconds=1"))
    await asyncio.sleep(0.3)
    during = await metrics(http)
    assert series(during, name, **labels) == before + 1
    await watch
    after = await metrics(http)
    assert series(after, name, **labels) == before
    assert series(after, "apiserver_request_duration_seconds_count", verb="WATCH") == 0
    assert series(after, "apiserver_request_total", **labels, code="200") >= 1


async def test_stored_objects_are_counted_by_kind(http, local, config_map) -> None:
    for name in "abc":
        await local.create(kinds.CONFIG_MAP, config_map(name))
    text = await metrics(http)
    assert series(text, "apiserver_storage_objects", resource="configmaps") == 3
    assert series(text, "apiserver_storage_objects", resource="namespaces") == 4


async def test_only_who_may_reads_them(site, local) -> None:
    async with site.http("eve") as eve:
        reply = await eve("GET", "/metrics")
        assert reply.code == 403
        assert reply.json["message"] == 'forbidden: User "eve" cannot get path "/metrics"'
    async with site.http("prometheus", ("system:monitoring",)) as monitor:
        assert (await monitor("GET", "/metrics")).code == 200
        assert (await monitor("POST", "/metrics", {})).code == 403


@pytest.mark.parametrize(
    ("method", "path", "labels"),
    [
        ("GET", "/api/v1/nodes", ("LIST", "nodes", "", "cluster")),
        ("PUT", "/api/v1/namespaces/a/pods/b/status", ("PUT", "pods", "status", "resource")),
        ("GET", "/api/v1/namespaces/a/pods/b/exec", ("CONNECT", "pods", "exec", "resource")),
        ("GET", "/api/v1/namespaces/a/pods/b/made-up", ("GET", "pods", "", "resource")),
        ("MADEUP", "/api/v1/pods", ("OTHER", "pods", "", "cluster")),
        ("GET", "/api/v1/madeup", ("LIST", "", "", "")),
        ("GET", "/made/up", ("GET", "", "", "")),
    ],
)
def test_nobody_can_make_up_labels(method, path, labels) -> None:
    info = parse(method, path, {})
    kind = kinds.Kinds().by_resource(info.group, info.version, info.resource)
    verb, _, _, resource, subresource, scope, _ = instruments.labels_of(info, kind)
    assert (verb, resource, subresource, scope) == labels
