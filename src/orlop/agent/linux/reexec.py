"""How one process of the agent starts another, as the job started the first.

Used for what must be a process of its own and not a fork: ranks, who makes their container, and
who attends to them. It starts nothing itself.
"""

from __future__ import annotations

import sys

from ...wellknown import AGENT_LAUNCH


def again(*words: str) -> list[str]:
    """The command; `words` say what it is to be."""
    return [sys.executable, "-I", "-S", "-c", AGENT_LAUNCH, sys.argv[0], *words]
