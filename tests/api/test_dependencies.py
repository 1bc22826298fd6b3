"""sbatch's words of what a job waits for, with names where it has numbers."""

from __future__ import annotations

import pytest

from orlop.api.dependencies import Wait, holds, names_objects, parse
from orlop.errors import ConfigError


@pytest.mark.parametrize("text", ["", "afterok:17", "afterany:1:2,singleton", "after:3+5?after:4"])
def test_numbers_are_all_for_sbatch(text):
    assert not names_objects(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("afterok:job/a", [Wait("afterok", kind="Job", name="a")]),
        ("afterany:pods/a", [Wait("afterany", kind="Pod", name="a")]),
        ("afternotok:SlurmJob/a", [Wait("afternotok", kind="SlurmJob", name="a")]),
        (
            "afterok:17:job/a, singleton",
            [Wait("afterok", "17"), Wait("afterok", kind="Job", name="a"), Wait("singleton")],
        ),
    ],
)
def test_names_and_numbers_may_be_mixed(text, expected):
    assert names_objects(text)
    assert parse(text, "x") == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("afterok:deployment/a", r"expected job/<name>.*found 'deployment/a'"),
        ("afterok:job/", "expected job/<name>"),
        ("aftercorr:job/a", "expected one of after, .* found 'aftercorr'"),
        ("job/a", "expected afterok:job/a"),
        ("afterok:job/a?afterok:3", r"one of several \(\?\)"),
    ],
)
def test_what_makes_no_sense_is_refused_with_what_would(text, words):
    with pytest.raises(ConfigError, match=words):
        parse(text, "x")


@pytest.mark.parametrize(
    ("condition", "succeeded", "failed"),
    [
        ("after", True, True),
        ("afterany", True, True),
        ("afterok", True, False),
        ("aftercorr", True, False),
        ("afternotok", False, True),
    ],
)
def test_whether_a_condition_holds_of_what_has_ended(condition, succeeded, failed):
    assert (holds(condition, True), holds(condition, False)) == (succeeded, failed)
