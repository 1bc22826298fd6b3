"""A million inputs for every parser that strangers reach: no crash, no hang, no growth.

Run by `make soak`, and alone by `make fuzz`; `ORLOP_SEED` repeats a run, `ORLOP_SOAK` has more of
it. Which parsers there are is in tests/fuzzing/README.md.
"""

from __future__ import annotations

import os
import random

import pytest

from tests.fuzzing.__main__ import described
from tests.fuzzing.hunt import hunt
from tests.fuzzing.native import is_possible
from tests.fuzzing.target import Entry
from tests.fuzzing.targets import ENTRIES

INPUTS = int(1_000_000 * float(os.environ.get("ORLOP_SOAK", "1")))
SEED = int(os.environ.get("ORLOP_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 30)


@pytest.mark.timeout(max(3600, INPUTS // 100))
@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_every_input_is_read_or_refused(entry: Entry) -> None:
    if entry.is_native and not is_possible():
        pytest.skip("gcc, with its sanitizers, is not here")
    outcome = hunt([entry], INPUTS, SEED)[entry.name]
    print(f"seed {SEED}: {entry.name} {outcome}")
    assert outcome.faults == (), "\n".join((f"seed {SEED}", *described(entry.name, outcome)))
    assert outcome.inputs >= INPUTS, outcome
