"""A shape with one of everything, objects of it by hypothesis, and writes of it in one line."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from orlop.api.managedfields.manager import apply, update
from orlop.api.managedfields.shapes import DEDUCED, LEAF, SET, KeyedList, Map, Struct
from orlop.api.managedfields.write import Write

ITEM = Struct({"name": LEAF, "port": LEAF, "value": LEAF, "labels": Map(LEAF)})
POINTER = Struct({"x": LEAF, "y": LEAF})
IMPLIED = Struct({"x": LEAF, "labels": Map(LEAF)})
SHAPE = Struct(
    {
        "scalar": LEAF,
        "atomic": LEAF,
        "map": Map(LEAF),
        "items": KeyedList(("name", "port"), ITEM, {"port": 80}),
        "set": SET,
        "pointer": POINTER,
        "implied": IMPLIED,
        "any": DEDUCED,
        "metadata": Struct({"labels": Map(LEAF)}),
    },
    {"implied", "metadata"},
)

scalars = st.integers(1, 3)
maps = st.dictionaries(st.sampled_from("abc"), scalars, max_size=3)


def _fields(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


items = st.builds(
    lambda name, port, rest: {"name": name} | ({"port": port} if port else {}) | rest,
    st.sampled_from("pqr"),
    st.sampled_from([None, 80, 81]),
    _fields(value=scalars, labels=maps.filter(bool)),
)


def _key(item: dict[str, Any]) -> tuple[str, int]:
    return item["name"], item.get("port", 80)


objects = _fields(
    scalar=scalars,
    atomic=st.lists(scalars, min_size=1, max_size=2),
    map=maps.filter(bool),
    items=st.lists(items, min_size=1, max_size=3, unique_by=_key),
    set=st.lists(scalars, min_size=1, unique=True),
    pointer=_fields(x=scalars, y=scalars).filter(bool),
    implied=_fields(x=scalars, labels=maps.filter(bool)).filter(bool),
    any=st.dictionaries(st.sampled_from("ab"), st.one_of(scalars, maps), min_size=1),
)


def write(manager: str = "m", *, at: int = 0, version: str = "v1", subresource: str = "") -> Write:
    return Write(manager, version, SHAPE, f"2026-01-01T00:00:{at:02}Z", subresource)


def applied(
    live: dict[str, Any] | None,
    config: dict[str, Any],
    manager: str = "m",
    *,
    at: int = 0,
    force: bool = False,
) -> dict[str, Any]:
    return apply(write(manager, at=at), live, config, force=force)


def updated(
    old: dict[str, Any] | None, new: dict[str, Any], manager: str = "u", *, at: int = 0
) -> dict[str, Any]:
    """`new` as it is kept after an update by `manager`; entries come from `old`."""
    metadata = dict(new.get("metadata") or {})
    if old is not None and "managedFields" in old["metadata"]:
        metadata.setdefault("managedFields", old["metadata"]["managedFields"])
    kept = {**new, "metadata": metadata}
    update(write(manager, at=at), old, kept)
    return kept


def bare(obj: dict[str, Any]) -> dict[str, Any]:
    """The object without its metadata."""
    return {name: value for name, value in obj.items() if name != "metadata"}


def owners(obj: dict[str, Any]) -> dict[str, Any]:
    """The fields of each manager."""
    entries = obj["metadata"].get("managedFields", [])
    return {entry["manager"]: entry["fieldsV1"] for entry in entries}
