"""The unprivileged users as whom tests and the demo run Orlop and its pods.

Called by set-up, as root. One has ranges of subordinate ids, as most desktops give them; the other
has none, as on most clusters; the demo does without. Existing users are never changed.
"""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Sequence

from tools.devroot import PLAIN_USER, TEST_USER
from tools.extent import Extent
from tools.steps import Lacking, Step

NO_RANGES = ("--key", "SUB_UID_COUNT=0", "--key", "SUB_GID_COUNT=0")


def step(extent: Extent) -> Step:
    wanted = (TEST_USER,) if extent is Extent.DEMO else (TEST_USER, PLAIN_USER)
    return Step("users", lambda: not missing(wanted), lambda: create(missing(wanted)))


def missing(wanted: Sequence[str]) -> list[str]:
    return [name for name in wanted if not exists(name)]


def exists(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def create(wanted: Sequence[str]) -> str:
    if os.geteuid() != 0:
        raise Lacking(f"root must create {' and '.join(wanted)}: run tools/setup with sudo")
    for name in wanted:
        ranges = NO_RANGES if name == PLAIN_USER else ()
        command = ["useradd", "--create-home", "--shell=/bin/bash", *ranges, name]
        subprocess.run(command, check=True, capture_output=True, text=True)
    return f"created {' and '.join(wanted)}"
