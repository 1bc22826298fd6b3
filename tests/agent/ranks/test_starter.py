"""What a rank hears of all that Slurm tells a task."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from orlop.agent.ranks import starter as module
from orlop.agent.ranks.starter import _told, asking

LAYOUT = {"SLURM_TASKS_PER_NODE": "3,2", "SLURM_STEP_TASKS_PER_NODE": "3,2", "SLURM_NNODES": "2"}


@pytest.mark.parametrize(
    ("pmi", "is_told"),
    [({"PMI_FD": "11", "PMI_RANK": "0"}, False), ({"PMIX_RANK": "0"}, True), ({}, True)],
    ids=["PMI-2", "PMIx", "none"],
)
def test_tasks_per_node_are_kept_from_ranks_that_can_ask_their_pmi(
    pmi: dict[str, str], is_told: bool
) -> None:
    told = _told({**LAYOUT, **pmi, "HOME": "/root"})
    assert ("SLURM_TASKS_PER_NODE" in told) is is_told
    assert told["SLURM_STEP_TASKS_PER_NODE"] == "3,2"
    assert pmi.items() <= told.items()
    assert "HOME" not in told


def test_a_command_of_the_agents_waits_for_no_door(tmp_path, monkeypatch):
    """As when the ranks of its node have just ended."""
    now = [0.0]

    def sleep(seconds):
        now[0] += seconds

    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
    assert asking(lambda: "ran", str(tmp_path / "m"))() == "ran"
    assert now[0] < module.PATIENCE / 10
