"""sbatch's options as annotations and raw flags name them."""

from __future__ import annotations

import pytest

from orlop.errors import ConfigError
from orlop.slurm.translate import sbatch_options


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ("", []),
        ("--nodes=2", [("nodes", "2")]),
        ("--nodes 2", [("nodes", "2")]),
        ("-N2", [("nodes", "2")]),
        ("-N 2", [("nodes", "2")]),
        ("-N=2", [("nodes", "2")]),
        ("-p gpu -t 1:00:00", [("partition", "gpu"), ("time", "1:00:00")]),
        ("--exclusive", [("exclusive", None)]),
        ("--exclusive=user", [("exclusive", "user")]),
        ("--exclusive -N2", [("exclusive", None), ("nodes", "2")]),
        ("--requeue --hold", [("requeue", None), ("hold", None)]),
        ("-HO", [("hold", None), ("overcommit", None)]),
        ("-sN4", [("oversubscribe", None), ("nodes", "4")]),
        ("--nice", [("nice", None)]),
        ("--nice=-5", [("nice", "-5")]),
        ("--constraint='intel&ib'", [("constraint", "intel&ib")]),
        ('--job-name="two words"', [("job-name", "two words")]),
        ("--mail-user a@b.example", [("mail-user", "a@b.example")]),
        ("--of-tomorrow=7", [("of-tomorrow", "7")]),
        ("--of-tomorrow --hold", [("of-tomorrow", None), ("hold", None)]),
        ("  --nodes=1\n --ntasks=4  ", [("nodes", "1"), ("ntasks", "4")]),
    ],
)
def test_raw_flags_are_read_as_on_sbatchs_command_line(flags, expected):
    assert sbatch_options.from_flags(flags, "here") == expected


@pytest.mark.parametrize("name", sorted(sbatch_options.REFUSED))
def test_options_that_would_break_a_pod_are_refused_with_the_reason(name):
    with pytest.raises(ConfigError, match=f"--{name} cannot be used: ") as caught:
        sbatch_options.from_flags(f"--{name}=1", "slurm.orlop.dev/flags")
    assert caught.value.message.startswith("slurm.orlop.dev/flags: ")
    assert sbatch_options.REFUSED[name] in caught.value.message


@pytest.mark.parametrize(
    ("letter", "name"),
    [("a", "array"), ("M", "clusters"), ("i", "input"), ("W", "wait"), ("h", "help")],
)
def test_their_short_forms_are_refused_too(letter, name):
    with pytest.raises(ConfigError, match=f"--{name} cannot be used"):
        sbatch_options.from_flags(f"-{letter} 1", "here")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("job.sh", "found 'job.sh'"),
        ("--nodes=2 script", "found 'script'"),
        ("--", "found '--'"),
        (":", "found ':'"),
        ("-N", "needs a value"),
        ("-Z3", "-Z is no option"),
        ("--Nodes=2", "is no option of sbatch"),
        ("--job-name='open", "cannot be read"),
        ("--hold=1", "takes no value"),
        ("--job-name='a\nb'", "line break"),
    ],
)
def test_flags_that_make_no_sense_say_what_was_expected(flags, words):
    with pytest.raises(ConfigError) as caught:
        sbatch_options.from_flags(flags, "here")
    assert words in caught.value.message


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("nodes", "2", ("nodes", "2")),
        ("nodes", " 2 ", ("nodes", "2")),
        ("exclusive", "true", ("exclusive", None)),
        ("exclusive", "", ("exclusive", None)),
        ("exclusive", "user", ("exclusive", "user")),
        ("exclusive", "false", None),
        ("requeue", "true", ("requeue", None)),
        ("requeue", "no", None),
        ("nice", "100", ("nice", "100")),
        ("kill-on-invalid-dep", "yes", ("kill-on-invalid-dep", "yes")),
    ],
)
def test_one_annotation_is_one_option(name, value, expected):
    assert sbatch_options.from_annotation(name, value, "here") == expected


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("nodes", "", "needs a value"),
        ("requeue", "maybe", "takes no value"),
        ("wrap", "", "cannot be used"),
        ("NODES", "2", "is no option"),
        ("nodes", "2\n#SBATCH --uid=0", "line break"),
    ],
)
def test_an_annotation_that_makes_no_sense_is_refused(name, value, words):
    with pytest.raises(ConfigError) as caught:
        sbatch_options.from_annotation(name, value, "slurm.orlop.dev/x")
    assert words in caught.value.message


def test_every_short_option_of_the_installed_sbatch_is_known(rootless_slurm):
    text = rootless_slurm.run("head", ["sbatch", "--help"]).stdout
    import re

    listed = dict(re.findall(r"^  -(\w), --([\w-]+)", text, re.MULTILINE))
    assert listed
    assert {letter: sbatch_options.SHORT.get(letter) for letter in listed} == listed


def test_options_without_value_are_those_of_the_installed_sbatch(rootless_slurm):
    """sbatch itself refuses a value for each of them."""
    known = rootless_slurm.run("head", ["sbatch", "--help"]).stdout
    for name in sorted(sbatch_options.NO_VALUE - {"wait", "help", "usage", "version"}):
        if f"--{name}" not in known:
            continue
        argv = ["sbatch", "--test-only", f"--{name}=x", "--wrap=true"]
        answer = rootless_slurm.run("head", argv, check=False)
        is_refused = "doesn't allow an argument" in answer.stderr
        assert is_refused or name in sbatch_options.VALUE_MAY_FOLLOW, name


def test_very_many_flags_in_one_word_are_read():
    assert set(sbatch_options.from_flags("-" + "HO" * 5000, "here")) == {
        ("hold", None),
        ("overcommit", None),
    }
