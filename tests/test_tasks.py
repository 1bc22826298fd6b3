"""A task outside of a group has a name, so that a log or a debugger can tell whose it is."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[1] / "src" / "orlop"
LOOPS = ("asyncio", "loop", "self._loop", "asyncio.get_running_loop()", "asyncio.get_event_loop()")


def nameless(source: str) -> list[int]:
    """The lines where a task is made without a name; ensure_future takes none."""
    lines = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        owner, _, called = ast.unparse(node.func).rpartition(".")
        has_name = any(keyword.arg == "name" for keyword in node.keywords)
        is_bare = called == "create_task" and owner in ("", *LOOPS) and not has_name
        if is_bare or called == "ensure_future":
            lines.append(node.lineno)
    return lines


@pytest.mark.parametrize(
    "source",
    [
        "asyncio.create_task(run())",
        "asyncio.get_running_loop().create_task(run())",
        "loop.create_task(run())",
        "asyncio.ensure_future(run())",
    ],
)
def test_a_task_without_a_name_is_found(source):
    assert nameless(source) == [1]


@pytest.mark.parametrize(
    "source", ["asyncio.create_task(run(), name='x')", "group.create_task(run())"]
)
def test_a_task_with_a_name_or_of_a_group_is_none(source):
    assert nameless(source) == []


def test_every_task_outside_of_a_group_has_a_name():
    found = {path: nameless(path.read_text()) for path in SOURCES.rglob("*.py")}
    assert {str(path.relative_to(SOURCES)): lines for path, lines in found.items() if lines} == {}
