"""A full disk is an error that says so: nothing is corrupted, nothing acknowledged is lost.

On a real file system of four megabytes, mounted in a namespace of its own; no root is needed.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import asyncio, sqlite3, subprocess, sys
from pathlib import Path
from orlop.api.objects import Key
from orlop.errors import Unavailable
from orlop.store import Store

folder = Path(sys.argv[1])
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)], check=True)
(folder / "ballast").write_bytes(bytes(2_500_000))

def body(name):
    return {"metadata": {"name": name}, "data": "x" * 20_000}

async def fill(store):
    kept = []
    for number in range(1000):
        try:
            await store.create("things", Key("default", f"n{number}"), body(f"n{number}"))
        except Unavailable as error:
            return kept, str(error)
        kept.append(f"n{number}")
    raise AssertionError("four megabytes hold twenty")

async def main():
    store = await Store.open(folder / "state.db")
    kept, words = await fill(store)
    assert "full" in words and str(folder) in words and "Free space" in words, words
    assert not store.is_writable
    assert [one.key.name for one in store.list("things").records] == sorted(kept)
    again, _ = await fill_more(store)
    (folder / "ballast").unlink()
    await store.create("things", Key("default", "after"), body("after"))
    assert store.is_writable
    await store.close()
    store = await Store.open(folder / "state.db")
    found = {one.key.name for one in store.list("things").records}
    assert found == {*kept, *again, "after"}, found ^ {*kept, *again, "after"}
    await store.close()
    check = sqlite3.connect(folder / "state.db").execute("PRAGMA integrity_check").fetchone()
    assert check == ("ok",), check
    print(len(kept))

async def fill_more(store):
    \"\"\"Many at once, while there is no room: some small ones may still fit.\"\"\"
    names = [f"more{number}" for number in range(20)]
    results = await asyncio.gather(
        *(store.create("things", Key("default", name), body(name)) for name in names),
        return_exceptions=True,
    )
    kept = [name for name, one in zip(names, results) if not isinstance(one, Exception)]
    return kept, [one for one in results if isinstance(one, Exception)]

asyncio.run(main())
"""


def test_a_full_disk_loses_and_corrupts_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        ["unshare", "--map-root-user", "--mount", sys.executable, "-c", PROGRAM, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout) > 5
