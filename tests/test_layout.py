"""A stranger finds his way: the map leads somewhere, a folder is a topic, tests are beside it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tools import drawings

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src" / "orlop"
TESTS = ROOT / "tests"
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


# Rules that a module's own docstring states, and the test that holds each. A sentence with one of
# these words is a promise; a new one needs a test, or plainer words.
PROMISE = re.compile(r"\b(never|alone|nothing else|no other|nobody else|no one else)\b", re.I)
HELD = {
    "under a name that never means another file": (
        "test_the_log_of_a_job_that_starts_anew_goes_on_where_it_was"
    ),
    "so no other user can speak for a pod": "test_what_is_not_signed_for_us_is_not_believed",
    "so no other can be found where the pod was": (
        "test_a_forwarded_port_that_a_program_has_left_leads_to_no_stranger"
    ),
    "What nobody vouches for is closed, and the caller never sees it": (
        "test_who_is_behind_strangers_is_let_in_and_they_are_not"
    ),
    "UDP socket receives as any does and never sends by itself": (
        "test_a_silent_socket_sends_by_no_call_and_descriptor"
    ),
    "Sub-paths never leave their volume": "test_a_sub_path_never_leaves_its_volume",
    "never becomes an option, a variable or a file of srun's own": "test_all_else_is_refused",
    "a ValueError, never a RecursionError": "test_deep_nesting_is_refused_not_a_crash",
    "never waits for what another gang holds": "test_room_is_held_for_who_comes_later",
    "It never follows a link out of the root": "test_no_link_leads_out_of_the_root",
    "which lets no other into a namespace": "test_what_leads_out_is_refused",
}


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def module_docstring(path: Path) -> str:
    return " ".join((ast.get_docstring(tree(path)) or "").split())


def test_what_a_module_promises_is_held_by_a_test() -> None:
    promises = [
        f"{path.relative_to(SOURCES)}: {sentence}"
        for path in sorted(SOURCES.rglob("*.py"))
        for sentence in re.split(r"(?<=[.!?])\s+", module_docstring(path))
        if PROMISE.search(sentence)
    ]
    assert [one for one in promises if not any(words in one for words in HELD)] == []
    assert [words for words in HELD if not any(words in one for one in promises)] == []


def test_what_holds_a_promise_is_a_test() -> None:
    written = "\n".join(path.read_text() for path in TESTS.rglob("test_*.py"))
    assert [name for name in HELD.values() if f"def {name}(" not in written] == []


# First words with which a docstring names its function instead of telling what it does.
NO_VERBS = re.compile(
    r"(A|All|An|As|Each|Every|False|How|If|In|It|Its|Nobody|Of|On|One|Seconds|That|The|These|This"
    r"|True|What|Whatever|When|Where|Whether|Which|Who|Whose|Why)\b"
)


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def docstrings(path: Path) -> str:
    found = ast.walk(tree(path))
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return "\n".join(ast.get_docstring(one) or "" for one in found if isinstance(one, documented))


def test_a_functions_docstring_begins_with_a_verb() -> None:
    """That of a command is what its --help begins with."""
    wrong = [
        f"{path.relative_to(SOURCES)}:{function.lineno} {said.splitlines()[0]}"
        for path in sorted(SOURCES.rglob("*.py"))
        for function in functions(path)
        if (said := ast.get_docstring(function)) and NO_VERBS.match(said)
        if not any("click." in ast.unparse(one) for one in function.decorator_list)
    ]
    assert wrong == []


# Folders of tests that are about all of Orlop, and what each is for.
ABOUT_ALL = {
    "cluster": "builds the Slurm that the others run on",
    "conformance": "clients of others against a running server",
    "e2e": "whole lives of pods, on a real Slurm",
    "fuzzing": "a target for each parser, wherever it is",
    "saved_home": "a home folder of an earlier Orlop",
    "soak": "what takes hours",
}
# Files that are about more than one module of their folder, by what they are about.
ABOUT_MORE = {
    "attackers": (
        "attack_addresses attack_rights attacks bodies bombs confined connections deep egress "
        "expressions harm hostile own_patterns patches paths records"
    ),
    "anything, made up by Hypothesis": (
        "any_history any_message any_object any_pod every_field fuzz oracle status_any "
        "what_may_change"
    ),
    "a package as a whole, through its front door": (
        "adapters added apptainer_outside claims config conversion health health_status in_slurm "
        "kinds kubectl life_together matching mounts native_refusal on_cluster on_node on_slurm "
        "over_https programs resources service_account services shaping usage_pages values "
        "versions_and_formats whole"
    ),
    "several small modules of one kind": (
        "cleaners job_usage left_out left_out_on_slurm metrics small_ones"
    ),
    "failures of what is below": "backup disk_full outages recovery restart",
    "cost": "benchmarks cost crowds speed",
    "the repository itself": "docs imports layout names tasks",
}

NO_SOURCES = {
    "api/structural",
    "apiserver/attacks",  # strangers' requests, whichever part of the server they are meant for
    "apiserver/policies",
    "apiserver/webhooks",
}


def is_mirrored(test: Path) -> bool:
    """Whether the module or package that a file of tests is named after is where it would be."""
    folder, name = test.relative_to(TESTS).parent, test.stem.removeprefix("test_")
    places = [SOURCES / folder / name, ROOT / "tools" / folder / name]
    is_its_folders = folder.name == name and (SOURCES / folder).is_dir()
    return is_its_folders or any(
        place.with_suffix(".py").is_file() or place.is_dir() for place in places
    )


def test_tests_are_where_their_sources_are() -> None:
    known = " ".join(ABOUT_MORE.values()).split()
    assert len(known) == len(set(known))
    elsewhere = [
        test
        for test in sorted(TESTS.rglob("test_*.py"))
        if test.relative_to(TESTS).parts[0] not in ABOUT_ALL and not is_mirrored(test)
    ]
    names = {test.stem.removeprefix("test_") for test in elsewhere}
    unknown = [str(one) for one in elsewhere if one.stem.removeprefix("test_") not in known]
    assert unknown == [], "named after no module beside it, and not in ABOUT_MORE"
    assert sorted(set(known) - names) == [], "in ABOUT_MORE for nothing"


def test_a_folder_of_tests_is_a_folder_of_sources() -> None:
    folders = {test.relative_to(TESTS).parent for test in TESTS.rglob("test_*.py")}
    assert [
        str(folder)
        for folder in sorted(folders)
        if folder.parts and folder.parts[0] not in ABOUT_ALL
        if not (SOURCES / folder).is_dir() and str(folder) not in NO_SOURCES
    ] == []


def test_a_file_that_a_docstring_names_is_there() -> None:
    paths = [f"/{path.relative_to(ROOT)}" for path in SOURCES.rglob("*")]
    paths += [f"/{path.relative_to(ROOT)}" for path in TESTS.rglob("*.py")]
    gone = [
        f"{path.relative_to(SOURCES)}: {name}"
        for path in sorted(SOURCES.rglob("*.py"))
        for name in re.findall(r"[\w/]+\.py\b", docstrings(path))
        if not any(one.endswith(f"/{name}") for one in paths)
    ]
    assert gone == []
