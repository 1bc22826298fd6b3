"""Indexes follow every put and drop."""

from __future__ import annotations

import pytest

from orlop.api.objects import Key, labels_of
from orlop.client.cache import Cache


def obj(name: str, namespace: str = "ns", **labels: str) -> dict:
    return {"metadata": {"name": name, "namespace": namespace, "labels": labels}}


@pytest.fixture
def cache() -> Cache:
    cache = Cache()
    cache.add_index("colour", lambda o: [labels_of(o)[c] for c in ("a", "b") if c in labels_of(o)])
    return cache


def names(objects: list) -> list[str]:
    return sorted(o["metadata"]["name"] for o in objects)


def test_objects_are_found_by_key_and_by_namespace(cache):
    for item in (obj("x"), obj("y"), obj("z", "other")):
        cache.put(item)
    assert cache.get(Key("ns", "x")) == obj("x")
    assert names(cache.list("ns")) == ["x", "y"]
    assert names(cache.list()) == ["x", "y", "z"]
    assert len(cache) == 3


def test_an_object_may_have_several_values_of_an_index(cache):
    cache.put(obj("x", a="red", b="blue"))
    assert names(cache.by_index("colour", "red")) == ["x"]
    assert names(cache.by_index("colour", "blue")) == ["x"]


def test_a_changed_object_leaves_its_former_values(cache):
    cache.put(obj("x", a="red"))
    assert cache.put(obj("x", a="green")) == obj("x", a="red")
    assert cache.by_index("colour", "red") == []
    assert cache.count_by_index("colour", "green") == 1


def test_a_dropped_object_leaves_everything(cache):
    cache.put(obj("x", a="red"))
    assert cache.drop(Key("ns", "x")) == obj("x", a="red")
    assert cache.drop(Key("ns", "x")) is None
    assert (cache.list(), cache.list("ns"), cache.by_index("colour", "red")) == ([], [], [])


def test_an_index_made_late_knows_what_is_there(cache):
    cache.put(obj("x", a="red"))
    cache.add_index("name", lambda o: [o["metadata"]["name"]])
    assert names(cache.by_index("name", "x")) == ["x"]


def test_an_index_of_the_same_name_is_the_same_index(cache):
    cache.put(obj("x", a="red"))
    cache.add_index("colour", lambda o: ["never"])
    assert names(cache.by_index("colour", "red")) == ["x"]


def test_what_a_fresh_list_lacks_is_named(cache):
    cache.put(obj("x"))
    cache.put(obj("y"))
    assert set(cache.absent_from({Key("ns", "x")})) == {Key("ns", "y")}
