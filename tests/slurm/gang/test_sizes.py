"""What a partition can never hold is refused, and nothing else."""

from __future__ import annotations

import pytest

from orlop.engine import Machine
from orlop.errors import SubmitRejected
from orlop.slurm.gang.packing import Shape
from orlop.slurm.gang.sizes import check_alone, packed

LABELS = {"max-cpus-per-host": "8", "max-memory-mib-per-host": "1000"}
MAIN = Machine(
    "main",
    16,
    2000,
    labels={f"slurm.orlop.dev/{name}": value for name, value in LABELS.items()},
    hosts=("n1", "n2"),
)


@pytest.mark.parametrize(
    ("cpus", "count", "bundle"),
    [
        ([8, 1, 1, 1], 2, 8),
        ([6, 4, 4, 2], 2, 8),
        ([8, 8], 2, 8),
        ([1] * 16, 16, 1),
        ([4, 4, 3, 3, 2], 2, 8),
    ],
    ids=str,
)
def test_what_fits_is_packed_so_that_the_hosts_hold_it(cpus, count, bundle):
    packing = packed([Shape(number) for number in cpus], MAIN)
    assert (packing.count, packing.bundle.cpus) == (count, bundle)


def test_bundles_are_no_larger_than_a_host_where_smaller_ones_would_do():
    hosts = Machine(
        "main", 28, 0, labels={"slurm.orlop.dev/max-cpus-per-host": "7"}, hosts=tuple("abcd")
    )
    packing = packed([Shape(6), Shape(6), Shape(2), Shape(2)], hosts)
    assert (packing.count, packing.bundle.cpus) == (3, 6)


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        ([Shape(8)] * 3, "the 3 members ask for 24 CPUs, and all of partition main has 16 CPUs"),
        (
            [Shape(7), Shape(7), Shape(5)],
            "members ask for 19 CPUs, in 3 equal bundles for 21 CPUs, and all of partition main",
        ),
        (
            [Shape(1, 900), Shape(1, 1200)],
            "2 CPUs and 2100 MiB of memory, and all of partition main has 2000 MiB of memory",
        ),
    ],
    ids=["CPUs", "in bundles", "memory"],
)
def test_what_all_of_the_partition_does_not_have_is_refused_with_the_sum(shapes, words):
    with pytest.raises(SubmitRejected, match=words):
        packed(shapes, MAIN)


def test_of_a_gang_that_is_not_complete_only_what_is_certain_is_judged():
    check_alone(Shape(16), "default/driver", MAIN)
    with pytest.raises(SubmitRejected, match="default/driver asks for 17 CPUs, and all of part"):
        check_alone(Shape(17), "default/driver", MAIN)
    with pytest.raises(SubmitRejected, match="1 CPU and 3000 MiB of memory, and all of partition"):
        check_alone(Shape(1, 3000), "default/driver", MAIN)


def test_nothing_is_judged_of_a_partition_that_is_not_known():
    assert packed([Shape(800)] * 2, None).count == 2
