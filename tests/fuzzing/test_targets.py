"""Every target runs, a little; `make soak` runs each a million times."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.fuzzing.__main__ import described
from tests.fuzzing.hunt import hunt
from tests.fuzzing.native import is_possible
from tests.fuzzing.target import Entry
from tests.fuzzing.targets import ENTRIES, MODULES

INPUTS = 300
README = Path(__file__).parent / "README.md"
OF_PYTHON = [
    pytest.param(module.target.entries, id=module.__name__.split(".")[-1])
    for module in MODULES
    if not any(one.is_native for one in module.target.entries)
]
NATIVE = [one for one in ENTRIES if one.is_native]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("entries", OF_PYTHON)
def test_each_target_takes_what_comes(entries: list[Entry], tmp_path: Path) -> None:
    judge(entries, tmp_path)


@pytest.mark.timeout(600)
@pytest.mark.skipif(not is_possible(), reason="gcc, with its sanitizers, is not here")
def test_each_target_in_c_takes_what_comes(tmp_path: Path) -> None:
    judge(NATIVE, tmp_path)


def judge(entries: list[Entry], folder: Path) -> None:
    found = hunt(entries, INPUTS, seed=1, folder=folder)
    told = [line for name, one in found.items() for line in (name, *described(name, one))]
    assert not any(one.faults for one in found.values()), "\n".join(told)
    assert all(one.inputs >= INPUTS for one in found.values()), found


def test_the_list_of_parsers_names_every_target() -> None:
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \| `([^`]+)` \|$", README.read_text(), re.MULTILINE)
    listed = [(reads.strip(), strangers.strip(), name) for reads, strangers, name in rows]
    assert listed == [(one.reads, one.strangers, one.name) for one in ENTRIES]
