"""kill -9 in the middle of writes: what was acknowledged is there, and the file is whole."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from orlop.api.objects import Key
from orlop.errors import HomeInUse
from orlop.store import Store

# Writes for ever, saying each revision on standard output once the store has acknowledged it.
WRITER = """
import asyncio, sys
from pathlib import Path
from orlop.api.objects import Key
from orlop.errors import HomeInUse
from orlop.store import Store, Limits

async def write(store, name):
    key, n = Key("default", name), 0
    newest = store.get("pods", key)
    n = newest.decode()["spec"]["n"] + 1 if newest else 0
    while True:
        spec = {"n": n, "pad": "x" * 500}
        obj = {"metadata": {"name": name, "namespace": "default"}, "spec": spec}
        if newest is None:
            newest = await store.create("pods", key, obj)
        else:
            newest = await store.update("pods", key, obj, expected=newest.revision)
        sys.stdout.write(f"{name} {n} {newest.revision}\\n"); sys.stdout.flush()
        n += 1

async def main():
    store = await Store.open(Path(sys.argv[1]), limits=Limits(events=200))
    await asyncio.gather(*(write(store, f"p{i}") for i in range(8)))

asyncio.run(main())
"""


def killed_in_the_middle(path: Path, seconds: float) -> dict[str, tuple[int, int]]:
    """What a writer acknowledged, per object, before it was killed."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    first = process.stdout.readline()  # it has begun
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    lines = [first, *process.stdout.read().splitlines(keepends=True)]
    process.stdout.close()
    process.wait()
    acknowledged: dict[str, tuple[int, int]] = {}
    for line in lines:
        if line.endswith("\n"):  # a line cut in two was not told to anyone
            name, n, revision = line.split()
            acknowledged[name] = (int(n), int(revision))
    return acknowledged


async def test_a_store_held_by_another_process_is_in_use(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    process.stdout.readline()
    with pytest.raises(HomeInUse, match="another control plane"):
        await Store.open(path)
    process.kill()
    process.stdout.close()
    process.wait()
    await (await Store.open(path)).close()


@pytest.mark.parametrize("round_", range(3))
async def test_every_acknowledged_write_survives_kill_9(tmp_path: Path, round_: int) -> None:
    path = tmp_path / "state.db"
    chance = random.Random(round_)
    newest = 0
    for _ in range(2):
        acknowledged = killed_in_the_middle(path, chance.uniform(0.05, 0.4))
        assert len(acknowledged) >= 1
        store = await Store.open(path)
        for name, (n, revision) in acknowledged.items():
            record = store.get("pods", Key("default", name))
            assert record is not None
            assert record.decode()["spec"]["n"] >= n
            assert record.revision >= revision
        assert store.revision > newest
        newest = store.revision
        await store.close()
