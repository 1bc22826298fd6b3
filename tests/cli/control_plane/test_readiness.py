from __future__ import annotations

import os

import pytest

from orlop.cli.control_plane.readiness import Readiness, awaited
from orlop.cli.home import record
from orlop.errors import HomeInUse


def test_who_waits_hears_that_it_is_up():
    read, write = os.pipe()
    mine = record.mine(port=7)
    Readiness(write).up(mine)
    assert awaited(read) == (mine, "")


def test_who_waits_hears_why_not():
    read, write = os.pipe()
    ready = Readiness(write)
    ready.failed("no room")
    ready.failed("said once")
    assert awaited(read) == (None, "no room")


def test_that_another_was_quicker_is_an_error_of_its_own():
    read, write = os.pipe()
    Readiness(write).failed("taken", is_in_use=True)
    with pytest.raises(HomeInUse, match="taken"):
        awaited(read)


def test_who_waits_for_the_dead_waits_no_longer():
    read, write = os.pipe()
    os.close(write)
    assert awaited(read) == (None, "")


def test_nobody_waiting_is_no_error():
    Readiness().up(record.mine())
    read, write = os.pipe()
    os.close(read)
    Readiness(write).up(record.mine())
