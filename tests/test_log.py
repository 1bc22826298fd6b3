from __future__ import annotations

import io
import json
import logging

import pytest

from orlop import log


@pytest.fixture
def written():
    """Configures logging to a string; gives back what was there before."""
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    stream = io.StringIO()
    yield stream
    root.handlers[:], root.level = before, level


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, "INFO kubelet submitted job"),
        ({"pod": "default/a", "job": 17}, "INFO kubelet submitted job pod=default/a job=17"),
        ({"why": "two words"}, 'INFO kubelet submitted job why="two words"'),
        ({"why": 'say "no"'}, 'INFO kubelet submitted job why="say \\"no\\""'),
        ({"why": "a\nb"}, 'INFO kubelet submitted job why="a\\nb"'),
        ({"why": ""}, 'INFO kubelet submitted job why=""'),
    ],
    ids=["none", "plain", "space", "quote", "newline", "empty"],
)
def test_a_line_is_the_message_and_its_values(written, values, expected):
    log.configure(stream=written)
    log.logger("orlop.kubelet").info("submitted job", **values)
    line = written.getvalue()
    stamp, _, rest = line.partition(" ")
    assert rest == f"{expected}\n"
    assert stamp.endswith("Z")
    assert len(stamp) == len("2026-11-15T10:00:00.123Z")


def test_what_is_bound_is_said_each_time_and_may_be_overridden(written):
    log.configure(stream=written)
    bound = log.logger("orlop.x").bind(pod="a", job=1)
    bound.warning("late", job=2)
    assert written.getvalue().endswith("WARNING x late pod=a job=2\n")


def test_json_has_one_object_a_line(written):
    log.configure(style="json", stream=written)
    log.logger("orlop.x").error("lost", pod="a\nb")
    (line,) = written.getvalue().splitlines()
    entry = json.loads(line)
    assert (entry["level"], entry["logger"], entry["msg"]) == ("error", "x", "lost")
    assert entry["pod"] == "a\nb"


@pytest.mark.parametrize("style", ["text", "json"])
def test_an_exception_is_told_with_its_traceback(written, style):
    log.configure(style=style, stream=written)
    try:
        raise ValueError("why")
    except ValueError:
        log.logger("orlop.x").error("failed", exc_info=True)
    assert "Traceback" in written.getvalue()
    assert "ValueError: why" in written.getvalue()


@pytest.mark.parametrize(("level", "lines"), [("debug", 2), ("info", 1), ("error", 0)])
def test_the_level_decides_what_is_said(written, level, lines):
    log.configure(level, stream=written)
    logger = log.logger("orlop.x")
    logger.debug("quiet")
    logger.info("loud")
    assert len(written.getvalue().splitlines()) == lines


@pytest.mark.parametrize("evil", ["a\r\nb", "\x1b[2J", "a\x00b", "\u2028x", "\x9b31m", "\u202etxt"])
def test_what_others_say_is_one_line_and_no_order_to_a_terminal(written, evil):
    log.configure(stream=written)
    log.logger("orlop.x").warning("refused", who=evil)
    logging.getLogger("aiohttp.server").error("Error handling request from %s", evil)
    try:
        raise ValueError(f"{evil}\n2026-01-01T00:00:00.000Z INFO forged")
    except ValueError:
        log.logger("orlop.x").error("failed", exc_info=True)
    lines = written.getvalue().splitlines()
    assert written.getvalue().replace("\n", "").isprintable()
    assert [line[:4].isdigit() for line in lines[:3]] == [True] * 3
    assert not any(line[:4].isdigit() for line in lines[3:])
