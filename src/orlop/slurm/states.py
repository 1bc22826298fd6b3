"""Slurm's job states, as a total table to ours.

Used for every line of squeue and sacct; pure. A word it does not know is UNKNOWN, which is a state
and not an end: a newer Slurm must not make a running pod look lost.
"""

from __future__ import annotations

from ..engine import JobState

# Long name, compact code, ours. From slurm/slurm.h: base states, then flags that squeue prints
# instead of the base state.
TABLE: tuple[tuple[str, str, JobState], ...] = (
    ("PENDING", "PD", JobState.PENDING),
    ("RUNNING", "R", JobState.RUNNING),
    ("SUSPENDED", "S", JobState.SUSPENDED),
    ("COMPLETED", "CD", JobState.COMPLETED),
    ("CANCELLED", "CA", JobState.CANCELLED),
    ("FAILED", "F", JobState.FAILED),
    ("TIMEOUT", "TO", JobState.TIMEOUT),
    ("NODE_FAIL", "NF", JobState.NODE_FAIL),
    ("PREEMPTED", "PR", JobState.PREEMPTED),
    ("BOOT_FAIL", "BF", JobState.NODE_FAIL),
    ("DEADLINE", "DL", JobState.TIMEOUT),
    ("OUT_OF_MEMORY", "OOM", JobState.OUT_OF_MEMORY),
    ("COMPLETING", "CG", JobState.COMPLETING),
    # Its nodes boot, or their prologs run: nothing of the pod has started.
    ("CONFIGURING", "CF", JobState.PENDING),
    ("POWER_UP_NODE", "PU", JobState.PENDING),
    ("REQUEUED", "RQ", JobState.PENDING),
    ("REQUEUE_FED", "RF", JobState.PENDING),
    ("REQUEUE_HOLD", "RH", JobState.PENDING),
    ("RESV_DEL_HOLD", "RD", JobState.PENDING),
    ("SPECIAL_EXIT", "SE", JobState.PENDING),
    ("EXPEDITING", "EX", JobState.PENDING),
    ("RESIZING", "RS", JobState.RUNNING),
    ("SIGNALING", "SI", JobState.RUNNING),
    ("UPDATE_DB", "UD", JobState.RUNNING),
    ("STOPPED", "ST", JobState.SUSPENDED),
    ("STAGE_OUT", "SO", JobState.COMPLETING),
    ("LAUNCH_FAILED", "LF", JobState.FAILED),
    # A federation's other cluster runs the job instead of this one.
    ("REVOKED", "RV", JobState.CANCELLED),
)

_BY_NAME = {name: state for name, _, state in TABLE} | {code: state for _, code, state in TABLE}


def word_of(text: str) -> str:
    """Return the state's own word: `CANCELLED by 1001` and `CANCELLED+` are CANCELLED."""
    words = text.split()
    return words[0].rstrip("+").upper() if words else ""


def state_of(text: str) -> JobState:
    """Return our state for Slurm's long name or compact code."""
    return _BY_NAME.get(word_of(text), JobState.UNKNOWN)
