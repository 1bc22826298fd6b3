"""Words of strangers on a terminal and in a log."""

from __future__ import annotations

import io
import json

import pytest

from orlop import log, printable
from orlop.cli.table import table

HOSTILE = ["a\nERROR x", "\x1b[2J\x1b]0;title\x07", "a\rb", "\x9b2J", "\x7f", "\u2028", "\u202egnp",
           "\x00", "\ud800", "a\x0bb"]  # fmt: skip


@pytest.mark.parametrize("text", ["", "plain", "ü 漢 é", 'say "no"', "a\\b"])
def test_what_can_be_seen_stays(text: str) -> None:
    assert printable.one_line(text) == text
    assert printable.lines(f"{text}\n\t{text}") == f"{text}\n\t{text}"


@pytest.mark.parametrize("text", HOSTILE)
def test_what_cannot_is_escaped(text: str) -> None:
    assert printable.one_line(text).isprintable()
    assert printable.lines(text).replace("\n", "").isprintable()
    assert printable.one_line("a\nb") == "a\\nb"


@pytest.mark.parametrize("text", HOSTILE)
def test_a_row_of_a_table_is_a_line(text: str) -> None:
    shown = table(("NAME", "REASON"), [(text, text), ("b", "c")])
    assert len(shown.splitlines()) == 3
    assert shown.replace("\n", "").isprintable()


@pytest.mark.parametrize("style", ["text", "json"])
@pytest.mark.parametrize("text", HOSTILE)
def test_so_is_an_entry_of_the_log(style: str, text: str) -> None:
    written = io.StringIO()
    log.configure(style=style, stream=written)
    log.logger("orlop.x").info("refused", user=text, path=f"a{text}")
    (line,) = written.getvalue().splitlines()
    assert line.isprintable()
    if style == "json":
        assert json.loads(line)["user"] == text


def test_an_error_cannot_pretend_to_be_another_entry() -> None:
    written = io.StringIO()
    log.configure(stream=written)
    try:
        raise ValueError("a\n2026-11-15T10:00:00.123Z INFO x all is well\x1b[2J")
    except ValueError:
        log.logger("orlop.x").error("failed", exc_info=True)
    first, *rest = written.getvalue().splitlines()
    assert first.endswith("ERROR x failed")
    assert rest
    assert all(line.startswith("    ") and line.isprintable() for line in rest)


def test_what_libraries_say_is_one_line_too() -> None:
    import logging

    written = io.StringIO()
    log.configure(stream=written)
    logging.getLogger("aiohttp.server").warning("bad request %s", "a\nb\x1b[2J")
    (line,) = written.getvalue().splitlines()
    assert line.isprintable()
