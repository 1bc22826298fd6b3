"""Equal events are counted, like ones combined, floods cut off."""

from __future__ import annotations

import pytest

from orlop.client.correlator import COMBINED, Correlator, Happening, Source, Told

POD = Source("v1", "Pod", "ns", "a", "uid-a", "")
OTHER = Source("v1", "Pod", "ns", "b", "uid-b", "")


def told(correlator: Correlator, message: str, *, about=POD, reason="Failed", now=0.0):
    record = correlator.correlate(Happening(about, "Warning", reason, message), now)
    if record is not None:
        record.count += 1
    return record


def test_an_equal_event_is_one_more_of_the_first():
    correlator = Correlator()
    first = told(correlator, "no")
    assert told(correlator, "no", now=60.0) is first
    assert first == Told(count=2, first=0.0, message="no")


@pytest.mark.parametrize(
    ("about", "reason", "message"),
    [(OTHER, "Failed", "no"), (POD, "Killing", "no"), (POD, "Failed", "other")],
    ids=["object", "reason", "message"],
)
def test_another_object_reason_or_message_is_another_event(about, reason, message):
    correlator = Correlator()
    first = told(correlator, "no")
    assert told(correlator, message, about=about, reason=reason) is not first


def test_after_ten_like_messages_the_rest_is_combined_into_one():
    correlator = Correlator()
    for number in range(10):
        assert told(correlator, f"pod {number}").message == f"pod {number}"
    combined = told(correlator, "pod 10")
    assert combined.message == f"{COMBINED}pod 10"
    assert told(correlator, "pod 11") is combined
    assert combined.message == f"{COMBINED}pod 11"


def test_like_messages_are_told_apart_again_after_ten_minutes():
    correlator = Correlator()
    for number in range(12):
        told(correlator, f"pod {number}")
    assert told(correlator, "pod 12", now=601.0).message == "pod 12"


def test_a_flood_about_one_object_is_cut_off_and_spares_the_others():
    correlator = Correlator()
    results = [told(correlator, "no") for _ in range(30)]
    assert [result is not None for result in results] == [True] * 25 + [False] * 5
    assert told(correlator, "no", about=OTHER) is not None
    assert told(correlator, "no", now=299.0) is None
    assert told(correlator, "no", now=301.0) is not None


def test_only_so_many_objects_are_kept_in_mind():
    correlator = Correlator()
    first = told(correlator, "no")
    for number in range(5000):
        told(correlator, "no", about=POD._replace(uid=str(number)))
    assert told(correlator, "no") is not first
