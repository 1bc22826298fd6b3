"""How the ranks' srun is called."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from orlop.agent.ranks import leader as module
from orlop.agent.ranks.leader import Leader, gpu_binding, is_shared


@pytest.mark.parametrize(
    ("ranks", "environ", "version", "expected"),
    [
        ({"gpus": 2}, {}, "23.11.4", ["--gpu-bind=per_task:2"]),
        ({}, {}, "23.11.4", []),
        ({}, {"SLURM_GPUS_PER_TASK": "1"}, "23.11.4", []),
        ({}, {"SLURM_GPUS_PER_TASK": "a100:2"}, "21.08.0", ["--gpu-bind=per_task:2"]),
        ({"gpus": 1}, {"SLURM_GPU_BIND": "none"}, "23.11.4", []),
        ({}, {"SLURM_GPUS_PER_TASK": "a100:2", "SLURM_GPU_BIND": "closest"}, "23.11.4", []),
        ({"gpus": 1}, {"SLURM_TRES_BIND": "gres/gpu:none"}, "24.11.5", []),
        ({"gpus": 1}, {"SLURM_TRES_BIND": "x"}, "24.11.5", ["--gpu-bind=per_task:1"]),
        ({"gpus": 2}, {}, "20.11.9", []),
        ({}, {"SLURM_GPUS_PER_TASK": "a100:2"}, "20.11.9", []),
        ({"gpus": 2}, {}, "of our own", ["--gpu-bind=per_task:2"]),
    ],
    ids=[
        "asked",
        "none",
        "by-srun",
        "typed",
        "shared",
        "the-users-word",
        "shared-new",
        "no-gpu-new",
        "old",
        "typed-old",
        "?",
    ],
)
def test_each_rank_is_bound_to_the_gpus_it_asks_for(ranks, environ, version, expected):
    assert gpu_binding(ranks, environ, lambda: f"slurm {version}\n") == expected


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


def test_a_signal_that_there_is_no_process_left_for_ends_no_rank(monkeypatch, capfd):
    def full():
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(module.os, "fork", full)
    monkeypatch.setattr(module, "find", lambda names: names[0])
    box = SimpleNamespace(container=SimpleNamespace(stop_signal=15))
    leader = Leader(box, None, {}, "/m", "")
    leader._door = SimpleNamespace(step="5.0")
    leader._pass_on(15)
    assert "signal 15 did not reach the ranks" in capfd.readouterr().err
