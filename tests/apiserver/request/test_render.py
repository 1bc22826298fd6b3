"""Forms of an answer."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from orlop.api import kinds
from orlop.api.objects import Key
from orlop.apiserver.request.negotiation import form_of
from orlop.apiserver.request.render import PIECE, Renderer, pieces_of
from orlop.apiserver.verbs.list import Page
from orlop.apiserver.verbs.watch import Seen
from orlop.store import Record

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"


def record(n: int) -> Record:
    metadata = {"name": f"c{n}", "namespace": "default", "resourceVersion": str(n),
                "creationTimestamp": "2026-01-01T00:00:00Z"}  # fmt: skip
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"k": "ü"}}
    return Record(n, Key("default", f"c{n}"), msgspec.json.encode(obj))


def renderer(accept: str, include: str = "") -> Renderer:
    return Renderer(kinds.CONFIG_MAP, form_of(accept), now=1767225660.0, include=include)


async def rendered(accept: str, page: Page, include: str = "") -> Any:
    return msgspec.json.decode(b"".join(await renderer(accept, include).page(page)))


@pytest.mark.parametrize("count", [0, 1, 49, 50, 51, 250, 251, 600])
@pytest.mark.parametrize(("accept", "field"), [("", "items"), (PARTIAL, "items"), (TABLE, "rows")])
async def test_a_list_of_any_length_is_whole(count, accept, field) -> None:
    page = Page(700, [record(n) for n in range(1, count + 1)])
    answer = await rendered(accept, page)
    assert len(answer[field]) == count
    assert answer["metadata"] == {"resourceVersion": "700"}


async def test_a_page_says_how_to_go_on() -> None:
    answer = await rendered("", Page(9, [record(1)], "token", 5))
    assert answer["metadata"] == {
        "resourceVersion": "9",
        "continue": "token",
        "remainingItemCount": 5,
    }
    answer = await rendered("", Page(9, [record(1)], "token"))
    assert "remainingItemCount" not in answer["metadata"]


@pytest.mark.parametrize(
    ("include", "expected"),
    [
        ("", {"kind", "apiVersion", "metadata"}),
        ("Metadata", {"kind", "apiVersion", "metadata"}),
        ("Object", {"kind", "apiVersion", "metadata", "data"}),
        ("None", None),
    ],
)
async def test_a_row_has_as_much_of_its_object_as_is_wanted(include, expected) -> None:
    answer = await rendered(TABLE, Page(1, [record(1)]), include)
    found = answer["rows"][0]["object"]
    assert (set(found) if found is not None else None) == expected
    assert answer["rows"][0]["cells"] == ["c1", 1, "60s"]
    assert [column["name"] for column in answer["columnDefinitions"]] == ["Name", "Data", "Age"]


def test_one_object_in_each_form() -> None:
    assert renderer("").one(record(1)) == record(1).data
    partial = msgspec.json.decode(renderer(PARTIAL).one(record(1)))
    assert set(partial) == {"kind", "apiVersion", "metadata"}
    table = msgspec.json.decode(renderer(TABLE).one(record(7)))
    assert (table["kind"], len(table["rows"])) == ("Table", 1)
    assert table["metadata"] == {"resourceVersion": "7"}
    text = renderer("application/yaml").one(record(1)).decode()
    assert yaml.safe_load(text)["data"] == {"k": "ü"}
    assert "k: ü" in text


async def test_a_list_in_yaml() -> None:
    pieces = await renderer("application/yaml").page(Page(3, [record(1), record(2)]))
    document = yaml.safe_load(b"".join(pieces))
    assert document["kind"] == "ConfigMapList"
    assert [item["metadata"]["name"] for item in document["items"]] == ["c1", "c2"]


@pytest.mark.parametrize("accept", ["", PARTIAL, TABLE])
def test_a_bookmark_has_the_shape_of_its_stream(accept) -> None:
    seen = Seen("BOOKMARK", 42, ends_initial_events=True)
    line = b"".join(renderer(accept).event(seen, is_first=False))
    event = msgspec.json.decode(line)
    assert event["type"] == "BOOKMARK"
    kind = {"": "ConfigMap", PARTIAL: "PartialObjectMetadata", TABLE: "Table"}[accept]
    assert event["object"]["kind"] == kind
    assert event["object"]["metadata"]["resourceVersion"] == "42"
    marked = event["object"] if accept != TABLE else event["object"]["rows"][0]["object"]
    assert marked["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_an_event_is_one_line() -> None:
    line = b"".join(renderer("").event(Seen("ADDED", 1, record(1)), is_first=True))
    assert line.endswith(b"}\n")
    assert line.count(b"\n") == 1
    assert msgspec.json.decode(line)["object"]["data"] == {"k": "ü"}


@given(st.lists(st.sampled_from([b"", b"a", b"bc" * 100, b"d" * 40_000, b"e" * 200_000])))
def test_what_is_large_is_written_in_pieces(parts) -> None:
    pieces = list(pieces_of(parts))
    assert b"".join(pieces) == b"".join(parts)
    assert all(0 < len(piece) <= PIECE for piece in pieces)
    assert all(len(a) + len(b) > PIECE for a, b in pairwise(pieces))
