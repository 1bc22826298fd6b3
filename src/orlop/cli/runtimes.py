"""Which container runtimes this host has, for people who ask before any pod runs.

Asked by `up` and `doctor`. Compute nodes may have others: what is used there, the agent finds
there. Nothing is decided here.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from ..settings import AgentSettings

# In the order in which the agent looks for them.
KNOWN = ("crun", "apptainer", "singularity")


@dataclass(frozen=True, slots=True)
class Runtime:
    name: str
    version: str
    path: str

    def __str__(self) -> str:
        return f"{self.name} {self.version}".rstrip()


def runtimes(settings: AgentSettings) -> Sequence[Runtime]:
    """Those on this PATH; only the one of the settings, if they name one."""
    wanted = (settings.runtime,) if settings.runtime else KNOWN
    search = settings.path or None
    paths = [(name, shutil.which(name, path=search)) for name in wanted]
    return [Runtime(os.path.basename(name), _version(path), path) for name, path in paths if path]


def _version(program: str) -> str:
    """`crun version 1.8.1` and `apptainer version 1.4.5` alike; empty if it does not say."""
    try:
        answer = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    first = answer.stdout.splitlines()[:1]
    return first[0].split()[-1] if first and first[0].split() else ""
