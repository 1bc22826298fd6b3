"""Slurm's reasons for waiting, as a condition's reason and as words for people."""

from __future__ import annotations

import re

import pytest

from orlop.slurm.query import pending_reasons

DOWN = "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions"


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("Priority", "Priority"),
        ("(Resources)", "Resources"),
        ("ReqNodeNotAvail, UnavailableNodes:n[3-4]", "ReqNodeNotAvail"),
        ("ReqNodeNotAvail, Reserved for maintenance", "ReqNodeNotAvail"),
        (DOWN, "NodesNotAvailable"),
        ("launch failed requeued held", "LaunchFailedRequeuedHeld"),
        ("QOSMaxJobsPerUserLimit", "QOSMaxJobsPerUserLimit"),
        (
            "uid_1000_not_in_group_permitted_to_use_this_partition_(p)._groups_allowed:_staff",
            "GroupNotAllowed",
        ),
        ("uid 1000 not in group permitted to use this partition (p). groups", "GroupNotAllowed"),
        ("None", ""),
        ("", ""),
        ("something new and odd", "SomethingNewAndOdd"),
        ("123", "Other"),
    ],
)
def test_a_reason_becomes_one_word(text, word):
    assert pending_reasons.word_of(text) == word


@pytest.mark.parametrize("text", ["Priority", DOWN, "a b c d e f g h i", "Bad-Thing (x)", "123"])
def test_the_word_is_fit_for_a_condition(text):
    # As metav1.Condition validates its reason.
    assert re.fullmatch(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?", pending_reasons.word_of(text))


@pytest.mark.parametrize(
    ("reason", "plain", "remedy"),
    [
        ("Priority", "higher priority", ""),
        ("Resources", "resources to become free", ""),
        ("PartitionTimeLimit", "time limit is longer", "slurm.orlop.dev/time"),
        ("PartitionNodeLimit", "more than its partition allows", "lower"),
        ("GroupNotAllowed", "groups of which you are in none", "another partition"),
        ("ReqNodeNotAvail, UnavailableNodes:n3", "not available now", "other nodes"),
        (DOWN, "down, drained or reserved", "sinfo -R"),
        ("Dependency", "depends on a job", ""),
        ("DependencyNeverSatisfied", "ended otherwise", "delete the pod"),
        ("BeginTime", "has not come", ""),
        ("JobHeldUser", "held by its user", "scontrol release"),
        ("JobHeldAdmin", "administrator", "support"),
        ("QOSMaxJobsPerUserLimit", "running jobs of your QOS", "when other jobs"),
        ("QOSMaxCpuPerUserLimit", "CPUs of your QOS", "when other jobs"),
        ("QOSMaxGRESPerUser", "GPUs of your QOS", "when other jobs"),
        ("AssocGrpCpuLimit", "CPUs of your account", "when other jobs"),
        ("AssocGrpMemLimit", "memory of your account", "when other jobs"),
        ("AssocMaxSubmitJobLimit", "submitted jobs of your account", "when other jobs"),
        ("AssocGrpCPUMinutesLimit", "minutes of CPUs of your account", "when other jobs"),
        ("QOSMaxWallDurationPerJobLimit", "more run time than your QOS allows", "lower"),
        ("AssocMaxCpuPerJobLimit", "more CPUs than your account allows", "lower"),
        ("Licenses", "licence", ""),
        ("SomethingOfTomorrow", "", ""),
    ],
)
def test_a_reason_is_told_in_plain_words_with_its_remedy(reason, plain, remedy):
    words, advice = pending_reasons.in_words(reason)
    assert plain in words
    assert remedy in advice
    assert bool(words) is bool(plain)


@pytest.mark.parametrize(
    ("word", "never", "shared"),
    [
        ("PartitionTimeLimit", True, False),
        ("BadConstraints", True, False),
        ("GroupNotAllowed", True, False),
        ("QOSMaxCpuPerJobLimit", True, False),
        ("AssocMaxWallDurationPerJobLimit", True, False),
        ("AssocGrpCpuLimit", False, True),
        ("QOSMaxMemoryPerUser", False, True),
        ("AssocMaxJobsLimit", False, False),
        ("QOSGrpCPUMinutesLimit", False, False),
        ("Priority", False, False),
        ("Licenses", False, False),
        ("", False, False),
    ],
)
def test_what_passes_by_waiting_is_told_from_what_never_does(word, never, shared):
    assert (pending_reasons.is_never(word), pending_reasons.is_shared_limit(word)) == (
        never,
        shared,
    )
