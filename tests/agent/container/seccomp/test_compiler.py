"""Profiles, compiled and run by a small machine of the kernel's kind."""

from __future__ import annotations

import operator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orlop.agent.container.seccomp.calls import numbers
from orlop.agent.container.seccomp.compiler import compiled
from orlop.agent.container.seccomp.profile import ACTIONS, EPERM
from orlop.agent.netd.seccomp.syscall_numbers import AUDIT
from tests.agent.bpf_machine import run

MACHINES = ("x86_64", "aarch64")
ALLOW, ERRNO, KILL = (ACTIONS[f"SCMP_ACT_{word}"] for word in ("ALLOW", "ERRNO", "KILL_PROCESS"))
WORDS = st.integers(0, (1 << 64) - 1)
COMPARE = {
    "NE": operator.ne, "LT": operator.lt, "LE": operator.le,
    "EQ": operator.eq, "GE": operator.ge, "GT": operator.gt,
}  # fmt: skip


def rules(*syscalls, default="ERRNO", **more):
    return {"defaultAction": f"SCMP_ACT_{default}", "syscalls": list(syscalls), **more}


def rule(*names, action="ALLOW", **more):
    return {"names": list(names), "action": f"SCMP_ACT_{action}", **more}


def outcome(found, name, *args, machine="x86_64"):
    return run(compiled(found, machine), numbers(machine)[name], args, AUDIT[machine])


@pytest.mark.parametrize("machine", MACHINES)
def test_what_is_named_is_allowed_and_the_rest_is_not(machine):
    found = rules(rule("read", "write", "openat2"))
    for name in numbers(machine):
        is_named = name in ("read", "write", "openat2")
        assert outcome(found, name, machine=machine) == (ALLOW if is_named else ERRNO | EPERM), name


def test_numbers_nobody_knows_have_the_default():
    filter = compiled(rules(rule("open_tree_attr"), defaultErrnoRet=38), "x86_64")
    assert run(filter, 5000, (), AUDIT["x86_64"]) == ERRNO | 38


@pytest.mark.parametrize(
    ("number", "arch"), [(1, 0x40000003), (0x40000001, AUDIT["x86_64"])], ids=["i386", "x32"]
)
def test_programs_of_another_word_size_are_ended(number, arch):
    assert run(compiled(rules(default="ALLOW"), "x86_64"), number, (), arch) == KILL


@given(st.sampled_from(sorted(COMPARE)), WORDS, WORDS)
def test_arguments_are_compared_whole(name, value, found):
    test = {"index": 2, "value": value, "op": f"SCMP_CMP_{name}"}
    answer = outcome(rules(rule("read", args=[test])), "read", 0, 0, found)
    assert (answer == ALLOW) == COMPARE[name](found, value)


@given(WORDS, WORDS, WORDS)
def test_arguments_are_compared_by_their_bits(mask, value, found):
    test = {"index": 0, "value": mask, "valueTwo": value, "op": "SCMP_CMP_MASKED_EQ"}
    answer = outcome(rules(rule("read", args=[test])), "read", found)
    assert (answer == ALLOW) == (found & mask == value)


def equal(index, value):
    return {"index": index, "value": value, "op": "SCMP_CMP_EQ"}


def test_all_arguments_of_a_rule_must_fit_and_one_of_those_for_the_same():
    both = rules(rule("read", args=[equal(0, 1), equal(1, 2)]))
    assert outcome(both, "read", 1, 2) == ALLOW
    assert outcome(both, "read", 1, 3) == ERRNO | EPERM
    either = rules(rule("read", args=[equal(0, 1), equal(0, 2)]))
    assert [outcome(either, "read", n) for n in (1, 2, 3)] == [ALLOW, ALLOW, ERRNO | EPERM]


def test_the_first_rule_that_fits_counts_and_then_one_for_all():
    found = rules(
        rule("read", action="ERRNO", errnoRet=13),
        rule("read", args=[equal(0, 1)]),
        rule("read", action="KILL_PROCESS", args=[equal(0, 1)]),
    )
    assert outcome(found, "read", 1) == ALLOW
    assert outcome(found, "read", 2) == ERRNO | 13


def test_a_long_profile_is_searched_by_halves():
    names = sorted(numbers("x86_64"))
    found = rules(*(rule(name, args=[equal(0, place)]) for place, name in enumerate(names)))
    filter = compiled(found, "x86_64")
    for place, name in enumerate(names):
        for argument, action in ((place, ALLOW), (place + 1, ERRNO | EPERM)):
            number = numbers("x86_64")[name]
            assert run(filter, number, (argument,), AUDIT["x86_64"]) == action, name


def test_a_profile_that_the_kernel_would_not_take_is_refused_in_words():
    found = rules(
        *(
            rule(name, args=[equal(index, place) for index in range(6)])
            for place, name in enumerate(numbers("x86_64"))
        )
    )
    with pytest.raises(OSError, match="instructions long"):
        compiled(found, "x86_64")
