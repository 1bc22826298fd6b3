"""Starts another process of the agent as the job started the first.

Used for what must be a process of its own and not a fork: ranks, the process that makes their
container (ranks/node_main.py), and the one that has their netd (ranks/rank_netd.py). It returns a
command for others to run.
"""

from __future__ import annotations

import sys

from ...wellknown import AGENT_LAUNCH


def again(*words: str) -> list[str]:
    """Return the command; `words` say what it is to be."""
    return [sys.executable, "-I", "-S", "-c", AGENT_LAUNCH, sys.argv[0], *words]
