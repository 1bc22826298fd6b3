"""Set-up, by `python3 -m tools setup`: what tools/setup runs once there is a Python.

Root does all of it. An ordinary user with sudo does the clone's part, and root, by sudo, the
machine's; an ordinary user alone does what needs no root and is told of the rest.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from . import apptainer, clients, environment, images, kubectl, packages, users, wheel
from .devroot import PROJECT, DevRoot, dev_root
from .steps import Outcome, run_in_order, run_together, worse


def main(argv: list[str]) -> int:
    commands = {
        "setup": setup,
        "machine": machine,
        "devroot": fill_dev_root,
        "build": build,
    }
    if len(argv) != 2 or argv[1] not in commands:
        print(f"usage: python3 -m tools {{{','.join(commands)}}}", file=sys.stderr)
        return 2
    return commands[argv[1]]()


def setup() -> Outcome:
    """1. The machine's packages and users. 2. The clone's environment. 3. The dev root."""
    began = time.monotonic()
    as_root = os.geteuid() != 0 and sudo_works()
    outcome = by_sudo("machine") if as_root else machine()
    outcome = worse(outcome, clone())
    if outcome is not Outcome.FAILED:
        outcome = worse(outcome, by_sudo("devroot") if as_root else fill_dev_root())
    if outcome is Outcome.DONE:
        print(f"{'setup':<12} all is there ({time.monotonic() - began:.1f} s)", flush=True)
    return outcome


def machine() -> Outcome:
    return run_in_order([packages.step(), users.step()])


def clone() -> Outcome:
    return run_in_order([environment.uv_step(), environment.sync_step()])


def fill_dev_root() -> Outcome:
    dev = dev_root()
    open_dev_root(dev)
    makers = (apptainer.step, kubectl.step, wheel.step, images.step)
    return run_together([*(make(dev) for make in makers), *clients.steps(dev)])


def open_dev_root(dev: DevRoot) -> None:
    """Every user of the machine may read it, whatever the umask of whoever makes it."""
    os.umask(0o022)
    dev.path.mkdir(parents=True, exist_ok=True)
    if dev.path.stat().st_uid == os.geteuid():
        dev.path.chmod(0o755)


def build() -> Outcome:
    wheel.build(PROJECT / "dist")
    return Outcome.DONE


def sudo_works() -> bool:
    """Without a password, or with someone there to type it."""
    try:
        asks = [] if sys.stdin.isatty() else ["--non-interactive"]
        return subprocess.run(["sudo", *asks, "true"], check=False).returncode == 0
    except FileNotFoundError:
        return False


def by_sudo(command: str) -> Outcome:
    kept = [f"{name}={value}" for name, value in os.environ.items() if name == "ORLOP_DEV_ROOT"]
    words = ["sudo", *kept, sys.executable, "-m", "tools", command]
    return Outcome(subprocess.run(words, cwd=Path(PROJECT), check=False).returncode)


if __name__ == "__main__":
    sys.exit(main(sys.argv))
