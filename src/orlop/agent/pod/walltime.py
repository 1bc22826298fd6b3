"""Finds when the job's time limit ends it, for containers that have that in their environment.

Asked by `plan` where a variable names it: before Slurm 23.02 a job has to ask squeue. A job without
a limit, or without Slurm, has none.
"""

from __future__ import annotations

import os
import time

TIMEOUT = 10.0  # seconds; slurmctld may be busy, and the pod waits


def end_time() -> str:
    """Return the end as RFC 3339; empty where there is none, or nobody can be asked."""
    text = os.environ.get("SLURM_JOB_END_TIME") or _from_squeue(os.environ.get("SLURM_JOB_ID", ""))
    if not text.isdigit() or text == "0":
        return ""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(int(text)))


def _from_squeue(job: str) -> str:
    if not job:
        return ""
    import subprocess

    argv = ["squeue", "-h", "-a", "-j", job, "-O", "EndTime:32,TimeLimit:32"]
    environment = {**os.environ, "SLURM_TIME_FORMAT": "%s"}
    try:
        found = subprocess.run(
            argv, env=environment, timeout=TIMEOUT, capture_output=True, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    words = found.stdout.decode(errors="replace").split()
    return words[0] if len(words) > 1 and words[1].upper() != "UNLIMITED" else ""
