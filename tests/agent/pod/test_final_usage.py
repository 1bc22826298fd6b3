"""What a pod has used in all, as far as its agent can know."""

from __future__ import annotations

import subprocess

from orlop.agent.pod.final_usage import used


def test_children_are_counted_and_a_cgroup_is_believed_first():
    subprocess.run(["true"], check=True)
    found = used(1.5, 4096)
    assert (found["elapsed"], found["memory"]) == (1.5, 4096)
    assert found["cpu"] >= 0
    assert used(1.5, 0)["memory"] > 0


def test_of_ranks_nothing_is_said_that_is_not_known():
    assert used(1.5, 0, has_ranks=True) == {"elapsed": 1.5}
    assert used(1.5, 4096, has_ranks=True) == {"elapsed": 1.5, "memory": 4096}
