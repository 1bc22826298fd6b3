"""What Slurm's commands say when they fail, and the error each becomes."""

from __future__ import annotations

import pytest

from orlop.errors import EngineUnavailable, SubmitDeferred, SubmitRejected
from orlop.slurm.failures import last_words, submit_error, unavailable

FAILED = "sbatch: error: Batch job submission failed: "
POLICY = "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"


@pytest.mark.parametrize(
    "words",
    [
        "Unable to contact slurm controller (connect failure)",
        "Unable to contact slurm controller (receive failure)",
        "Socket timed out on send/recv operation",
        "Zero Bytes were transmitted or received",
        "Protocol authentication error",
        "Munge encode failed: Failed to access socket (Did you start munged?)",
        "Slurm backup controller in standby mode",
        "Could not establish a configuration source",
    ],
)
def test_silence_is_not_an_answer(words):
    error, _ = submit_error(FAILED + words)
    assert isinstance(error, EngineUnavailable)
    assert words in str(error)
    assert isinstance(unavailable("squeue", f"slurm_load_jobs error: {words}"), EngineUnavailable)


@pytest.mark.parametrize(
    "words",
    [
        "Slurm temporarily unable to accept job, sleeping and retrying",
        "Required partition not available (inactive or drain)",
        "Required node not available (down, drained or reserved)",
        POLICY,
        f"AssocMaxSubmitJobLimit\n{FAILED}{POLICY}",
        f"QOSMaxSubmitJobPerUserLimit\n{FAILED}{POLICY}",
        "Unable to create job record, try again",
    ],
)
def test_what_passes_is_deferred(words):
    error, _ = submit_error(FAILED + words)
    assert isinstance(error, SubmitDeferred)


@pytest.mark.parametrize(
    ("words", "remedy", "help_with"),
    [
        ("Invalid partition name specified", "slurm.orlop.dev/partition", "partitions"),
        ("User's group not permitted to use this partition", "another partition", "partitions"),
        ("Invalid account or account/partition combination specified", "/account", "accounts"),
        ("Invalid qos specification", "slurm.orlop.dev/qos", "accounts"),
        (f"QOSMaxCpuPerUserLimit\n{FAILED}{POLICY}", "ask for less", "accounts"),
        ("Memory specification can not be satisfied", "memory", "partitions"),
        ("Requested node configuration is not available", "ask for less", "partitions"),
        ("Requested time limit is invalid (missing or exceeds some limit)", "/time", "partitions"),
        ("Invalid generic resource (gres) specification", "GPU", ""),
        ("Invalid feature specification", "constraint", ""),
        ("Requested reservation is invalid", "reservation", ""),
        ("Invalid license specification", "licenses", ""),
        ("Something that nobody has seen before", "man sbatch", ""),
    ],
)
def test_a_refusal_for_good_has_its_remedy(words, remedy, help_with):
    error, of = submit_error(FAILED + words)
    assert isinstance(error, SubmitRejected)
    assert remedy in str(error)
    assert of == help_with


def test_an_option_that_sbatch_does_not_have_is_told():
    text = "sbatch: unrecognized option '--nonsense'\nTry \"sbatch --help\" for more information\n"
    error, _ = submit_error(text)
    assert isinstance(error, SubmitRejected)
    assert "unrecognized option '--nonsense'" in str(error)
    assert "Try" not in str(error)


@pytest.mark.parametrize("text", ["", "\n"])
def test_failure_without_a_word_is_still_a_sentence(text):
    assert "without a word" in str(submit_error(text)[0])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("sbatch: error: a\nsbatch: error: b\n", "a: b"),
        ("squeue: fatal: no\n", "no"),
        ("slurm_load_jobs error: Unable", "slurm_load_jobs error: Unable"),
        ("sbatch: error: a\nsbatch: error: a\n", "a"),
        ("", ""),
    ],
)
def test_last_words_are_one_line_without_the_programs_name(text, words):
    assert last_words(text) == words


def test_an_answer_is_not_silence():
    assert unavailable("scancel", "Kill job error on job id 9: Invalid job id specified") is None
