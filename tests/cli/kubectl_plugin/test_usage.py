from __future__ import annotations

import pytest

from orlop.cli.kubectl_plugin import usage
from orlop.cli.kubectl_plugin.usage import Usage

# As sacct 22.05 prints it with -n -P: the job, its batch step, its extern step, an srun step.
SACCT = """\
17|COMPLETED|00:00:10|2|200M|00:01.500|||default/web
17.batch|COMPLETED|00:00:10|2||00:01.400|1204K|1200|batch
17.0|COMPLETED|00:00:09|2||00:00.100|3.50M|1100|true
18|CANCELLED by 1000|00:00:00|0|100M|00:00:00||0|a|b
19|RUNNING|1-00:00:01|1|1G|00:00:00|||default/train
19.batch|RUNNING|1-00:00:01|1||00:00:00|||batch
19.0|FAILED|00:00:03|4||00:02.000|8M|0|default/w-1
19.1|RUNNING|00:00:07|4||00:05.000|9M|0|default/w-0
19.2|RUNNING|00:00:05|4||00:04.000|7M|0|default/w-1
nonsense
"""


def test_sacct_gives_the_jobs_time_and_the_largest_steps_memory():
    found = usage.parse_sacct(SACCT)
    assert found["17"] == Usage("COMPLETED", "00:00:10", "2", "200M", "00:01.500", "3.50M", "1200J")
    assert found["18"].energy == ""
    assert found["18"].state == "CANCELLED"
    assert found["19"].max_rss == "9M"
    assert set(found) == {"17", "18", "19"}


def test_a_member_of_a_gang_is_the_newest_step_of_its_pods_name():
    members = {"19+0": "default/w-0", "19+2": "default/w-1", "17+0": "default/w-0"}
    assert usage.parse_steps(SACCT, members) == {
        "19+0": Usage("RUNNING", "00:00:07", "4", "", "00:05.000", "9M"),
        "19+2": Usage("RUNNING", "00:00:05", "4", "", "00:04.000", "7M"),
    }


def test_squeue_gives_what_was_asked_for():
    found = usage.parse_squeue("17|RUNNING|1:02|2|200M\nnonsense\n")
    assert found == {"17": Usage("RUNNING", "1:02", "2", "200M")}


@pytest.mark.parametrize(
    ("size", "kib"),
    [("", 0), ("0", 0), ("512", 512), ("1204K", 1204), ("3.5M", 3584), ("1G", 2**20)],
)
def test_sizes_compare_whatever_their_unit(size, kib):
    assert usage._kib(size) == kib


def test_an_array_is_counted_as_a_whole() -> None:
    found = {
        "17_0": Usage("COMPLETED", "00:00:05", "2", "1G", "01:00.500", "100K", "20J"),
        "17_1": Usage("TIMEOUT", "1-00:00:00", "2", "1G", "01:00:00", "3M", "300J"),
        "171": Usage("RUNNING", "00:01", "8", "1G"),
    }
    assert usage._of_array("17", found) == Usage(
        "TIMEOUT", "1-00:00:00", "4", "1G", "01:01:00", "3M", "320J"
    )
    assert usage._of_array("18", found) is None


def test_a_pod_that_is_over_says_itself_what_slurm_has_forgotten():
    notes = {
        "usage.orlop.dev/elapsed-seconds": "3661.5",
        "usage.orlop.dev/cpu-seconds": "90061.25",
        "usage.orlop.dev/peak-memory-bytes": "4096",
        "usage.orlop.dev/energy-joules": "1200",
    }
    found = usage.noted({"metadata": {"annotations": notes}})
    assert (found.elapsed, found.cpu_time, found.max_rss) == ("01:01:01", "1-01:01:01.250", "4K")
    assert found.energy == "1200J"
    garbled = {"metadata": {"annotations": {"usage.orlop.dev/cpu-seconds": "much"}}}
    assert usage.noted(garbled) == Usage("", "", "", "")
