"""Makes words of strangers safe for a terminal or a line of a log.

Names, reasons and messages come from whoever could write them, into an object or into Slurm's
queue. What is no printable character is written as its escape: a terminal obeys none of it, and a
line stays one line.
"""

from __future__ import annotations


def one_line(text: str) -> str:
    """Return every character that can be seen, and escapes for all others."""
    return text if text.isprintable() else "".join(map(_escaped, text))


def lines(text: str) -> str:
    """Escape as `one_line`, but keep line breaks and tabs."""
    kept = text.translate(_LAYOUT)
    return text if kept.isprintable() else "".join(c if c in "\n\t" else _escaped(c) for c in text)


def indented(text: str) -> str:
    """Indent lines, so that they cannot be taken for ones that begin at the margin."""
    return "\n".join(f"    {one_line(line)}" for line in text.split("\n"))


_LAYOUT = str.maketrans("", "", "\n\t")


def _escaped(character: str) -> str:
    return character if character.isprintable() else ascii(character)[1:-1]
