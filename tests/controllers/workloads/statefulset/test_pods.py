"""A StatefulSet that is a gang has its pods made at once."""

from __future__ import annotations

import pytest

from orlop.controllers.workloads.statefulset.pods import is_parallel


@pytest.mark.parametrize(
    ("metadata", "parallel"),
    [
        ({"annotations": {"slurm.orlop.dev/gang": "true"}}, True),
        ({"annotations": {"slurm.orlop.dev/gang": "ring"}}, True),
        ({"labels": {"scheduling.x-k8s.io/pod-group": "ring"}}, True),
        ({"annotations": {"slurm.orlop.dev/gang": "false"}}, False),
        ({}, False),
    ],
)
def test_a_gang_is_made_at_once(metadata, parallel):
    spec = {"podManagementPolicy": "OrderedReady", "template": {"metadata": metadata}}
    assert is_parallel({"spec": spec}) is parallel
