"""Durations as sbatch(1), squeue(1) and sinfo(1) document them."""

from __future__ import annotations

import math

import pytest

from orlop.slurm import durations


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30", 1800),
        ("1:30", 90),
        ("5:00", 300),
        ("1:30:00", 5400),
        ("2-12", 216000),
        ("2-12:30", 217800),
        ("2-12:00:01", 216001),
        ("1-00:00:00", 86400),
        ("infinite", math.inf),
        ("UNLIMITED", math.inf),
        ("-1", math.inf),
        ("n/a", None),
        ("NONE", None),
        ("", None),
        ("Partition_Limit", None),
    ],
)
def test_every_form_is_read(text, seconds):
    assert durations.seconds(text) == seconds


@pytest.mark.parametrize(
    "text", ["abc", "1:2:3:4", "1h", "-5", "1-", "1-" + "9" * 19, "9" * 400, "1:" + "9" * 5000]
)
def test_what_is_no_duration_is_refused_with_examples(text):
    with pytest.raises(ValueError, match="1:30:00"):
        durations.seconds(text)


@pytest.mark.parametrize(
    ("seconds", "limit"),
    [
        (0, "00:01:00"),
        (59, "00:01:00"),
        (60, "00:01:00"),
        (61, "00:02:00"),
        (5400, "01:30:00"),
        (86400, "1-00:00:00"),
        (90061, "1-01:02:00"),
        (math.inf, "UNLIMITED"),
    ],
)
def test_a_limit_is_never_shorter_than_asked(seconds, limit):
    assert durations.limit(seconds) == limit
    read = durations.seconds(limit)
    assert read is not None
    assert read >= seconds


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (300, "5 min"),
        (5400, "1 h 30 min"),
        (86400, "1 day"),
        (180000, "2 days 2 h"),
        (0, "0 min"),
        (math.inf, "unlimited"),
    ],
)
def test_durations_in_words(seconds, words):
    assert durations.in_words(seconds) == words
