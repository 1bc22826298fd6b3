from __future__ import annotations

from orlop.cli.table import table


def test_columns_are_as_wide_as_their_widest_cell_and_the_last_is_free():
    text = table(("A", "LONG HEADER", "LAST"), [("cell", "x", "a long message"), ("b", "y", "")])
    assert text.splitlines() == [
        "A      LONG HEADER   LAST",
        "cell   x             a long message",
        "b      y",
    ]


def test_a_header_alone_is_a_table_too():
    assert table(("A", "B"), []) == "A   B"
