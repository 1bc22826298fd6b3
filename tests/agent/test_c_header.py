"""What C is told of Python: the same answers, the same bytes, and nothing that only looks alike."""

from __future__ import annotations

import ctypes
import inspect
import math
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orlop.agent.c_header import Untranslatable, netd_header, translate
from orlop.agent.compiling import COMPILERS, NETWORK, write_header
from orlop.agent.netd import layout
from orlop.agent.netd.tcp import decisions

C_TYPES = {"int": ctypes.c_int, "float": ctypes.c_double, "bool": ctypes.c_bool}
FUNCTIONS = {
    name: one
    for name, one in inspect.getmembers(decisions, inspect.isfunction)
    if one.__module__ == decisions.__name__
}
NUMBERS = [told for told in vars(decisions).values() if type(told) in (int, float)]
# Near what is compared with, and anything at all.
INTS = st.sampled_from([n for n in NUMBERS if type(n) is int]) | st.integers(-(2**31), 2**31 - 1)
FLOATS = (
    st.builds(
        lambda told, more: told + more,
        st.sampled_from([0.0, 1e9, *(n for n in NUMBERS if type(n) is float)]),
        st.sampled_from([0.0, 1e-9, -1e-9, 0.05, -0.05, 1.0]),
    )
    | st.floats()
)
VALUES = {"int": INTS, "float": FLOATS, "bool": st.booleans()}
NATIVE = sorted(NETWORK.sources.iterdir())


def compiled(folder: Path, header: str) -> ctypes.CDLL:
    """The header's functions, which are static, by the same names with `call_` before."""
    (folder / "header.h").write_text(header)
    text = ['#include "header.h"']
    for kind, name, given_types in re.findall(r"^static inline (\w+) (\w+)\((.*)\)$", header, re.M):
        names = [] if given_types == "void" else [w.split()[-1] for w in given_types.split(", ")]
        text.append(f"{kind} call_{name}({given_types}) {{ return {name}({', '.join(names)}); }}")
    (folder / "calls.c").write_text("\n".join(text))
    made = folder / "calls.so"
    flags = ("-std=gnu11", "-O2", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror")
    words = [COMPILERS[0], *flags, "-shared", "-fPIC", "-o", made, folder / "calls.c"]
    subprocess.run(words, check=True)
    return ctypes.CDLL(str(made))


def in_c(library: ctypes.CDLL, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    types = inspect.get_annotations(function)
    found = library[f"call_{name}"]
    found.restype = C_TYPES[types.pop("return")]
    found.argtypes = [C_TYPES[kind] for kind in types.values()]
    return found


@pytest.fixture(scope="module")
def library(tmp_path_factory) -> ctypes.CDLL:
    return compiled(tmp_path_factory.mktemp("header"), netd_header())


def assert_alike(function: Callable[..., Any], called: Callable[..., Any]) -> None:
    types = inspect.get_annotations(function)
    kind = types.pop("return")

    @settings(max_examples=500, deadline=None, database=None)
    @given(st.tuples(*(VALUES[one] for one in types.values())))
    def both(arguments: tuple[Any, ...]) -> None:
        here, there = function(*arguments), called(*arguments)
        assert type(here).__name__ == kind
        assert here == there or (math.isnan(here) and math.isnan(there))

    both()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_c_decides_as_python_does(library, name):
    assert_alike(FUNCTIONS[name], in_c(library, name, FUNCTIONS[name]))


ALL_THAT_IS_KNOWN = '''
"""Said."""
from __future__ import annotations
from errno import EAGAIN, EINTR

SOON, LATE = 0.1, -2.5
FEW = (EAGAIN, 7)
NONE = -1

def first(code: int, is_it: bool) -> bool:
    """Said."""
    return code in FEW or (code not in (EINTR, 3) and not is_it) or code == -EAGAIN or code < NONE

def second(one: float, other: float, is_it: bool, code: int) -> float:
    if one > other and is_it:
        if first(code, is_it):
            return min(one, other) - LATE
        return one
    if one != other:
        return max(one * SOON, other)
    return one + (1.5 if is_it else -SOON)

def third(code: int, one: float) -> int:
    if first(code, True):
        return code
    elif one <= 3.5:
        return NONE
    else:
        return -7
'''


def test_every_word_that_is_known_means_the_same_in_c(tmp_path):
    space: dict[str, Any] = {}
    exec(ALL_THAT_IS_KNOWN, space)
    library = compiled(tmp_path, "#include <stdbool.h>\n" + translate(ALL_THAT_IS_KNOWN, space))
    for name in ("first", "second", "third"):
        assert_alike(space[name], in_c(library, name, space[name]))


def function(body: str, head: str = "def f(a: int, b: float, c: bool) -> int:") -> str:
    return f"{head}\n    {body}\n"


@pytest.mark.parametrize(
    "source",
    [
        "import os",
        "from os import path",
        "from errno import EAGAIN as E",
        "x = 1",
        "WORDS = 'a'",
        "LARGE = 1 << 40",
        "ENDLESS = float('inf')",
        "class A: pass",
        "LIST = [1]",
        "FLOATS = (0.5,)",
        "if True:\n    A = 1",
        "@f\ndef f() -> int:\n    return 1",
        "async def f() -> int:\n    return 1",
        function("return 1", "def f(a: int = 1) -> int:"),
        function("return 1", "def f(*a: int) -> int:"),
        function("return 1", "def f(*, a: int) -> int:"),
        function("return 1", "def f(a: int, /) -> int:"),
        function("return 1", "def f(a) -> int:"),
        function("return 1", "def f(a: str) -> int:"),
        function("return 1", "def f(a: int):"),
        function("return 1", "def f(default: int) -> int:"),
        function("return 1", "def switch(a: int) -> int:"),
        function("return b"),
        function("return c"),
        function("return"),
        function("pass"),
        function("a = 2\n    return a"),
        function("while c:\n        return 1"),
        function("if c:\n        return 1"),
        function("if c:\n        pass\n    return 1"),
        function("return 1\n    return 2"),
        function("if a:\n        return 1\n    return 2"),
        function("return a or 1"),
        function("return a + 1"),
        function("return a // 2"),
        function("return -a"),
        function("return ~a"),
        function("return 1 if a else 2"),
        function("return 1 if c else b"),
        function("return 1 if b < a else 2"),
        function("return 1 if 1 < a < 3 else 2"),
        function("return 1 if c == c else 2"),
        function("return 1 if a is a else 2"),
        function("return 1 if a in a else 2"),
        function("return 1 if a in (1, a) else 2"),
        function("return 1 if b in (1, 2) else 2"),
        function("return 1 if a in UNKNOWN else 2"),
        function("return unknown"),
        function("return f(a, b, c)"),
        function("return abs(a)"),
        function("return min(a, a)"),
        function("return int(b)"),
        function("return a.real"),
        function("return 1 << 40"),
        function("return 5000000000"),
        function("return 'a'"),
        function("return None"),
        function("return (lambda: 1)()"),
    ],
)
def test_what_c_may_take_otherwise_is_refused(source):
    space: dict[str, Any] = {}
    try:
        exec("from __future__ import annotations\n" + source.removeprefix("@f\n"), space)
    except (ImportError, AttributeError):
        pass
    with pytest.raises(Untranslatable):
        translate(source, space)


def test_no_number_is_said_again_in_c():
    """Names that Python gives to numbers are none that C gives to others, nor are the numbers."""
    text = "\n".join(path.read_text() for path in NATIVE)
    names = {name for name in {**vars(decisions), **vars(layout)} if name.isupper()}
    made = set(re.findall(r"#define\s+(\w+)", text))
    made |= set(re.findall(r"\b(\w+) = ", " ".join(re.findall(r"enum \{([^}]*)\}", text))))
    made |= set(re.findall(r"const \w+ (\w+)\b", text))
    assert {"API", "BUCKETS", "sweep_every"} <= made
    assert not names & made
    times = {repr(n) for n in NUMBERS if type(n) is float and n not in (1.0, 3.0)}
    assert not times & set(re.findall(r"\b\d+\.\d+\b", text))
    tags = set(re.findall(r"^struct (\w+) \{", text, re.M))
    assert not tags & layout.STRUCTS.keys()


def test_the_header_names_each_layout_and_decision():
    header = netd_header()
    assert all(f"static inline {k} {n}(" in header for k, n in _declared())
    assert all(f"struct {tag} {{" in header for tag in layout.STRUCTS)


def _declared() -> list[tuple[str, str]]:
    words = {"int": "int", "float": "double", "bool": "bool"}
    return [(words[inspect.get_annotations(f)["return"]], name) for name, f in FUNCTIONS.items()]


def test_a_part_that_shares_nothing_has_no_header(tmp_path):
    from orlop.agent.compiling import STARTER

    assert write_header(tmp_path, STARTER) == []
    assert not list(tmp_path.iterdir())
