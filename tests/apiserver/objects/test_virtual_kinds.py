"""A group that nobody keeps: found in discovery, got and listed, selected, refused to strangers."""

from __future__ import annotations

import pytest

from orlop import errors
from orlop.api.kinds import DEPLOYMENT, NODE_METRICS, POD, POD_METRICS
from orlop.api.objects import Key

CONTAINER = {"name": "c", "image": "busybox"}
BASE = "/apis/metrics.k8s.io/v1beta1"


class Measured:
    kinds = (NODE_METRICS, POD_METRICS)

    async def objects(self, kind, namespace):
        names = [("a", "one"), ("a", "two"), ("b", "one")]
        return [
            {
                "kind": kind.kind,
                "apiVersion": kind.api_version,
                "metadata": {"namespace": place, "name": name, "labels": {"app": name}},
                "window": "10s",
                "containers": [
                    {"name": "c", "usage": {"cpu": "250000000n", "memory": "1024Ki"}},
                    {"name": "d", "usage": {"cpu": "250000000n", "memory": "1024Ki"}},
                ],
            }
            for place, name in names
            if namespace in ("", place)
        ]


@pytest.fixture
def measured(site):
    site.server.serve_virtual(Measured())


async def test_the_group_is_not_there_until_somebody_measures(http):
    assert (await http("GET", BASE + "/pods")).code == 404
    groups = (await http("GET", "/apis")).json["groups"]
    assert "metrics.k8s.io" not in {group["name"] for group in groups}


async def test_it_is_in_discovery(http, measured):
    groups = (await http("GET", "/apis")).json["groups"]
    assert groups[-1]["name"] == "metrics.k8s.io"
    resources = (await http("GET", BASE)).json["resources"]
    assert {one["name"]: one["verbs"] for one in resources} == {
        "nodes": ["get", "list"],
        "pods": ["get", "list"],
    }


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/pods", ["a/one", "a/two", "b/one"]),
        ("/namespaces/a/pods", ["a/one", "a/two"]),
        ("/pods?labelSelector=app%3Done", ["a/one", "b/one"]),
        ("/namespaces/a/pods?fieldSelector=metadata.name%3Dtwo", ["a/two"]),
        ("/namespaces/none/pods", []),
    ],
    ids=["all", "a namespace", "labels", "fields", "nothing"],
)
async def test_lists_are_selected(http, measured, path, found):
    answer = (await http("GET", BASE + path)).json
    names = [f"{one['metadata']['namespace']}/{one['metadata']['name']}" for one in answer["items"]]
    assert (answer["kind"], names) == ("PodMetricsList", found)


async def test_one_is_got_or_not_found(http, measured):
    assert (await http("GET", BASE + "/namespaces/b/pods/one")).json["window"] == "10s"
    answer = await http("GET", BASE + "/namespaces/b/pods/two")
    assert (answer.code, answer.json["reason"]) == (404, "NotFound")


async def test_tables_add_containers_up(http, measured):
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    table = (await http("GET", BASE + "/namespaces/b/pods", Accept=accept)).json
    assert [column["name"] for column in table["columnDefinitions"]][1:3] == ["cpu", "memory"]
    assert table["rows"][0]["cells"] == ["one", "500m", "2Mi", "10s"]


async def test_nothing_is_written(http, measured):
    assert (await http("DELETE", BASE + "/namespaces/b/pods/one")).code == 405


async def test_it_needs_a_right(site, measured):
    async with site.http("bob") as bob:
        assert (await bob("GET", BASE + "/pods")).code == 403


async def test_our_own_components_see_the_same(api, measured):
    found = await api.list(POD_METRICS, "a", labels="app=two")
    assert [one["metadata"]["name"] for one in found.items] == ["two"]
    assert (await api.get(POD_METRICS, Key("b", "one")))["window"] == "10s"
    with pytest.raises(errors.NotFound):
        await api.get(POD_METRICS, Key("b", "two"))


async def test_groups_of_other_servers_are_not_found_until_there_are_any(local, site):
    with pytest.raises(errors.NotFound):
        await local.get_raw("/apis/external.metrics.k8s.io/v1beta1")

    async def other(user, path, query):
        return {"path": path, "query": dict(query)}

    site.server.registry.aggregated = other
    answer = await local.get_raw("/apis/x", {"labelSelector": "a=b"})
    assert answer == {"path": "/apis/x", "query": {"labelSelector": "a=b"}}


async def test_a_scale_is_got_by_both_transports(api):
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [CONTAINER]}}
    spec = {"replicas": 3, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    await api.create(DEPLOYMENT, {"metadata": {"name": "web"}, "spec": spec}, namespace="default")
    scale = await api.get_subresource(DEPLOYMENT, Key("default", "web"), "scale")
    assert (scale["kind"], scale["spec"]["replicas"]) == ("Scale", 3)
    assert scale["status"]["selector"] == "a=b"
    with pytest.raises(errors.NotFound):
        await api.get_subresource(POD, Key("default", "web"), "scale")
