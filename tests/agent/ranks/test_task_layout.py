"""Which tasks of a job are ranks, where some are kept for the pod's other containers."""

from __future__ import annotations

import pytest

from orlop.agent.ranks.task_layout import of_ranks, places
from orlop.wellknown import RANKS_ENV


def test_srun_hears_of_the_ranks_and_not_of_what_the_job_asked_for(tmp_path):
    environ = {RANKS_ENV: "--ntasks=4 --cpus-per-task=2", "SLURM_NTASKS": "10", "SLURM_NNODES": "2"}
    environ |= {"SLURM_NTASKS_PER_NODE": "5", "SLURM_TASKS_PER_NODE": "5(x2)", "SLURM_NPROCS": "10"}
    assert of_ranks(environ, str(tmp_path)) == ["--ntasks=4", "--cpus-per-task=2"]
    assert set(environ) == {RANKS_ENV, "SLURM_NNODES"}


@pytest.mark.parametrize(
    ("rooms", "spare", "tasks", "expected"),
    [
        ([4, 4], 2, 6, "aabbbb"),
        ([8, 2], 3, 7, "aaaaabb"),
        ([8, 8], 1, 9, "aaaaaaabb"),
        ([2, 4], 3, 3, "abb"),
        ([3], 2, 1, "a"),
    ],
)
def test_the_first_node_keeps_room_and_has_a_rank(rooms, spare, tasks, expected):
    assert places(["a", "b"], rooms, spare, tasks) == list(expected)
