"""How the ranks' srun is called."""

from __future__ import annotations

import pytest

from orlop.agent.ranks.leader import gpu_binding, is_shared


@pytest.mark.parametrize(
    ("ranks", "environ", "expected"),
    [
        ({"gpus": 2}, {}, ["--gpu-bind=per_task:2"]),
        ({}, {}, []),
        ({}, {"SLURM_GPUS_PER_TASK": "1"}, []),
        ({}, {"SLURM_GPUS_PER_TASK": "a100:2"}, ["--gpu-bind=per_task:2"]),
        ({"gpus": 1}, {"SLURM_GPU_BIND": "none"}, []),
        ({}, {"SLURM_GPUS_PER_TASK": "a100:2", "SLURM_GPU_BIND": "closest"}, []),
    ],
    ids=["asked", "none", "by-srun", "typed", "shared", "the-users-word"],
)
def test_each_rank_is_bound_to_the_gpus_it_asks_for(ranks, environ, expected):
    assert gpu_binding(ranks, environ) == expected


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"SLURM_GPU_BIND": "none"}, True),
        ({"SLURM_GPU_BIND": "closest"}, False),
        ({"SLURM_GPU_BIND": "none", "SLURM_GPUS_PER_TASK": "1"}, False),
        ({}, False),
    ],
)
def test_gpus_that_are_not_bound_are_those_of_all_ranks(environ, expected):
    assert is_shared(environ) is expected
