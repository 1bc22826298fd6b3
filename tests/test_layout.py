"""A stranger finds his way: the map leads somewhere, and a folder is a topic of its size."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tools import drawings

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src" / "orlop"
MAP = ROOT / "docs" / "explanation" / "map.md"
GLOSSARY = ROOT / "docs" / "explanation" / "glossary.md"
MOST_MODULES = 20
FOLDERS = sorted({path.parent for path in SOURCES.rglob("*.py")})
ROWS = re.findall(r"^\| (.+?) \| `([^`]+)` \|$", MAP.read_text(), re.MULTILINE)


@pytest.mark.parametrize(("question", "path"), ROWS, ids=[path for _, path in ROWS])
def test_the_map_leads_somewhere(question: str, path: str) -> None:
    found = SOURCES / path
    assert found.is_dir() if path.endswith("/") else found.is_file(), question


def test_the_map_answers_forty_questions_and_each_once() -> None:
    assert len(ROWS) >= 40
    assert len({question for question, _ in ROWS}) == len(ROWS)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: str(folder.relative_to(SOURCES)))
def test_a_folder_is_a_topic_of_its_size(folder: Path) -> None:
    modules = [path for path in folder.glob("*.py") if path.name != "__init__.py"]
    assert len(modules) <= MOST_MODULES
    assert ast.get_docstring(ast.parse((folder / "__init__.py").read_text()))


def test_the_words_of_the_glossary_are_in_order_and_said_once() -> None:
    words = re.findall(r"^\| \*\*(.+?)\*\*", GLOSSARY.read_text(), re.MULTILINE)
    assert len(words) > 30
    assert words == sorted(set(words), key=str.lower)


@pytest.mark.parametrize("source", drawings.sources(), ids=lambda source: source.stem)
def test_a_drawing_is_of_its_text(source: Path) -> None:
    """`make drawings` makes them anew."""
    assert source.with_suffix(".svg").read_text().startswith(drawings.mark(source))


@pytest.mark.parametrize("source", drawings.sources(), ids=lambda source: source.stem)
def test_what_a_drawing_names_is_there(source: Path) -> None:
    labels = " ".join(re.findall(r'label="([^"]+)"', source.read_text())).replace(r"\n", " ")
    named = re.findall(r"\b[a-z]+/[a-z_/]*(?:\.py)?", labels)
    assert named
    assert [path for path in named if not (SOURCES / path).exists()] == []
