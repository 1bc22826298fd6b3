"""Equal parts are one object; different ones stay apart."""

from __future__ import annotations

from orlop.api.kinds import POD
from orlop.api.objects import Key
from orlop.client.sharing import Shared
from tests.controllers.world import World, pod


def test_an_equal_part_is_the_same_object():
    shared = Shared()
    first = {"a": [1, {"b": "c"}]}
    assert shared.one(first) is first
    assert shared.one({"a": [1, {"b": "c"}]}) is first
    assert shared.one({"a": [2]}) == {"a": [2]}


def test_what_was_not_used_for_long_is_forgotten():
    shared = Shared(size=2)
    first = shared.one({"n": 1})
    shared.one({"n": 2})
    assert shared.one({"n": 1}) is first
    shared.one({"n": 3})
    assert shared.one({"n": 1}) is first
    assert shared.one({"n": 2}) is not None


async def test_pods_of_one_template_share_their_spec_in_the_cache(cluster: World):
    for name in ("a", "b"):
        await cluster.create(POD, pod(name, labels={"app": "web"}))
    await cluster.create(POD, pod("c", hostname="else"))
    async with cluster.running() as informers:
        pods = informers.informer(POD)
        await pods.synced()
        first, second, third = (pods.get(Key("default", name)) for name in "abc")
        assert first["spec"] is second["spec"]
        assert first["metadata"]["labels"] is second["metadata"]["labels"]
        assert first["metadata"]["name"] != second["metadata"]["name"]
        assert third["spec"]["hostname"] == "else"
