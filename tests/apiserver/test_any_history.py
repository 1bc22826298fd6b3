"""Any sequence of writes by clients at once: all who look see one and the same history.

Hypothesis draws what each of several clients does in each of several rounds; all of a round happens
at once. The store is a real one, the server has all its checks, only TLS is left out.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from orlop import errors
from orlop.api import kinds
from orlop.api.objects import Key, Obj, key_of
from orlop.api.schema import Schema
from orlop.apiserver import ApiServer
from orlop.apiserver.auth.authentication import user
from orlop.apiserver.registry import Call
from orlop.apiserver.verbs.apply import apply
from orlop.client.api import Api
from orlop.store import Store

LOST = (errors.Conflict, errors.NotFound, errors.AlreadyExists)
SELECTORS = ["", "colour=red", "colour!=red"]
State = dict[Key, Obj]


class Deed(NamedTuple):
    """What one client does in one round."""

    verb: str
    name: str
    colour: str
    value: str


DEEDS = st.builds(
    Deed,
    st.sampled_from(["create", "update", "patch", "relabel", "delete", "apply"]),
    st.sampled_from(["a", "b", "c"]),
    st.sampled_from(["red", "blue"]),
    st.sampled_from(["1", "2", "3"]),
)
ROUNDS = st.lists(st.lists(DEEDS, min_size=1, max_size=5), min_size=1, max_size=6)


@asynccontextmanager
async def served(schema: Schema) -> AsyncIterator[ApiServer]:
    with tempfile.TemporaryDirectory() as folder:
        store = await Store.open(Path(folder) / "state.db")
        server = ApiServer(store, schema=schema)
        await server.prepare()
        yield server
        await server.stop()
        await store.close()


def config_map(name: str, colour: str, value: str) -> Obj:
    labels = {"colour": colour}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "data": {"v": value},
    }


async def do(server: ApiServer, number: int, deed: Deed) -> Obj | None:
    """The object as the server answered, None where another client was quicker."""
    api, key = server.client(f"client-{number}", ["system:masters"]), Key("default", deed.name)
    wanted = config_map(*deed[1:])
    try:
        match deed.verb:
            case "create":
                return await api.create(kinds.CONFIG_MAP, wanted)
            case "update":
                current = await api.get(kinds.CONFIG_MAP, key)
                return await api.update(kinds.CONFIG_MAP, {**current, "data": {"v": deed.value}})
            case "patch":
                return await api.patch(kinds.CONFIG_MAP, key, {"data": {f"k{number}": deed.value}})
            case "relabel":
                labels = {"metadata": {"labels": {"colour": deed.colour}}}
                return await api.patch(kinds.CONFIG_MAP, key, labels)
            case "apply":
                return await applied(server, f"client-{number}", wanted)
        await api.delete(kinds.CONFIG_MAP, key)
    except LOST:
        pass
    return None


async def applied(server: ApiServer, manager: str, config: Obj) -> Obj:
    who = user("u", ["system:masters"])
    call = Call(who, kinds.CONFIG_MAP, "default", config["metadata"]["name"], field_manager=manager)
    return (await apply(server.registry, call, config)).record.decode()


async def listed(api: Api, labels: str) -> tuple[State, str]:
    found = await api.list(kinds.CONFIG_MAP, "default", labels=labels)
    return {key_of(obj): obj for obj in found.items}, found.resource_version


async def rebuilt(api: Api, start: State, version: str, labels: str, end: str) -> State:
    """What a watcher believes, once it has heard of everything up to `end`."""
    state = dict(start)
    newest = int(version)
    if version == end:
        return state
    stream = api.watch(kinds.CONFIG_MAP, "default", resource_version=version, labels=labels)
    async for kind, obj in stream:
        revision = int(obj["metadata"]["resourceVersion"])
        assert revision > newest, "a watch goes forward, and tells nothing twice"
        newest = revision
        if kind == "DELETED":
            del state[key_of(obj)]
        else:
            assert (kind == "ADDED") == (key_of(obj) not in state)
            state[key_of(obj)] = obj
        if revision == int(end):
            break
    await stream.aclose()  # type: ignore[attr-defined]
    return state


@settings(max_examples=25)
@given(rounds=ROUNDS)
def test_watchers_from_any_revision_rebuild_what_is_listed(
    schema: Schema, rounds: list[list[Deed]]
) -> None:
    asyncio.run(watchers_agree(schema, rounds))


async def watchers_agree(schema: Schema, rounds: list[list[Deed]]) -> None:
    async with served(schema) as server:
        api = server.client("reader", ["system:masters"])
        starts: list[tuple[State, str, str]] = []
        written: list[Obj] = []
        for deeds in rounds:
            starts += [(*await listed(api, labels), labels) for labels in SELECTORS]
            done = await asyncio.gather(*(do(server, n, deed) for n, deed in enumerate(deeds)))
            written += [obj for obj in done if obj is not None]
        for labels in SELECTORS:  # the end, seen by every one of the selectors
            await api.create(kinds.CONFIG_MAP, config_map(f"z{len(labels)}", "red", "0"))
            await api.patch(
                kinds.CONFIG_MAP,
                Key("default", f"z{len(labels)}"),
                {"metadata": {"labels": {"colour": "blue"}}},
            )
        for state, version, labels in starts:
            final, end = await listed(api, labels)
            assert await rebuilt(api, state, version, labels, end) == final
        check_revisions(written)


def check_revisions(written: list[Obj]) -> None:
    """One revision is one state of one object."""
    seen: dict[str, Any] = {}
    for obj in written:
        version = obj["metadata"]["resourceVersion"]
        assert seen.setdefault(version, obj) == obj


@settings(max_examples=15)
@given(values=st.lists(st.sampled_from(["1", "2", "3"]), min_size=2, max_size=5))
def test_of_applies_that_disagree_only_one_wins_without_a_conflict(
    schema: Schema, values: list[str]
) -> None:
    asyncio.run(_applies(schema, values))


async def _applies(schema: Schema, values: list[str]) -> None:
    async with served(schema) as server:
        outcomes = await asyncio.gather(
            *(applied(server, f"m{n}", config_map("a", "red", v)) for n, v in enumerate(values)),
            return_exceptions=True,
        )
        both = zip(values, outcomes, strict=True)
        won = [value for value, done in both if isinstance(done, dict)]
        lost = [done for done in outcomes if not isinstance(done, dict)]
        assert len(set(won)) == 1, "managers that all won must have agreed"
        assert all(isinstance(error, errors.Conflict) for error in lost)
        kept = server.registry.store.get("configmaps", Key("default", "a"))
        assert kept is not None
        assert kept.decode()["data"] == {"v": won[0]}
