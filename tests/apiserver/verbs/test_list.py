"""list: selectors, pages, revisions, forms."""

from __future__ import annotations

import pytest

from orlop.api import kinds
from orlop.store import Limits

MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
async def seven(local, config_map) -> None:
    for n in range(7):
        labels = {"n": str(n), "parity": "even" if n % 2 == 0 else "odd"}
        await local.create(kinds.CONFIG_MAP, config_map(f"m{n}", labels=labels))


def names(reply) -> list[str]:
    return [item["metadata"]["name"] for item in reply.json["items"]]


async def test_a_list_names_its_kind_and_revision(site, http, seven) -> None:
    reply = await http("GET", MAPS)
    assert (reply.json["kind"], reply.json["apiVersion"]) == ("ConfigMapList", "v1")
    assert reply.json["metadata"] == {"resourceVersion": str(site.store.revision)}
    assert names(reply) == [f"m{n}" for n in range(7)]


async def test_an_empty_list_has_items_all_the_same(http) -> None:
    assert (await http("GET", "/api/v1/namespaces/none/pods")).json["items"] == []


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("labelSelector=n%3D3", ["m3"]),
        ("labelSelector=parity%3Deven", ["m0", "m2", "m4", "m6"]),
        ("labelSelector=parity%3Deven,n+notin+(0,2)", ["m4", "m6"]),
        ("labelSelector=!n", []),
        ("fieldSelector=metadata.name%3Dm5", ["m5"]),
        ("fieldSelector=metadata.name!%3Dm5,metadata.namespace%3Ddefault",
         ["m0", "m1", "m2", "m3", "m4", "m6"]),
        ("fieldSelector=metadata.name%3Dm5&labelSelector=parity%3Deven", []),
        ("limit=2&labelSelector=parity%3Dodd", ["m1", "m3"]),
    ],
)  # fmt: skip
async def test_selectors_choose(http, seven, query, expected) -> None:
    assert names(await http("GET", f"{MAPS}?{query}")) == expected


@pytest.mark.parametrize(
    "query",
    [
        "labelSelector=a+b",
        "fieldSelector=data.k%3Dv",
        "fieldSelector=nonsense",
        "limit=x",
        "limit=-1",
        "continue=x",
        "continue=eyJ4IjoxfQ",
        "resourceVersion=x",
        "resourceVersionMatch=Exact",
        "resourceVersion=1&resourceVersionMatch=Never",
        "resourceVersion=0&resourceVersionMatch=Exact",
    ],
)
async def test_what_cannot_be_read_is_a_bad_request(http, query) -> None:
    reply = await http("GET", f"{MAPS}?{query}")
    assert (reply.code, reply.json["reason"]) == (400, "BadRequest")


async def pages(http, query: str = "limit=3"):
    token = ""
    while True:
        reply = await http("GET", f"{MAPS}?{query}&continue={token}")
        yield reply
        token = reply.json["metadata"].get("continue", "")
        if not token:
            return


async def test_pages_together_are_the_list(http, seven) -> None:
    seen = [page async for page in pages(http)]
    assert [names(page) for page in seen] == [["m0", "m1", "m2"], ["m3", "m4", "m5"], ["m6"]]
    remaining = [page.json["metadata"].get("remainingItemCount") for page in seen]
    assert remaining == [4, 1, None]


async def test_later_pages_are_of_the_revision_of_the_first(local, http, seven) -> None:
    seen = []
    async for page in pages(http):
        seen.append(page)
        if len(seen) == 1:
            await local.delete(kinds.CONFIG_MAP, key("m4"))
            await local.patch(kinds.CONFIG_MAP, key("m5"), {"data": {"k": "new"}})
            await local.create(kinds.CONFIG_MAP, {"metadata": {"name": "m45"}}, namespace="default")
    assert [name for page in seen for name in names(page)] == [f"m{n}" for n in range(7)]
    assert {page.json["metadata"]["resourceVersion"] for page in seen} == {
        seen[0].json["metadata"]["resourceVersion"]
    }
    changed = seen[1].json["items"][2]
    assert changed["data"] == {"k": "v"}


def key(name: str):
    from orlop.api.objects import Key

    return Key("default", name)


@pytest.mark.parametrize("limits", [Limits(events=3)], indirect=False)
async def test_a_page_of_a_forgotten_revision_is_gone_with_a_way_on(
    site, local, http, seven, limits
) -> None:
    first = await http("GET", f"{MAPS}?limit=3")
    for n in range(5):
        await local.patch(kinds.CONFIG_MAP, key("m0"), {"data": {"k": str(n)}})
    token = first.json["metadata"]["continue"]
    gone = await http("GET", f"{MAPS}?limit=3&continue={token}")
    assert (gone.code, gone.json["reason"]) == (410, "Expired")
    on = await http("GET", f"{MAPS}?limit=9&continue={gone.json['metadata']['continue']}")
    assert names(on) == ["m3", "m4", "m5", "m6"]


async def test_a_list_may_be_of_an_exact_revision(site, local, http, seven) -> None:
    before = site.store.revision
    await local.delete(kinds.CONFIG_MAP, key("m0"))
    exact = f"resourceVersion={before}&resourceVersionMatch=Exact"
    reply = await http("GET", f"{MAPS}?{exact}")
    assert "m0" in names(reply)
    assert reply.json["metadata"]["resourceVersion"] == str(before)
    newer = f"resourceVersion={before}&resourceVersionMatch=NotOlderThan"
    assert "m0" not in names(await http("GET", f"{MAPS}?{newer}"))
    assert "m0" not in names(await http("GET", f"{MAPS}?resourceVersion=0"))


async def test_a_revision_of_the_future_times_out(site, http) -> None:
    reply = await http("GET", f"{MAPS}?resourceVersion={site.store.revision + 100}")
    assert reply.code == 504
    assert reply.json["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"
    assert reply.headers["Retry-After"] == "1"


async def test_metadata_alone_is_enough_for_some(http, seven) -> None:
    accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    reply = await http("GET", MAPS, Accept=accept)
    assert reply.json["kind"] == "PartialObjectMetadataList"
    assert [set(item) for item in reply.json["items"]] == [{"kind", "apiVersion", "metadata"}] * 7


async def test_all_namespaces_are_listed_in_order(local, http) -> None:
    await local.create(kinds.NAMESPACE, {"metadata": {"name": "aaa"}})
    for place in ("default", "aaa"):
        await local.create(kinds.CONFIG_MAP, {"metadata": {"name": "x"}}, namespace=place)
    reply = await http("GET", "/api/v1/configmaps")
    places = [item["metadata"]["namespace"] for item in reply.json["items"]]
    assert places == ["aaa", "default"]
