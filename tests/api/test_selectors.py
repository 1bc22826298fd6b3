"""Label selectors, as text and as structure."""

from __future__ import annotations

import time
from typing import Any

import pytest

from orlop.api import selectors
from orlop.api.selectors import parse_labels
from orlop.errors import BadRequest

POD = {"app": "web", "tier": "front", "n": "5", "empty": ""}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("app=web", True),
        ("app==web", True),
        ("app=api", False),
        ("app!=api", True),
        ("app!=web", False),
        ("missing!=web", True),
        ("missing=web", False),
        ("app=web,tier=front", True),
        ("app=web,tier=back", False),
        ("app in (web,api)", True),
        ("app in (api)", False),
        ("app notin (api)", True),
        ("app notin (web,api)", False),
        ("missing notin (web)", True),
        ("app", True),
        ("missing", False),
        ("!app", False),
        ("!missing", True),
        ("app,!missing", True),
        ("empty=", True),
        ("app=", False),
        ("empty in ()", True),
        ("empty in (a,,b)", True),
        ("n>4", True),
        ("n<4", False),
        ("n>5", False),
        ("app>4", False),
        ("missing>4", False),
        (" app = web , tier in ( front , back ) ", True),
        ("app in (in)", False),
        ("in=notin", False),
        ("app.kubernetes.io/name=x", False),
    ],
)
def test_what_texts_select(text: str, matches: bool) -> None:
    assert parse_labels(text).matches(POD) is matches


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a=b,", "found '', expected: identifier after ','"),
        (",a=b", "found ',', expected: !, identifier, or 'end of string'"),
        ("a=b c=d", "found 'c', expected: ',' or 'end of string'"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a in (b c)", "unable to parse requirement: found 'c', expected: ',' or ')'"),
        ("a==(b)", "unable to parse requirement: found '(', expected: identifier"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        ("a>b", "for 'Gt', 'Lt' operators, the value must be an integer"),
        ("-a=b", 'Invalid value: "-a": name part must consist of'),
        ("a=b/c", 'Invalid value: "b/c": a valid label must be an empty string or consist of'),
    ],
)
def test_what_cannot_be_read_is_a_bad_request_in_upstreams_words(text: str, message: str) -> None:
    with pytest.raises(BadRequest) as caught:
        parse_labels(text)
    assert message in caught.value.message


@pytest.mark.parametrize("text", [" " * 100_000, " " * 100_000 + "a" + " " * 100_000])
def test_spaces_without_end_are_read_at_once(text: str) -> None:
    began = time.process_time()
    assert str(parse_labels(text)) == text.strip()
    assert time.process_time() - began < 0.5


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("b=1,a=2", "a=2,b=1"),
        ("a==1", "a=1"),
        ("a in (2,1)", "a in (1,2)"),
        ("a in (1)", "a=1"),
        ("a notin (1)", "a!=1"),
        ("!a", "!a"),
        ("a", "a"),
        ("a>1", "a>1"),
    ],
)
def test_selectors_are_written_in_one_way(text: str, canonical: str) -> None:
    assert str(parse_labels(text)) == canonical


@pytest.mark.parametrize(
    ("structure", "matches"),
    [
        (None, False),
        ({}, True),
        ({"matchLabels": {"app": "web"}}, True),
        ({"matchLabels": {"app": "web", "tier": "back"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}, False),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, False),
        (
            {
                "matchLabels": {"app": "web"},
                "matchExpressions": [{"key": "gone", "operator": "Exists"}],
            },
            False,
        ),
    ],
)
def test_what_structures_select(structure: dict[str, Any] | None, matches: bool) -> None:
    assert selectors.from_structure(structure).matches(POD) is matches


def test_an_unknown_operator_is_a_bad_request() -> None:
    with pytest.raises(BadRequest, match='"Near" is not a valid label selector operator'):
        selectors.from_structure({"matchExpressions": [{"key": "a", "operator": "Near"}]})


def test_an_absent_structure_selects_nothing_and_an_empty_one_everything() -> None:
    assert selectors.from_structure(None).nothing
    assert not selectors.from_structure(None).is_empty
    assert selectors.from_structure({}).is_empty
    assert parse_labels("").is_empty


def test_labels_select_what_carries_all_of_them() -> None:
    selector = selectors.from_labels({"app": "web", "tier": "front"})
    assert selector.matches(POD)
    assert not selector.matches({"app": "web"})
    assert selectors.from_labels({}).matches({})


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("app=web", "app", "web"),
        ("tier=x,app in (web)", "app", "web"),
        ("app in (web,api)", "app", None),
        ("app!=web", "app", None),
        ("app", "app", None),
        ("tier=x", "app", None),
    ],
)
def test_the_one_value_of_a_label_for_an_index(text: str, key: str, value: str | None) -> None:
    assert parse_labels(text).exact(key) == value


def test_two_values_for_one_label_never_match() -> None:
    assert not parse_labels("app=web,app=api").matches(POD)
    assert not parse_labels("app=api,app=web").matches(POD)
