"""The rows of policies, flow control and dynamic resources."""

from __future__ import annotations

from typing import Any

import pytest

from orlop.api import kinds
from orlop.api.kinds import Kind
from orlop.api.tables import _printer

Obj = dict[str, Any]
BORN = {"name": "a", "creationTimestamp": "1970-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("kind", "rest", "cells"),
    [
        (kinds.VALIDATING_ADMISSION_POLICY,
         {"spec": {"validations": [{}, {}], "paramKind": {"apiVersion": "v1", "kind": "X"}}},
         ["a", 2, "v1/X", "60s"]),
        (kinds.MUTATING_ADMISSION_POLICY, {"spec": {"mutations": [{}]}},
         ["a", 1, "<unset>", "60s"]),
        (kinds.VALIDATING_ADMISSION_POLICY_BINDING,
         {"spec": {"policyName": "p", "paramRef": {"name": "n"}}}, ["a", "p", "*/n", "60s"]),
        (kinds.FLOW_SCHEMA,
         {"spec": {"priorityLevelConfiguration": {"name": "l"}, "matchingPrecedence": 7,
                   "distinguisherMethod": {"type": "ByUser"}}},
         ["a", "l", 7, "ByUser", "60s", "?"]),
        (kinds.PRIORITY_LEVEL_CONFIGURATION,
         {"spec": {"type": "Limited", "limited": {"nominalConcurrencyShares": 5, "limitResponse": {
             "queuing": {"queues": 1, "handSize": 2, "queueLengthLimit": 3}}}}},
         ["a", "Limited", 5, 1, 2, 3, "60s"]),
        (kinds.RESOURCE_CLAIM, {"status": {"allocation": {}, "reservedFor": [{}]}},
         ["a", "reserved", "60s"]),
        (kinds.RESOURCE_CLAIM, {}, ["a", "pending", "60s"]),
        (kinds.RESOURCE_SLICE,
         {"spec": {"allNodes": True, "driver": "d", "pool": {"name": "p"}}},
         ["a", "<all>", "d", "p", "60s"]),
    ],
)  # fmt: skip
def test_rows(kind: Kind, rest: Obj, cells: list[Any]) -> None:
    printer = _printer(kind)
    row = printer.row({"metadata": BORN, **rest}, 60.0)
    assert row == cells
    assert len(row) == len(printer.columns)
