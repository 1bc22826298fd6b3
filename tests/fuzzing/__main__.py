"""`python -m tests.fuzzing [TARGET ...] [--inputs N] [--seed S] [--replay FILE] [--list]`."""

from __future__ import annotations

import argparse
import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path

from .faults import Outcome
from .hunt import hunt, replay
from .target import Entry
from .targets import ENTRIES

MILLION = 1_000_000
LAST = 12  # lines of what is told of a fault


def main(words: list[str]) -> int:
    names = {entry.name: entry for entry in ENTRIES}
    options = argparse.ArgumentParser(prog="python -m tests.fuzzing")
    options.add_argument("targets", nargs="*", metavar="TARGET", help="all, where none is named")
    inputs = int(MILLION * float(os.environ.get("ORLOP_SOAK", "1")))
    options.add_argument("--inputs", type=int, default=inputs, help="for each target")
    options.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1, 1 << 30))
    options.add_argument("--replay", type=Path, metavar="FILE", help="one input again, alone")
    options.add_argument("--list", action="store_true")
    asked = options.parse_args(words)
    if unknown := [name for name in asked.targets if name not in names]:
        options.error(f"no target is called {unknown[0]}; there are {', '.join(names)}")
    if asked.list:
        print("\n".join(f"{one.name:20} {one.reads}" for one in ENTRIES))
        return 0
    if asked.replay is not None:
        if len(asked.targets) != 1:
            options.error("--replay wants the one target that the file was found for")
        return _replay(names[asked.targets[0]], asked.replay)
    print(f"seed {asked.seed}, {asked.inputs} inputs for each target", flush=True)
    faults = 0
    for name in asked.targets or names:
        outcome = hunt([names[name]], asked.inputs, asked.seed)[name]
        faults += len(outcome.faults)
        print(f"{name:20} {outcome}", flush=True)
        print("\n".join(described(name, outcome)), end="\n" if outcome.faults else "", flush=True)
    return 1 if faults else 0


def described(name: str, outcome: Outcome) -> Iterator[str]:
    """Each fault, and how to see it again."""
    for fault in outcome.faults:
        words = fault.words.strip().splitlines()
        yield "\n    ".join([f"  {fault.kind}:", *words[-LAST:]])
        if fault.file is not None:
            data = fault.file.read_bytes()
            yield f"  {len(data)} bytes: {data[:200]!r}"
            yield f"  again: python -m tests.fuzzing {name} --replay {fault.file}"


def _replay(entry: Entry, file: Path) -> int:
    found = replay(entry, file.read_bytes())
    print("\n".join(found) or "nothing is wrong with it")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
