"""What sacct says of jobs that have ended, as numbers."""

from __future__ import annotations

import pytest

from orlop.engine import JobId, JobUsage
from orlop.slurm.query.sacct import cpu_seconds, parse, size

LINES = """\
17|COMPLETED|10|00:01.500||1200
17.batch|COMPLETED|10|00:01.400|1204K|1200
17.0|COMPLETED|9|00:00.100|3.50M|
18_2|CANCELLED by 1000|0|00:00:00||0
19|RUNNING|5|00:00:00||
19.batch|RUNNING|5|00:00:00||
20|TIMEOUT|90|1-02:03:04||18446744073709551614
nonsense
"""


def test_a_jobs_own_line_and_its_largest_step():
    found = parse(LINES)
    assert found == {
        JobId("17"): JobUsage(10.0, 1.5, 3670016, 1200),
        JobId("18_2"): JobUsage(0.0, 0.0, None, None),
        JobId("20"): JobUsage(90.0, 93784.0, None, None),
    }


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *(("00:01.500", 1.5), ("01:00:00", 3600.0), ("2-00:00:01", 172801.0)),
        *((text, None) for text in ("", "x", f"1-{'9' * 400}:01", f"{'9' * 5000}:01")),
    ],
)
def test_cpu_time_has_milliseconds(text, seconds):
    assert cpu_seconds(text) == seconds


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *(("512", 512), ("2K", 2048), ("1.5M", 1572864)),
        *((text, None) for text in ("", "?", f"{'9' * 400}K")),
    ],
)
def test_sizes_are_bytes(text, expected):
    assert size(text) == expected
