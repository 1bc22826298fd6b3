"""Members of unlike shapes in bundles that are all alike."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orlop.errors import ConfigError
from orlop.slurm.gang.packing import NOTHING, Shape, least_cpus, pack, place_in, shape_of


@pytest.mark.parametrize(
    ("options", "shape"),
    [
        ({}, Shape(0)),
        ({"cpus-per-task": "4", "mem": "2G"}, Shape(4, 2048)),
        ({"cpus-per-task": "2", "mem-per-cpu": "500"}, Shape(2, 1000)),
        ({"mem": "1500K"}, Shape(0, 2)),
        ({"gres": "gpu:2,nvme:1"}, Shape(1, 0, {"gpu": 2, "nvme": 1})),
        ({"gres": "gpu:a100:2"}, Shape(1, 0, {"gpu:a100": 2})),
        ({"gres": "gpu"}, Shape(1, 0, {"gpu": 1})),
        ({"gpus": "2"}, Shape(1, 0, {"gpu": 2})),
        ({"gpus-per-task": "a100:1"}, Shape(1, 0, {"gpu:a100": 1})),
        ({"ntasks": "1", "nodes": "1"}, Shape(0)),
        ({"cpus-per-task": "1"}, Shape(1)),
    ],
)
def test_a_shape_is_what_the_member_would_ask_for_alone(options, shape):
    assert shape_of(options, "default/p") == shape


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"ntasks": "4"}, r"--ntasks=4 of pod default/p: a member of a gang is one task on one"),
        ({"nodes": "2"}, r"--nodes=2 of pod default/p"),
        ({"cpus-per-gpu": "2"}, r"--cpus-per-gpu of pod default/p"),
        ({"mem": "much"}, r"--mem of pod default/p: expected a size as 512M, found 'much'"),
        ({"cpus-per-task": "x"}, r"--cpus-per-task of pod default/p: expected a number"),
        ({"cpus-per-task": "9" * 5000}, r"--cpus-per-task of pod default/p: expected a number"),
        ({"mem": "9" * 5000}, r"--mem of pod default/p: expected a size as 512M"),
    ],
)
def test_what_one_step_cannot_be_is_refused(options, words):
    with pytest.raises(ConfigError, match=words):
        shape_of(options, "default/p")


def test_like_members_have_a_bundle_each():
    packing = pack([Shape(2, 100)] * 4)
    assert (packing.bundle, packing.count) == (Shape(2, 100), 4)
    assert packing.places == (0, 1, 2, 3)


def test_small_members_share_a_bundle_where_that_wastes_less():
    packing = pack([Shape(1, 100), *[Shape(4, 400)] * 2, Shape(1, 100)])
    assert packing.count * packing.bundle.cpus == 10
    assert packing.places[0] != packing.places[3]


def test_small_members_fill_a_bundle_of_the_large_ones_size():
    packing = pack([Shape(4, 400), *[Shape(1, 100)] * 4])
    assert (packing.count, packing.bundle) == (2, Shape(4, 400))


def test_gpus_are_not_asked_for_where_nobody_uses_them():
    workers, driver = [Shape(4, 400, {"gpu": 1})] * 2, Shape(1, 10)
    packing = pack([driver, *workers])
    assert packing.count == 2
    assert packing.bundle.gres == {"gpu": 1}


def test_no_gpu_is_asked_for_to_save_a_few_cpus():
    packing = pack([Shape(1), *[Shape(1, 0, {"gpu": 1})] * 4])
    assert (packing.count, packing.bundle) == (4, Shape(2, 0, {"gpu": 1}))


@pytest.mark.parametrize(
    ("cpus", "least"), [([8, 8, 0], 0), ([8, 0], 0), ([0, 0], 1), ([1, 0, 0], 1), ([0], 1)]
)
def test_who_asks_for_no_cpu_shares_anothers_where_there_is_one_for_each(cpus, least):
    assert least_cpus([Shape(number) for number in cpus]) == least


def test_those_without_cpus_of_their_own_need_no_bundle_and_do_not_crowd_one():
    packing = pack([Shape(0), *[Shape(8, 100)] * 3, Shape(0), Shape(0)])
    assert (packing.count, packing.bundle) == (3, Shape(8, 100))
    assert {packing.places[n] for n in (0, 4, 5)} == {0, 1, 2}


shapes = st.builds(
    Shape,
    st.integers(1, 16),
    st.integers(0, 4000),
    st.one_of(st.just({}), st.builds(lambda n: {"gpu": n}, st.integers(1, 4))),
)


@given(st.lists(shapes, min_size=1, max_size=12))
def test_whatever_they_ask_for_all_members_of_a_bundle_fit_in_it(members):
    packing = pack(members)
    assert set(packing.places) == set(range(packing.count))
    for number in range(packing.count):
        inside = [
            one for one, place in zip(members, packing.places, strict=True) if place == number
        ]
        assert sum(inside, NOTHING).fits(packing.bundle)
    # Never more than a bundle of the largest for each.
    assert packing.count <= len(members)


def test_a_new_member_goes_where_there_is_room():
    room = Shape(4, 400)
    taken = {0: [Shape(4, 400)], 1: [Shape(1, 100)]}
    assert place_in(room, taken, Shape(3, 300)) == 1
    assert place_in(room, taken, Shape(4, 400)) is None
    assert place_in(room, taken | {2: []}, Shape(4, 400)) == 2
