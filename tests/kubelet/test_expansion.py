"""$(VAR) is expanded as upstream's own table of cases has it."""

from __future__ import annotations

import time

import pytest

from orlop.kubelet.expansion import expand, unknown_names

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
