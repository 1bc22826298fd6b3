"""An index finds what a scan finds, after any changes, and no more than it must look at."""

from __future__ import annotations

import random
from pathlib import Path

import msgspec

from orlop.api.objects import Key
from orlop.store import Record, Store
from orlop.store.index import Index


def terms_of(record: Record) -> list[str]:
    return [f"{key}={value}" for key, value in record.decode()["labels"].items()]


def record(name: str, **labels: str) -> Record:
    return Record(1, Key("default", name), msgspec.json.encode({"labels": labels}))


def test_the_rarest_of_several_terms_decides():
    index = Index(terms_of, [record(f"n{n}", app="web", one=str(n)) for n in range(5)])
    assert index.keys(["app=web", "one=3"]) == {Key("default", "n3")}
    assert len(index.keys(["app=web"])) == 5
    assert index.keys(["app=web", "one=9"]) == set()


def test_an_object_that_changes_is_found_under_its_new_terms_alone():
    index = Index(terms_of, [record("a", app="web")])
    index.put(record("a", app="db"))
    assert index.keys(["app=web"]) == set()
    assert index.keys(["app=db"]) == {Key("default", "a")}
    index.remove(Key("default", "a"))
    assert index.keys(["app=db"]) == set()


async def test_the_store_finds_by_terms_what_a_list_would_show(tmp_path: Path):
    rng, store = random.Random(3), await Store.open(tmp_path / "state.db")
    names = [Key(f"ns{n % 2}", f"n{n}") for n in range(20)]
    for _ in range(200):
        key = rng.choice(names)
        there = store.newest("things", key)
        obj = {"metadata": {"name": key.name}, "labels": {"app": rng.choice("abc")}}
        if there is None:
            await store.create("things", key, obj)
        elif rng.random() < 0.3:
            await store.delete("things", key, obj, expected=there.revision)
        else:
            await store.update("things", key, obj, expected=there.revision)
        for namespace in ("", "ns0"):
            listed = store.list("things", namespace).records
            expected = [one for one in listed if one.decode()["labels"]["app"] == "a"]
            assert store.find("things", ["app=a"], terms_of, namespace).records == expected
    await store.close()
