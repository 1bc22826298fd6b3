"""Merges an applied configuration into the live object.

Called by apply. What the configuration states wins, what it does not mention stays; elements of
keyed lists merge, in the configuration's order as far as it names them. Results share parts with
both, which therefore belong to the caller. As structured-merge-diff's typed/merge.go.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .elements import NoKey, list_element
from .shapes import KeyedList, Leaf, Map, SetList, Shape, Struct, child_of, resolved


def merge(live: Any, config: Any, shape: Shape) -> Any:
    """Lay `config` over `live`."""
    shape = resolved(shape, config if config is not None else live)
    if isinstance(shape, Leaf) or (not live and not config):
        return config
    if isinstance(shape, KeyedList | SetList):
        return _merge_lists(live, config, shape)
    assert isinstance(shape, Struct | Map), "what is deduced was resolved"
    return _merge_objects(live, config, shape)


def _merge_objects(live: Any, config: Any, shape: Struct | Map) -> Any:
    if config is None or not isinstance(live, dict):
        return live if config is None else config
    if not isinstance(config, dict):
        return config
    merged = dict(live)
    for name, value in config.items():
        child = child_of(shape, name)
        if name in live and child is not None:
            merged[name] = merge(live[name], value, child)
        else:
            merged[name] = value
    return merged


def _merge_lists(live: Any, config: Any, shape: KeyedList | SetList) -> Any:
    if not isinstance(live, list) or not isinstance(config, list):
        return live if config is None else config
    try:
        mine = [list_element(shape, item) for item in live]
        wanted = [list_element(shape, item) for item in config]
    except NoKey:
        return config
    merged = []
    for here, there in _order(mine, wanted):
        if there is None:
            merged.append(live[here])
        elif here is None or not isinstance(shape, KeyedList):
            merged.append(config[there])
        else:
            merged.append(merge(live[here], config[there], shape.element))
    return merged


def _order(live: list[str], config: list[str]) -> Iterator[tuple[Any, Any]]:
    """Yield the merged list, as places in the one and in the other.

    The configuration's elements come in its order. What just the live list has stays before the
    shared element that it was before; a shared element that comes too early waits for its turn.
    """
    places = {element: place for place, element in enumerate(live) if live.count(element) == 1}
    named, done = set(config), set[str]()
    shared = iter([element for element in config if element in places])
    due = next(shared, None)
    here = there = 0
    while here < len(live) or there < len(config):
        mine = live[here] if here < len(live) else None
        wanted = config[there] if there < len(config) else None
        if mine is not None and mine not in named:
            yield here, None
            here += 1
        elif mine is not None and wanted is not None and mine not in (wanted, due) and due:
            here += 1
        else:
            if mine is not None and (mine == wanted or mine in done):
                here += 1
            if wanted is not None:
                yield places.get(wanted), there
                done.add(wanted)
                there += 1
                due = next(shared, None) if wanted == due else due
