"""Compiling what is quicker in C, and doing without a compiler."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from orlop.agent.compiling import COMPILERS, NETWORK, STARTER, Part, compile_helper, helper_file

PARTS = pytest.mark.parametrize("part", [NETWORK, STARTER], ids=lambda part: part.name)


@PARTS
async def test_it_is_made_once(tmp_path: Path, part: Part) -> None:
    target = helper_file(tmp_path / "run", part)
    assert await compile_helper(target, part=part) == ""
    made = target.stat().st_mtime_ns
    assert await compile_helper(target, part=part) == ""
    assert target.stat().st_mtime_ns == made
    assert list(target.parent.iterdir()) == [target]


@PARTS
async def test_its_sources_say_nothing_that_a_strict_compiler_would_warn_of(
    tmp_path: Path, part: Part
) -> None:
    strict = replace(part, flags=(*part.flags, "-Wall", "-Wextra", "-Werror"))
    assert await compile_helper(helper_file(tmp_path, strict), COMPILERS, strict) == ""


async def test_where_there_is_no_compiler_that_is_said(tmp_path: Path) -> None:
    found = await compile_helper(helper_file(tmp_path), ("no-such-compiler",))
    assert found == "there is no C compiler here (no-such-compiler)"
    assert not list(tmp_path.iterdir())


async def test_a_compiler_that_fails_is_told_with_its_words(tmp_path: Path) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\necho no licence >&2; exit 1\n")
    compiler.chmod(0o755)
    found = await compile_helper(helper_file(tmp_path / "run"), (str(compiler),))
    assert found == f"{compiler} failed: no licence"
    assert not list((tmp_path / "run").iterdir())
