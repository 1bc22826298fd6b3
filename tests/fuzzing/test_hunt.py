"""The fuzzer finds what it is for: it is tried on parsers with a fault each."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzzing import planted
from tests.fuzzing.faults import CRASH, ERROR, GROWTH, HANG, MEMORY, SLOW
from tests.fuzzing.hunt import hunt, replay
from tests.fuzzing.native import is_possible

INPUTS = 400
entry = planted.target.find


@pytest.fixture
def quick(monkeypatch):
    """A hang is believed sooner than on a machine that others use, too."""
    monkeypatch.setattr("tests.fuzzing.hunt.STILL", 5.0)
    monkeypatch.setattr("tests.fuzzing.hunt.STILL_ALONE", 2.0)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("planted-error", ERROR),
        ("planted-crash", CRASH),
        ("planted-slow", SLOW),
        ("planted-hang", HANG),
        ("planted-memory", MEMORY),
        ("planted-growth", GROWTH),
        pytest.param(
            *("planted-native", CRASH),
            marks=pytest.mark.skipif(not is_possible(), reason="gcc is not here"),
        ),
    ],
)
def test_a_planted_fault_is_found_and_kept(quick, tmp_path: Path, name: str, kind: str) -> None:
    found = hunt([entry(name)], INPUTS, seed=1, folder=tmp_path)[name].faults
    assert {fault.kind for fault in found} == {kind}
    if kind != GROWTH:
        assert found[0].file is not None
        assert any(
            words.startswith(kind) for words in replay(entry(name), found[0].file.read_bytes())
        )


def test_what_is_not_linear_is_met_by_inputs_that_are_large(quick, tmp_path: Path) -> None:
    found = hunt([entry("planted-quadratic")], 20_000, seed=1, folder=tmp_path)["planted-quadratic"]
    # What takes its second of a core is a hang where others have the core for minutes.
    assert {SLOW, HANG} & {fault.kind for fault in found.faults}


def test_nothing_is_found_where_nothing_is_wrong(tmp_path: Path) -> None:
    found = hunt([entry("planted-nothing")], INPUTS, seed=1, folder=tmp_path)["planted-nothing"]
    assert found.faults == ()
    assert found.inputs >= INPUTS
    assert replay(entry("planted-nothing"), b"[") == []


def test_a_seed_makes_the_same_inputs_again(tmp_path: Path) -> None:
    files = []
    for place in ("one", "two"):
        found = hunt([entry("planted-error")], INPUTS, seed=7, folder=tmp_path / place)[
            "planted-error"
        ]
        files.append([fault.file.name for fault in found.faults if fault.file is not None])
    assert files[0] == files[1] != []


def test_after_a_fault_of_one_target_the_next_is_not_missed(tmp_path: Path) -> None:
    found = hunt(
        [entry("planted-error"), entry("planted-nothing")], INPUTS, seed=1, folder=tmp_path
    )
    assert [bool(one.faults) for one in found.values()] == [True, False]
    assert all(one.inputs >= INPUTS for one in found.values())
