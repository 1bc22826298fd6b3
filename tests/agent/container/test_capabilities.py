from __future__ import annotations

import pytest

from orlop.agent.container.capabilities import DEFAULT, NAMES, NUMBERS, chosen, mask, named, others

BY_DEFAULT = 0xA80425FB


@pytest.mark.parametrize(
    ("add", "drop", "expected"),
    [
        ([], [], BY_DEFAULT),
        ([], ["ALL"], 0),
        (["ALL"], [], (1 << len(NAMES)) - 1),
        (["ALL"], ["CHOWN"], (1 << len(NAMES)) - 2),
        (["CHOWN"], ["ALL"], 1),
        (["CHOWN"], ["CHOWN"], BY_DEFAULT),
        (["cap_sys_admin"], [], BY_DEFAULT | 1 << 21),
        (["SYS_ADMIN"], ["CAP_KILL"], (BY_DEFAULT | 1 << 21) & ~(1 << 5)),
        (["OF_TOMORROW"], [], BY_DEFAULT),
    ],
)
def test_a_set_is_the_default_one_less_what_is_dropped_and_what_is_added(add, drop, expected):
    assert mask(chosen(add, drop)) == expected


def test_names_are_numbered_as_the_kernel_does():
    assert (NUMBERS["CHOWN"], NUMBERS["SYS_ADMIN"], NUMBERS["CHECKPOINT_RESTORE"]) == (0, 21, 40)
    assert set(NAMES) >= DEFAULT


def test_runtimes_hear_long_names():
    assert named([0, 10]) == ["CAP_CHOWN", "CAP_NET_BIND_SERVICE"]


def test_what_is_not_in_the_set_is_dropped_also_what_is_not_known_yet():
    assert others([0, 5])[:5] == [1, 2, 3, 4, 6]
    assert others([])[-1] == 63
