"""$(VAR) is expanded as upstream's own table of cases has it."""

from __future__ import annotations

import time

import pytest

from orlop.kubelet.planning.expansion import LONGEST, MOST, expand, expand_all, unknown_names
from orlop.kubelet.planning.refusal import Refusal

VARIABLES = {"VAR_A": "A", "VAR_B": "B", "VAR_C": "C", "VAR_REF": "$(VAR_A)", "VAR_EMPTY": ""}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("$(VAR_A)", "A"),
        ("___$(VAR_B)___", "___B___"),
        ("___$(VAR_C)", "___C"),
        ("$(VAR_A)-$(VAR_A)", "A-A"),
        ("$(VAR_REF)", "$(VAR_A)"),
        ("%%$(VAR_REF)--$(VAR_REF)%%", "%%$(VAR_A)--$(VAR_A)%%"),
        ("foo$(VAR_EMPTY)bar", "foobar"),
        ("foo$(VAR_Awhoops!", "foo$(VAR_Awhoops!"),
        ("f00__(VAR_A)__", "f00__(VAR_A)__"),
        ("$?_boo_$!", "$?_boo_$!"),
        ("$VAR_A", "$VAR_A"),
        ("${VAR_A}", "${VAR_A}"),
        ("$(VAR_DNE)", "$(VAR_DNE)"),
        ("$$$$$$(BIG_MONEY)", "$$$(BIG_MONEY)"),
        ("$$$$$$(VAR_A)", "$$$(VAR_A)"),
        ("$$$$$$$(GOOD_ODDS)", "$$$$(GOOD_ODDS)"),
        ("$$$$$$$(VAR_A)", "$$$A"),
        ("$VAR_A)", "$VAR_A)"),
        ("$(VAR_B)_______$(A", "B_______$(A"),
        ("$(VAR_C)_______$(", "C_______$("),
        ("$(VAR_A)foobarzab$", "Afoobarzab$"),
        ("foo-\\$(VAR_A", "foo-\\$(VAR_A"),
        ("--$($($($($--", "--$($($($($--"),
        ("$($($($($--foo$(", "$($($($($--foo$("),
        ("foo0--$($($($(", "foo0--$($($($("),
        ("$(foo$$var)", "$(foo$$var)"),
        ("$$(VAR_A)", "$(VAR_A)"),
        ("$(VAR_A)$($$(", "A$($("),
        ("", ""),
    ],
)
def test_references_are_expanded_and_dollars_are_kept(text, expected):
    assert expand(text, VARIABLES) == expected


@pytest.mark.parametrize("text", ["$(" * 300_000, "$(VAR_A)" + "$(" * 300_000 + "VAR_A"])
def test_references_that_never_end_are_looked_at_once(text):
    """Whoever may create a pod may write such a command."""
    began = time.process_time()
    assert expand(text, VARIABLES) == text.replace("$(VAR_A)", "A")
    assert unknown_names(text, VARIABLES) == []
    assert time.process_time() - began < 0.5


def test_names_that_nobody_set_are_named():
    assert unknown_names("$(VAR_A)/$(NO)/$$(ESCAPED)", VARIABLES) == ["NO"]


def test_what_references_make_is_bounded_before_it_is_made():
    longest = {"A": "a" * LONGEST}
    assert len(expand("$(A)", longest)) == LONGEST
    with pytest.raises(Refusal, match="make more than 128 KiB"):
        expand("$(A).", longest)
    with pytest.raises(Refusal, match="Linux takes no longer"):
        expand("$(A)" * 500_000, longest)  # 64 GB


def test_the_words_of_one_command_are_bounded_together():
    words = ["$(A)"] * (MOST // LONGEST)
    assert len(expand_all(words, {"A": "a" * LONGEST})) == len(words)
    with pytest.raises(Refusal, match="more than 6 MiB"):
        expand_all([*words, "a"], {"A": "a" * LONGEST})


def test_what_is_long_without_references_is_left_to_the_kernel():
    assert expand("a" * (2 * LONGEST), {}) == "a" * (2 * LONGEST)
