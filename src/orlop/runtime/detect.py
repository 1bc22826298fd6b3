"""Finds which container runtimes a PATH offers, with their versions.

Asked by `orlop up` and `orlop doctor` on the host they run on; the compute node decides for itself
when a pod starts there. It runs each candidate's `--version`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from ..settings import AgentSettings

# In the order in which the agent takes them.
CANDIDATES = ("crun", "runc", "apptainer", "singularity")
_PATIENCE = 10.0  # seconds; a first call over a cold parallel file system is slow


@dataclass(frozen=True, slots=True)
class Runtime:
    """A runtime that was found; `version` is empty if it would not tell."""

    name: str
    path: str
    version: str

    def __str__(self) -> str:
        return f"{self.name} {self.version}".rstrip()


def candidates(settings: AgentSettings) -> Sequence[str]:
    """Return what the agent will look for, in order: the configured one, or all known ones."""
    return [settings.runtime] if settings.runtime else CANDIDATES


def runtimes(settings: AgentSettings) -> list[Runtime]:
    """Return the runtimes on the PATH that jobs will have."""
    path = settings.path or os.environ.get("PATH", "")
    found = ((name, shutil.which(name, path=path)) for name in candidates(settings))
    return [
        Runtime(os.path.basename(name), where, _version(where)) for name, where in found if where
    ]


def _version(program: str) -> str:
    try:
        answer = subprocess.run(
            [program, "--version"],
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    number = re.search(r"\d+(\.\d+)+", answer.stdout)
    return number.group() if number else ""
