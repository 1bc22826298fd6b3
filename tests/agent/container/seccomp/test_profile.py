"""Profiles as people write them, and the one that comes with the agent."""

from __future__ import annotations

import pytest

from orlop.agent.container.seccomp.calls import numbers
from orlop.agent.container.seccomp.compiler import compiled
from orlop.agent.container.seccomp.default import CLONE_NEW, ENOSYS, NEVER, PRIVILEGED, default
from orlop.agent.container.seccomp.profile import ACTIONS, EPERM, problem, resolved
from orlop.agent.netd.seccomp.syscall_numbers import AUDIT
from tests.agent.bpf_machine import run

ALLOW, ERRNO = ACTIONS["SCMP_ACT_ALLOW"], ACTIONS["SCMP_ACT_ERRNO"]
RULE = {"names": ["read"], "action": "SCMP_ACT_ALLOW"}


def profile(**rule):
    return {"defaultAction": "SCMP_ACT_ERRNO", "syscalls": [{**RULE, **rule}]}


@pytest.mark.parametrize(
    "found",
    [
        profile(),
        {"defaultAction": "SCMP_ACT_ALLOW"},
        profile(args=[{"index": 0, "value": 1, "op": "SCMP_CMP_EQ"}], comment="why"),
        {
            "defaultAction": "SCMP_ACT_LOG",
            "syscalls": [{"name": "read", "action": "SCMP_ACT_TRAP"}],
        },
    ],
    ids=["plain", "empty", "arguments", "the first format"],
)
def test_a_good_profile_has_no_problem(found):
    assert problem(found) == ""


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ([], "expected a JSON object"),
        ({}, "defaultAction: expected one of"),
        ({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": {}}, ""),
        ({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": "read"}, "syscalls: expected a list"),
        ({"defaultAction": "SCMP_ACT_NOTIFY"}, "found 'SCMP_ACT_NOTIFY'"),
        (profile(action="ALLOW"), "syscalls[0]: action: expected one of"),
        (profile(names=[]), "syscalls[0]: names: expected"),
        (profile(names=[3]), "syscalls[0]: names: expected"),
        (profile(args=[{"index": 6, "value": 1, "op": "SCMP_CMP_EQ"}]), "args: expected"),
        (profile(args=[{"index": 0, "value": -1, "op": "SCMP_CMP_EQ"}]), "args: expected"),
        (profile(args=[{"index": 0, "value": 1, "op": "SCMP_CMP_IS"}]), "args: expected"),
        (profile(args=["x"]), "args: expected"),
        (profile(includes=[1]), "includes: expected an object"),
    ],
)
def test_a_bad_profile_is_told_in_words(found, words):
    assert words in problem(found)


@pytest.mark.parametrize(
    ("conditions", "applies"),
    [
        ({}, True),
        ({"includes": {"caps": ["CAP_SYS_ADMIN"]}}, False),
        ({"includes": {"caps": ["CAP_CHOWN"]}}, True),
        ({"excludes": {"caps": ["CAP_CHOWN"]}}, False),
        ({"includes": {"arches": ["arm64"]}}, False),
        ({"includes": {"arches": ["amd64", "x32"]}}, True),
        ({"excludes": {"arches": ["amd64"]}}, False),
        ({"includes": {"minKernel": "4.8"}}, True),
        ({"includes": {"minKernel": "7.0"}}, False),
        ({"excludes": {"minKernel": "4.8"}}, False),
    ],
)
def test_rules_are_for_some_containers_and_machines(conditions, applies):
    made = resolved(profile(**conditions), "x86_64", ["CAP_CHOWN"], "6.1.0-18-amd64")
    assert bool(made["syscalls"]) == applies


def test_calls_that_the_machine_does_not_have_are_passed_over():
    made = resolved(profile(names=["read", "arm_fadvise64_64", "open"]), "aarch64", [], "6.1")
    assert made["syscalls"] == [{"names": ["read"], "action": "SCMP_ACT_ALLOW"}]


def outcome(held, name, *args, machine="x86_64"):
    filter = compiled(default(machine, held), machine)
    return run(filter, numbers(machine)[name], args, AUDIT[machine])


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_default_refuses_what_only_an_administrator_needs(machine):
    for name in ("mount", "setns", "bpf", "keyctl", "kexec_load", "unshare", "ptrace", "read"):
        expected = ALLOW if name in ("ptrace", "read") else ERRNO | EPERM
        assert outcome([], name, machine=machine) == expected, name
    assert outcome(["CAP_SYS_ADMIN"], "mount", machine=machine) == ALLOW
    assert outcome(["CAP_SYS_CHROOT"], "chroot", machine=machine) == ALLOW


def test_the_default_names_calls_that_exist():
    known = {**numbers("x86_64"), **numbers("aarch64")}
    named = {*NEVER.split(), *" ".join(PRIVILEGED.values()).split()}
    assert named - known.keys() == {"umount"}  # of 32-bit machines


def test_the_default_looks_at_arguments():
    assert outcome([], "clone", 0x11) == ALLOW
    assert outcome([], "clone", CLONE_NEW & 0x10000000) == ERRNO | EPERM
    assert outcome(["CAP_SYS_ADMIN"], "clone", 0x10000000) == ALLOW
    assert outcome([], "clone3") == ERRNO | ENOSYS
    assert [outcome([], "socket", family) for family in (2, 40)] == [ALLOW, ERRNO | EPERM]
    assert outcome([], "personality", 0xFFFFFFFF) == ALLOW
    assert outcome([], "personality", 3) == ERRNO | ENOSYS
