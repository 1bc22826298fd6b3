"""YAML of strangers: read as kubectl reads it, within bounds."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from orlop.api.reading import MAX_DEPTH, decode_yaml

from .test_json_text import JSON


def read(text: str) -> Any:
    return decode_yaml(text).value


@given(JSON)
def test_json_is_yaml(value: Any) -> None:
    text = json.dumps(value, ensure_ascii=False)
    if text.isprintable():  # of others YAML has fewer, and escapes them otherwise
        assert read(text) == value


@given(JSON)
def test_what_a_dumper_writes_is_read(value: Any) -> None:
    text = yaml.dump(value, Dumper=yaml.CSafeDumper, allow_unicode=True)
    assert read(text) == value


@given(st.text("[]{}&*a1:-? \n'\"!%#|><,.\t", max_size=80))
def test_garbage_is_a_value_error_and_nothing_else(text: str) -> None:
    try:
        value = read(text)
    except ValueError:
        return
    assert json.dumps(value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12", 12), ("-0x1F", -31), ("0b101", 5), ("0o17", 15), ("017", 15), ("1_000", 1000),
        ("+12", 12), ("08", 8.0), ("1e3", 1000.0), (".5", 0.5), ("5.", 5.0), ("-.5", -0.5),
        ("18446744073709551615", 2**64 - 1), ("18446744073709551616", 2.0**64),
        ("0x10000000000000000", "0x10000000000000000"), ("1e999", "1e999"),
        ("1:20", "1:20"), ("1:20:30", "1:20:30"), ("190:20:30.15", "190:20:30.15"),
        ("2001-01-01", "2001-01-01"), ("2001-12-14t21:59:43.10-05:00",) * 2,
        ("yes", True), ("Off", False), ("y", "y"), ("~", None), ("null", None), ("''", ""),
        ("'1'", "1"), ("-", "-"), ("0x", "0x"), ("1.2.3", "1.2.3"), ("_1", "_1"), ("=", "="),
        ("!!str 1", "1"), ("!!int '7'", 7), ("!!float 3", 3.0), ("!!bool on", True),
        ("!!null ''", None), ("!!binary aGk=", "hi"), ("!!timestamp 2001-01-01", "2001-01-01"),
    ],
)  # fmt: skip
def test_words_mean_what_they_mean_to_kubectl(text: str, value: Any) -> None:
    found = read(f"[{text}]" if text != "-" else '["-"]')[0]
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (".nan", "no number that JSON has"), ("-.INF", "no number that JSON has"),
        ("!!int 1:20", "not of the type that its tag says"), ("!!binary '!'", "base64"),
        ("!!set {a}", "means nothing in JSON"), ("!!omap [a: 1]", "means nothing in JSON"),
        ("!mine x", "means nothing in JSON"), ("!!python/name:os.system x", "means nothing"),
        ("{[a]: 1}", "a key must be"), ("{{a: 1}: 1}", "a key must be"),
        ("{~: 1}", "a key must be"),
        ("{a: &x [1], *x : 1}", "a key must be"), ("*x", "undefined alias"),
        ("&x [*x]", "contains itself"), ("&x {a: {b: *x}}", "contains itself"),
        ("{<<: 1}", "a map merge requires"), ("{<<: [1]}", "a map merge requires"),
        ("a: 1\n--- \nb: 2\n", "expected one document"), ("[", "did not find"),
        ("%A\n" * 20 + "--- a", "directives"), ("\0", "not allowed"),
    ],
)  # fmt: skip
def test_what_json_cannot_say_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read(text)


def test_aliases_are_copies_and_merges_come_last() -> None:
    value = read("a: &a {x: 1, y: [2]}\nb: {<<: *a, x: 3}\nc: {<<: [{x: 4}, *a]}\nd: *a")
    assert value == {
        "a": {"x": 1, "y": [2]}, "b": {"x": 3, "y": [2]}, "c": {"x": 4, "y": [2]},
        "d": {"x": 1, "y": [2]},
    }  # fmt: skip
    value["a"]["y"].append(9)
    assert value["b"]["y"] == value["d"]["y"] == [2]
    assert read("'<<': 1") == {"<<": 1}


@pytest.mark.parametrize("end", ["1", "*x"])
def test_depth_has_a_bound_by_aliases_too(end: str) -> None:
    half = MAX_DEPTH // 2
    anchored = "[" * half + "1" + "]" * half
    deepest = MAX_DEPTH - 2 - (half if end == "*x" else 0)

    def text(levels: int) -> str:
        return f"[&x {anchored}, {'[' * levels}{end}{']' * levels}]"

    assert read(text(deepest))
    with pytest.raises(ValueError, match="nested more than"):
        read(text(deepest + 3))


def test_what_is_said_twice_is_told_with_its_path_and_the_last_holds() -> None:
    document = decode_yaml("a: {b: 1, b: 2}\nc: [{d: 1, d: 2, e: {f: 1, f: 1}}]\na: {g: 1}\n")
    assert document.repeated == ["a.b", "c[0].d", "c[0].e.f", "a"]
    assert document.value == {"a": {"g": 1}, "c": [{"d": 2, "e": {"f": 1}}]}


def test_what_is_told_has_bounds() -> None:
    long = "x" * 10_000
    document = decode_yaml(f"? {long}\n: {{" + "a: 1, " * 5_000 + "}")
    assert len(document.repeated) == 100
    assert max(map(len, document.repeated)) < 1_100


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "--- ~\n...\n"])
def test_nothing_is_null(text: str) -> None:
    assert read(text) is None
