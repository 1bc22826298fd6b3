"""What docstrings say of imports, held where an import contract of pyproject.toml cannot say it.

A module is known by its docstring and not by its path: one that calls itself pure is held to it
from the moment it says so, wherever it moves.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[1] / "src" / "orlop"
MODULES = sorted(SOURCES.rglob("*.py"))
AGENT = sorted((SOURCES / "agent").rglob("*.py"))
STANDARD = {*sys.stdlib_module_names, "compression"}  # the latter from Python 3.14 on
STANDARD_ONLY = [path for path in MODULES if path.match("runtime/images/unpack.py")]

# What reaches out of a module, or makes two calls differ; each with what is harmless of it.
REACHES_OUT = {
    "_socket": r"AF_\w+|inet_\w+",
    "_thread": "",
    "aiohttp": "",
    "asyncio": "",
    "concurrent": "",
    "fcntl": "",
    "getpass": "",
    "http": "",
    "logging": "",
    "multiprocessing": "",
    "os": r"fs(de|en)code|path|W[A-Z]+",
    "pwd": "",
    "random": "",
    "secrets": "",
    "select": "",
    "selectors": "",
    "shutil": "",
    "socket": r"AF_\w+|inet_\w+",
    "sqlite3": "",
    "ssl": "",
    "subprocess": "",
    "tempfile": "",
    "threading": r"local",
    "time": r"strftime|gmtime|thread_time",  # the last: bounds on what one expression may cost
    "uuid": "",
}
OURS_REACHING_OUT = re.compile(
    r"orlop\.(files|listener|log|store|upgrade)\b|orlop\.pki\.(?!Pki|names_in|read_request)"
    r"|orlop\.client\.(api|https|informer|recorder)\b|orlop\.slurm\.commands\b"
)
READS_WHAT_IS_INSTALLED = "api/schema/source.py"
CALLS_OUT = {"open", "print", "input", "now", "today", "utcnow", "read_text", "read_bytes"}
CALLS_OUT |= {"write_text", "write_bytes", "exists", "iterdir", "unlink", "mkdir", "stat"}


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def imports(path: Path) -> Iterator[tuple[str, str, str]]:
    """Every import anywhere in a module: what, as which name, and what of it."""
    package = ("orlop", *path.relative_to(SOURCES).parent.parts)
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, alias.asname or alias.name, ""
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                yield module, alias.asname or alias.name, alias.name


def foreign(path: Path) -> set[str]:
    """What a module imports that is not the standard library's, by its full name."""
    found = {f"{module}.{name}".strip(".") for module, _, name in imports(path)}
    return {name for name in found if name.split(".")[0] not in STANDARD}


@pytest.mark.parametrize("path", AGENT, ids=lambda path: str(path.relative_to(SOURCES)))
def test_the_agent_imports_the_standard_library_itself_and_wellknown(path: Path) -> None:
    ours = re.compile(r"orlop\.(agent|wellknown)(\..*)?")
    assert [name for name in foreign(path) if not ours.fullmatch(name)] == []


@pytest.mark.parametrize("path", [SOURCES / "wellknown.py", *STANDARD_ONLY], ids=lambda p: p.stem)
def test_it_imports_the_standard_library(path: Path) -> None:
    assert foreign(path) == set()


def is_called_pure(path: Path) -> bool:
    return re.search(r"\bpure\b", ast.get_docstring(tree(path)) or "", re.IGNORECASE) is not None


def pure_modules() -> list[Path]:
    """Those that say so, and all below a package that does."""
    packages = {path.parent for path in MODULES if path.stem == "__init__" and is_called_pure(path)}
    return [
        path
        for path in MODULES
        if (packages.intersection(path.parents) or is_called_pure(path))
        and not path.match(READS_WHAT_IS_INSTALLED)
    ]


PURE = pure_modules()
# Each has a table that extensions fill once, when the process begins.
FILLED_ONCE = {SOURCES / "api" / "gangs.py", SOURCES / "api" / "dependencies.py"}


@pytest.mark.parametrize("path", PURE, ids=lambda path: str(path.relative_to(SOURCES)))
def test_a_module_that_calls_itself_pure_is(path: Path) -> None:
    found = tree(path)
    wrong = [name for name in foreign(path) if OURS_REACHING_OUT.match(name)]
    whole = {}
    for module, alias, name in imports(path):
        harmless = REACHES_OUT.get(module.split(".")[0])
        if harmless is None:
            continue
        if not name:
            whole[alias] = harmless
        elif not re.fullmatch(harmless, name):
            wrong.append(f"{module}.{name}")
    for node in ast.walk(found):
        if isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.Global):
            is_known = isinstance(node, ast.Global) and path in FILLED_ONCE
            wrong += [] if is_known else [type(node).__name__]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            harmless = whole.get(node.value.id)
            if harmless is not None and not re.fullmatch(harmless, node.attr):
                wrong.append(f"{node.value.id}.{node.attr}")
        elif isinstance(node, ast.Call):
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            wrong += [f"{called}()"] if called in CALLS_OUT else []
    assert wrong == []


def test_many_modules_are_pure() -> None:
    assert len(PURE) > 80
    assert len(STANDARD_ONLY) == 1
