"""`make test` runs alone what failed among others, and never calls a failure a success."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import suite

SETTLES = """
from pathlib import Path
def test_settles():
    before = Path(__file__).with_name("seen")
    was_seen = before.exists()
    before.touch()
    assert was_seen
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.setattr(suite, "PROJECT", tmp_path)
    monkeypatch.setattr(suite, "WORKERS", 1)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return tmp_path


@pytest.mark.parametrize(
    ("tests", "code", "words"),
    [
        ("def test_good(): pass", 0, ""),
        (SETTLES, 0, "Unsteady"),
        ("def test_bad(): assert False", 1, "Once more"),
        (f"{SETTLES}\ndef test_bad(): assert False", 1, "Once more"),
        ("import nothing_of_that_name", 2, ""),
    ],
    ids=["all pass", "one settles", "one fails", "one of two fails", "one cannot be read"],
)
def test_what_fails_twice_has_failed(project: Path, capfd, tests, code, words) -> None:
    (project / "test_it.py").write_text(tests)

    assert suite.main([]) == code

    out = capfd.readouterr().out
    assert words in out
    assert ("Unsteady" in out) == (words == "Unsteady")


def test_many_failures_are_no_accident(project: Path, capfd) -> None:
    bad = "import pytest\n@pytest.mark.parametrize('n', range(13))\ndef test_bad(n): assert False"
    (project / "test_it.py").write_text(bad)

    assert suite.main([]) == 1

    assert "Once more" not in capfd.readouterr().out
