"""What the labels of a namespace ask for."""

from __future__ import annotations

import pytest

from orlop.api.podsecurity import PodSecurityLevels, Standard, levels_of

P = "pod-security.kubernetes.io/"


def test_without_labels_everything_is_allowed() -> None:
    policy, errors = levels_of({})
    assert policy == PodSecurityLevels(Standard(), Standard(), Standard())
    assert not errors


def test_each_mode_has_its_level_and_version() -> None:
    labels = {P + "enforce": "baseline", P + "enforce-version": "v1.30", P + "audit": "restricted",
              P + "warn": "restricted", P + "warn-version": "latest"}  # fmt: skip
    policy, errors = levels_of(labels)
    assert [str(one) for one in policy] == [
        "baseline:v1.30",
        "restricted:latest",
        "restricted:latest",
    ]
    assert not errors


def test_what_is_enforced_is_also_warned_of() -> None:
    policy, _ = levels_of({P + "enforce": "restricted", P + "enforce-version": "v1.24"})
    assert str(policy.warn) == "restricted:v1.24"
    assert str(policy.audit) == "privileged:latest"


@pytest.mark.parametrize(
    ("label", "value", "said"),
    [
        ("enforce", "strict", "must be one of privileged, baseline, restricted"),
        ("warn-version", "1.20", 'must be "latest" or "v1.x"'),
        ("audit-version", "v2.0", 'must be "latest" or "v1.x"'),
    ],
)
def test_what_cannot_be_read_is_told(label, value, said) -> None:
    policy, errors = levels_of({P + label: value})
    assert [error.field for error in errors] == [f"metadata.labels[{P}{label}]"]
    assert said in errors[0].message
    assert policy.enforce.level == ("restricted" if label == "enforce" else "privileged")
