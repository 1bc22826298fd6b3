"""The whole test suite, by `python -m tools.suite`: all at once, then alone what failed.

Called by `make test`. Most of these tests wait for a real Slurm, and four workers share two cores:
a handful that failed are run once more with the machine to themselves. What fails again has failed;
what passes then is named as unsteady, because it is a bug too, of the test or of what it tests.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tools.devroot import PROJECT

WORKERS = 4  # most tests wait for Slurm rather than for a core: twice as many as CI has
FEW = 12  # more failures than this are no accident
TESTS_FAILED = 1  # pytest's exit code for that, and for nothing else
_LAST_FAILED = Path(".pytest_cache/v/cache/lastfailed")


def main(arguments: list[str]) -> int:
    (PROJECT / _LAST_FAILED).unlink(missing_ok=True)
    code = run("-n", str(WORKERS), "--dist", "worksteal", *arguments)
    failed = last_failed(PROJECT)
    if code != TESTS_FAILED or not 0 < len(failed) <= FEW:
        return code
    print(f"\nOnce more, alone: {len(failed)} that failed", flush=True)
    code = run("-n", "0", "--last-failed", "--last-failed-no-failures", "none", *arguments)
    if code == 0:
        print("\nUnsteady, to be mended: failed among others and passed alone", flush=True)
        for name in failed:
            print(f"  {name}", flush=True)
    return code


def run(*arguments: str) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], cwd=PROJECT).returncode


def last_failed(project: Path) -> list[str]:
    """By pytest's own record; none where it has kept none."""
    try:
        return sorted(json.loads((project / _LAST_FAILED).read_text()))
    except FileNotFoundError:
        return []


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
