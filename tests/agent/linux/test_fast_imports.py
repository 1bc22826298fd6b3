"""What stands in for slow modules behaves as they do."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from orlop.agent.linux import fast_imports
from orlop.agent.linux.fast_imports import dumps, loads

VALUES = [
    None,
    True,
    0,
    -1.5,
    1e300,
    "",
    'quote " slash \\ \n \t \u2028 🚢',
    [],
    [1, [2]],
    {"a": {}},
]


@pytest.mark.parametrize("found", VALUES)
def test_json_is_what_the_standard_library_writes(found):
    assert dumps(found) == json.dumps(found, separators=(",", ":"))


@pytest.mark.parametrize("found", VALUES)
def test_json_is_read_back(found):
    assert loads(dumps(found)) == found
    assert loads(json.dumps(found, indent=2).encode() + b"\n") == found


BAD = ["", "{", '{"a":}', "[1,]", "nope", "1 2", "{{{{"]


@pytest.mark.parametrize("text", BAD)
def test_bad_json_is_a_value_error(text):
    with pytest.raises(ValueError, match=r"JSON|Expecting|Illegal trailing comma"):
        loads(text)


@pytest.mark.parametrize("text", BAD)
def test_bad_json_is_a_value_error_where_json_was_never_imported(text):
    code = (
        "import sys; from orlop.agent.linux.fast_imports import loads\n"
        "assert 'json' not in sys.modules\n"
        "try: loads(sys.argv[1])\n"
        "except ValueError: print('ValueError')"
    )
    done = subprocess.run([sys.executable, "-c", code, text], capture_output=True, text=True)
    assert done.stdout == "ValueError\n"


def test_what_is_no_json_cannot_be_written():
    with pytest.raises(TypeError):
        dumps({"a": object()})


@fast_imports._lean_value
class Point:
    x: int
    y: int = 2


def test_a_value_takes_its_fields_by_place_and_by_name():
    assert (Point(1).x, Point(1).y) == (1, 2)
    assert Point(1, y=3) == Point(x=1, y=3)
    assert Point(1) != Point(2)
    assert repr(Point(1)) == "Point(x=1, y=2)"


@pytest.mark.parametrize(("args", "given"), [((), {}), ((1, 2, 3), {}), ((1,), {"z": 1})])
def test_a_value_refuses_what_it_has_no_field_for(args, given):
    with pytest.raises(TypeError):
        Point(*args, **given)


HEAVY = {"json", "re", "enum", "dataclasses", "typing", "ssl", "socket", "subprocess", "asyncio"}
HEAVY |= {"threading", "signal", "selectors", "tempfile", "shutil", "pathlib", "inspect"}


def test_nothing_slow_is_imported_before_the_first_container():
    code = (
        "import sys; before = set(sys.modules)\n"
        "import orlop.agent.main\n"
        "from orlop.agent.container.runtimes import crun, native\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], env={"PYTHONPATH": "src"}, capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    assert set(done.stdout.split()) & HEAVY == set()


@pytest.mark.parametrize(
    "name",
    ["probes.handlers", "probes.prober", "probes.network", "probes.grpc_health", "exec.processes"],
)
def test_a_pod_without_probes_does_not_pay_for_them(name):
    code = (
        "import sys; import orlop.agent.main, orlop.agent.pod.supervisor\n"
        f"print('orlop.agent.{name}' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], env={"PYTHONPATH": "src"}, capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "False\n"
