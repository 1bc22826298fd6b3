"""Aligns columns of text as kubectl prints them.

Used by the commands that list things. It aligns, and knows nothing of what it aligns.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..printable import one_line


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Align to the left, three spaces between columns, the last column as long as it is."""
    lines = [header, *([one_line(cell) for cell in row] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header) - 1)]
    padded = [
        "   ".join(
            [*(cell.ljust(width) for cell, width in zip(line, widths, strict=False)), line[-1]]
        )
        for line in lines
    ]
    return "\n".join(line.rstrip() for line in padded)
