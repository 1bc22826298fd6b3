"""An event looks at those whom it may help, and at nobody else."""

from __future__ import annotations

from orlop.api.objects import Key
from orlop.scheduler.waiting import Waiting

A, B = Key("x", "a"), Key("x", "b")


def test_each_waits_for_its_own_events():
    waiting = Waiting()
    waiting.park(A, {"node"})
    waiting.park(B, {"node", "gone"})
    assert waiting.helped_by("node") == [A, B]
    assert waiting.helped_by("gone") == [B]
    assert waiting.helped_by("other") == []


def test_who_is_tried_again_waits_for_what_it_names_then():
    waiting = Waiting()
    waiting.park(A, {"gone"})
    waiting.park(A, {"node"})
    assert waiting.helped_by("gone") == []
    assert len(waiting) == 1


def test_who_is_let_go_is_not_helped():
    waiting = Waiting()
    waiting.park(A, {"node"})
    waiting.discard(A)
    waiting.discard(B)
    assert A not in waiting
    assert waiting.helped_by("node") == []
