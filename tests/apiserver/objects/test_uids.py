from __future__ import annotations

import uuid

from orlop.apiserver.objects.uids import Uids


def test_uids_are_random_uuids_and_never_the_same():
    uids = Uids()
    drawn = [uids.new() for _ in range(2000)]
    assert len(set(drawn)) == 2000
    parsed = [uuid.UUID(uid) for uid in drawn]
    assert {(one.version, one.variant) for one in parsed} == {(4, uuid.RFC_4122)}
    assert [str(one) for one in parsed] == drawn
    assert {uid[19] for uid in drawn} == set("89ab")
