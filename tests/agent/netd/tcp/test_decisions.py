"""What becomes of a connect and of an accept, by the facts alone."""

from __future__ import annotations

from errno import ECONNREFUSED, ECONNRESET, EHOSTUNREACH, EINPROGRESS, EINVAL, EMFILE

import pytest

from orlop.agent.netd.tcp import decisions as module
from orlop.agent.netd.tcp.decisions import (
    AGENT,
    AS_IS,
    DOUBT,
    NEIGHBOUR,
    NOBODY,
    NOT_OURS,
    NOT_YET,
    OURS,
    SIBLING,
    UNTOLD,
    VOUCHED,
)


def test_another_pod_at_our_localhost_is_nobody_whoever_vouches_for_it():
    assert module.comes_amiss(True, True, False)
    assert module.judge_vouched(True, False) == NOBODY
    assert module.judge_here(OURS, False, True, False, True) == NOBODY


def test_the_pod_itself_may_come_to_its_localhost():
    assert not module.comes_amiss(True, True, True)
    assert module.judge_vouched(True, True) == VOUCHED
    assert module.judge_here(OURS, True, True, False, False) == SIBLING


@pytest.mark.parametrize("owner", [UNTOLD, NOT_OURS])
def test_who_is_not_known_to_be_ours_is_neither_the_agent_nor_a_neighbour(owner):
    for is_from_loopback in (True, False):
        assert module.judge_here(owner, False, False, is_from_loopback, True) == NOT_YET
    assert module.judge_here(OURS, False, False, True, True) == AGENT
    assert module.judge_here(OURS, False, False, False, True) == NEIGHBOUR


def test_another_user_is_let_in_where_anybody_is():
    assert module.judge_other(NOT_OURS, False, False, False) == NOBODY
    assert module.judge_other(NOT_OURS, False, True, False) == AS_IS
    assert module.judge_other(UNTOLD, False, True, False) == NOT_YET  # a pod may come there, too
    assert module.judge_other(UNTOLD, False, True, True) == AS_IS


def test_a_pod_of_this_node_that_is_in_doubt_is_waited_for():
    assert module.judge_other(OURS, True, True, True) == NOT_YET
    assert module.judge_late(OURS, True, True, 0.01, False) == NOT_YET
    assert module.judge_late(OURS, True, True, -0.01, True) == NOT_YET
    assert module.judge_late(OURS, True, True, -0.01, False) == NOBODY


def test_a_program_of_this_user_is_let_in_after_a_moment_for_a_notice():
    assert module.judge_late(OURS, False, False, DOUBT, False) == NOT_YET
    assert module.judge_late(OURS, False, False, DOUBT - module.DOUBT_HERE - 1e-6, False) == AS_IS
    assert module.judge_late(UNTOLD, False, False, -1e-6, False) == NOBODY


def test_a_caller_who_has_waited_for_a_stranger_waits_for_no_other():
    assert module.is_at_leisure(True, False, -1.0, False)
    assert not module.is_at_leisure(True, True, -1.0, False)
    assert not module.is_at_leisure(True, False, -1.5, False)
    assert not module.is_at_leisure(False, False, -1.0, False)
    assert not module.is_at_leisure(True, False, -1.0, True)


@pytest.mark.parametrize(
    ("facts", "proof"),
    [
        ((True, False, False, False), module.PROOF_BY_KERNEL),
        ((False, True, True, True), module.PROOF_BY_KERNEL),
        ((False, True, True, False), module.PROOF_BY_NOTICE),
        ((False, True, False, False), module.NO_PROOF),
        ((False, False, False, True), module.NO_PROOF),
    ],
    ids=["our own", "a pod here", "a pod elsewhere", "a pod nobody can tell", "no pod"],
)
def test_each_place_is_proven_by_who_can_tell(facts, proof):
    assert module.proof_of(*facts) == proof


def test_under_a_policy_nothing_is_left_to_the_kernel():
    assert module.answer_to(True, False) == module.LEAVE_TO_KERNEL
    assert module.answer_to(True, True) == module.SAY_WHEN_MADE
    assert module.answer_to(False, True) == module.SAY_IN_PROGRESS


def test_what_was_closed_is_tried_again_and_then_the_next():
    assert [module.after_failure(ECONNRESET, n) for n in range(3)] == [
        module.TRY_AGAIN,
        module.TRY_AGAIN,
        module.TRY_NEXT,
    ]
    assert module.error_told(ECONNRESET) == ECONNREFUSED
    for code in (ECONNREFUSED, EHOSTUNREACH):
        assert module.after_failure(code, 0) == module.TRY_NEXT
    assert module.after_failure(EINVAL, 0) == module.TELL_ERROR
    assert not module.is_failed(EINPROGRESS)


def test_a_notice_is_not_said_so_late_that_it_is_heard_after_the_end():
    assert module.is_notice_due(1.0, 0.9, 0.1, 1.31)
    assert not module.is_notice_due(1.0, 0.9, 0.2, 2.0)
    assert not module.is_notice_due(1.0, 0.9, 0.1, 1.29)
    assert module.may_be_heard(1.0, 0.8)
    assert not module.may_be_heard(1.0, 0.0)
    assert not module.may_be_heard(1.31, 1.0)


@pytest.mark.parametrize(("age", "is_it"), [(0.0, True), (-121.0, False), (121.0, False)])
def test_a_datagram_is_of_now(age, is_it):
    assert module.is_of_now(age) is is_it
    assert not module.is_of_now(float("nan"))
    assert not module.is_read_in_time(float("nan"))


def test_a_connection_whose_caller_has_no_room_is_kept():
    assert module.is_kept(EMFILE, True)
    assert module.is_kept(0, False)
    assert not module.is_kept(0, True)
    assert not module.is_kept(EINVAL, True)
