"""A bucket agrees with a simple model of itself, now and at every revision before."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from orlop.api.objects import Key
from orlop.store.bucket import Bucket
from orlop.store.history import Limits
from orlop.store.record import ADDED, DELETED, MODIFIED, Event, Record

keys = st.builds(Key, st.sampled_from(["a", "a-b", "b"]), st.sampled_from(["x", "y", "z"]))
steps = st.lists(st.tuples(keys, st.booleans(), st.booleans()), max_size=40)


def apply(bucket: Bucket, key: Key, revision: int, is_delete: bool) -> None:
    previous = bucket.get(key)
    if is_delete and previous is None:
        return
    kind = DELETED if is_delete else MODIFIED if previous else ADDED
    bucket.apply(Event(kind, Record(revision, key, b"%d" % revision), previous))


def state(records: list[Record]) -> list[tuple[Key, int]]:
    return [(record.key, record.revision) for record in records]


@given(steps=steps)
def test_lists_agree_with_a_dictionary_at_every_revision(
    steps: list[tuple[Key, bool, bool]],
) -> None:
    bucket, model = Bucket(Limits()), dict[Key, int]()
    then: dict[int, list[tuple[Key, int]]] = {0: []}
    for revision, (key, is_delete, looks) in enumerate(steps, start=1):
        apply(bucket, key, revision, is_delete)
        if not is_delete:
            model[key] = revision
        else:
            model.pop(key, None)
        then[revision] = sorted(model.items())
        if looks:  # reading must not disturb the order of what comes later
            assert state(bucket.records()) == then[revision]
    for revision, expected in then.items():
        assert state(bucket.records_at(revision)) == expected
        for namespace in ("a", "a-b", "b", "c"):
            mine = [pair for pair in expected if pair[0].namespace == namespace]
            assert state(bucket.records_at(revision, namespace)) == mine
    assert len(bucket) == len(model)


def test_the_newest_change_is_known() -> None:
    bucket = Bucket(Limits())
    assert bucket.changed == 0
    apply(bucket, Key("a", "x"), 7, False)
    apply(bucket, Key("a", "x"), 9, True)
    assert bucket.changed == 9


def test_what_recovery_puts_has_no_history() -> None:
    bucket = Bucket(Limits())
    bucket.put(Record(5, Key("a", "x"), b""))
    assert state(bucket.records()) == [(Key("a", "x"), 5)]
    assert list(bucket.history.newest_first(0)) == []
