"""Every stored object is looked after once."""

from __future__ import annotations

from orlop.api.kinds import (
    BINDING,
    EVENT,
    EVENTS_EVENT,
    HORIZONTAL_POD_AUTOSCALER,
    HORIZONTAL_POD_AUTOSCALER_V1,
    POD,
    STORED,
    Kind,
)
from orlop.controllers.framework.stored_kinds import collectable, stored_once


def test_second_views_of_the_same_objects_are_left_out():
    kinds = stored_once()
    assert len({(kind.group, kind.plural) for kind in kinds}) == len(kinds)
    assert HORIZONTAL_POD_AUTOSCALER in kinds
    assert HORIZONTAL_POD_AUTOSCALER_V1 not in kinds
    assert EVENT in kinds
    assert EVENTS_EVENT not in kinds


def test_what_cannot_be_deleted_is_no_object():
    assert BINDING not in stored_once([POD, BINDING])


def test_events_own_nothing_and_are_owned_by_nothing():
    assert EVENT not in collectable()
    assert POD in collectable()


def test_custom_kinds_join():
    widget = Kind("example.com", "v1", "Widget", "widgets", True)
    assert widget in collectable([*STORED, widget])
