"""Query parameters."""

from __future__ import annotations

import pytest

from orlop.api import kinds
from orlop.apiserver.request import options
from orlop.apiserver.verbs.delete import DeleteOptions, options_from
from orlop.errors import ApiError, BadRequest


def test_a_list_without_parameters_is_of_everything_now() -> None:
    wanted = options.list_options(kinds.POD, {})
    assert wanted.selection.is_everything
    assert (wanted.limit, wanted.token, wanted.resource_version, wanted.match) == (0, "", "", "")


def test_a_page_that_is_continued_names_no_revision() -> None:
    with pytest.raises(BadRequest, match="not allowed when using continue"):
        options.list_options(kinds.POD, {"continue": "x", "resourceVersion": "5"})
    options.list_options(kinds.POD, {"continue": "x", "resourceVersion": "0"})


@pytest.mark.parametrize(
    ("query", "timeout", "bookmarks", "initial"),
    [
        ({}, None, False, None),
        ({"timeoutSeconds": "5"}, 5.0, False, None),
        ({"timeoutSeconds": "0"}, None, False, None),
        ({"allowWatchBookmarks": "true"}, None, True, None),
        ({"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}, None, False, True),
        ({"sendInitialEvents": "false", "resourceVersionMatch": "NotOlderThan"}, None, False,
         False),
    ],
)  # fmt: skip
def test_a_watch_reads_its_own(query, timeout, bookmarks, initial) -> None:
    wanted = options.watch_options(kinds.POD, query)
    assert (wanted.timeout, wanted.bookmarks, wanted.initial_events) == (
        timeout, bookmarks, initial)  # fmt: skip


def test_a_name_in_the_path_is_one_more_field_to_select_by() -> None:
    wanted = options.watch_options(kinds.POD, {"fieldSelector": "spec.nodeName=n"}, "a")
    assert wanted.selection.name == "a"
    assert str(wanted.selection.fields) == "spec.nodeName=n,metadata.name=a"


@pytest.mark.parametrize(
    ("body", "query", "expected"),
    [
        ({}, {}, DeleteOptions()),
        ({}, {"gracePeriodSeconds": "5"}, DeleteOptions(grace=5)),
        ({"gracePeriodSeconds": 0}, {"gracePeriodSeconds": "5"}, DeleteOptions(grace=0)),
        ({}, {"propagationPolicy": "Orphan"}, DeleteOptions(propagation="Orphan")),
        ({"propagationPolicy": "Foreground"}, {"propagationPolicy": "Orphan"},
         DeleteOptions(propagation="Foreground")),
        ({}, {"orphanDependents": "true"}, DeleteOptions(orphan_dependents=True)),
        ({"dryRun": ["All"]}, {}, DeleteOptions(dry_run=True)),
        ({"preconditions": {"uid": "u", "resourceVersion": "7"}}, {},
         DeleteOptions(uid="u", resource_version="7")),
    ],
)  # fmt: skip
def test_the_body_of_a_delete_comes_before_its_query(body, query, expected) -> None:
    assert options.delete_options(options_from(body), query) == expected


@pytest.mark.parametrize(
    ("read", "query"),
    [
        (options.dry_run, {"dryRun": "yes"}),
        (options.field_validation, {"fieldValidation": "strict"}),
        (lambda query: options.list_options(kinds.POD, query), {"limit": "1.5"}),
        (lambda query: options.watch_options(kinds.POD, query), {"timeoutSeconds": "soon"}),
        (lambda query: options.watch_options(kinds.POD, query), {"resourceVersion": "-1"}),
        (lambda query: options.delete_options(DeleteOptions(), query),
         {"gracePeriodSeconds": "x"}),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused(read, query) -> None:
    with pytest.raises(ApiError) as refused:
        read(query)
    assert refused.value.status_code in (400, 422)


@pytest.mark.parametrize(
    "body",
    [
        5,
        ["All"],
        {"gracePeriodSeconds": "abc"},
        {"gracePeriodSeconds": 1.5},
        {"preconditions": "x"},
        {"preconditions": {"uid": 5}},
        {"orphanDependents": "yes"},
        {"dryRun": "All"},
        {"dryRun": ["Bogus"]},
    ],
)
def test_what_are_no_options_of_a_delete_is_a_bad_request(body):
    with pytest.raises(BadRequest):
        options_from(body)
