"""Set-up, by `python3 -m tools setup`: what tools/setup runs once there is a Python.

`setup demo` prepares what the demo needs, `setup` alone what development and the tests need too.
Root does all of it. An ordinary user with sudo does the clone's part, and root, by sudo, the
machine's; an ordinary user alone does what needs no root and is told of the rest.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from tools import apptainer, clients, environment, images, kubectl, packages, users, wheel
from tools.devroot import PROJECT, DevRoot, dev_root
from tools.extent import Extent
from tools.steps import Outcome, Step, run_in_order, run_together, worse


def main(argv: list[str]) -> int:
    steps = {"setup": setup, "machine": machine, "devroot": fill_dev_root}
    match argv[1:]:
        case ["build"]:
            return build()
        case ["packages"]:
            return list_packages()
        case [name] if name in steps:
            return steps[name](Extent.ALL)
        case [name, extent] if name in steps and extent in tuple(Extent):
            return steps[name](Extent(extent))
    words = f"{{{'|'.join(steps)}}} [{'|'.join(Extent)}], or build, or packages"
    print(f"usage: python3 -m tools {words}", file=sys.stderr)
    return 2


def setup(extent: Extent) -> Outcome:
    """1. The machine's packages and users. 2. The clone's environment. 3. The dev root."""
    began = time.monotonic()
    as_root = os.geteuid() != 0 and sudo_works()
    outcome = by_sudo("machine", extent) if as_root else machine(extent)
    outcome = worse(outcome, clone(extent))
    if outcome is not Outcome.FAILED:
        filled = by_sudo("devroot", extent) if as_root else fill_dev_root(extent)
        outcome = worse(outcome, filled)
    if outcome is Outcome.DONE:
        print(f"{'setup':<12} all is there ({time.monotonic() - began:.1f} s)", flush=True)
    return outcome


def machine(extent: Extent) -> Outcome:
    return run_in_order([packages.step(extent), users.step(extent)])


def clone(extent: Extent) -> Outcome:
    return run_in_order([environment.uv_step(), environment.sync_step(extent)])


def fill_dev_root(extent: Extent) -> Outcome:
    dev = dev_root()
    open_dev_root(dev)
    return run_together(dev_root_steps(dev, extent))


def dev_root_steps(dev: DevRoot, extent: Extent) -> list[Step]:
    steps = [make(dev) for make in (apptainer.step, kubectl.step, wheel.step)]
    steps.append(images.step(dev, extent))
    return steps if extent is Extent.DEMO else [*steps, *clients.steps(dev)]


def open_dev_root(dev: DevRoot) -> None:
    """Every user of the machine may read it, whatever the umask of whoever makes it."""
    os.umask(0o022)
    dev.path.mkdir(parents=True, exist_ok=True)
    if dev.path.stat().st_uid == os.geteuid():
        dev.path.chmod(0o755)


def list_packages() -> Outcome:
    """What root would have Debian install, and what for; for who does it by hand."""
    for title, names in (("the demo", packages.DEMO), ("the tests, too", packages.TESTS)):
        print(f"for {title}:")
        for name, reason in names.items():
            print(f"  {name:<24} {reason}")
    return Outcome.DONE


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


def by_sudo(command: str, extent: Extent) -> Outcome:
    kept = [f"{name}={value}" for name, value in os.environ.items() if name == "ORLOP_DEV_ROOT"]
    words = ["sudo", *kept, sys.executable, "-m", "tools", command, extent]
    return Outcome(subprocess.run(words, cwd=Path(PROJECT), check=False).returncode)


if __name__ == "__main__":
    sys.exit(main(sys.argv))
