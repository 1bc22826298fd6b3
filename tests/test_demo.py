"""`make demo` and `make demo-down`, on a cluster of another name than the one people play with."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tools.devroot import DevRoot

ROOT = Path(__file__).parents[1]
Done = subprocess.CompletedProcess[str]


@pytest.fixture
def demo(
    namespaces_of_root: None, installed_orlop: Path, orlop_dev_root: DevRoot
) -> Iterator[Callable[[str], Done]]:
    name = f"demo-test-{os.getpid()}"

    def run(word: str) -> Done:
        return subprocess.run(
            [sys.executable, "-m", "tools.demo", word],
            cwd=ROOT,
            env={**os.environ, "ORLOP_DEMO": name},
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
            stdin=subprocess.DEVNULL,
        )

    yield run
    run("down")
    assert not (orlop_dev_root.clusters / name).exists()


@pytest.mark.timeout(300)
def test_the_demo_works_works_again_quickly_and_leaves_nothing(demo, orlop_dev_root):
    first = demo("up")
    assert first.returncode == 0, first.stdout + first.stderr
    assert "20 of 20 done" in first.stdout
    assert "default/keepers-" in first.stdout  # squeue shows pods by name
    began = time.monotonic()
    second = demo("up")
    assert second.returncode == 0, second.stdout + second.stderr
    assert time.monotonic() - began < 60
    assert "already up" in second.stdout
    last = demo("down")
    assert last.returncode == 0
    assert "removed" in last.stdout
    assert demo("down").returncode == 0
