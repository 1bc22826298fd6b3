"""The tables that kubectl prints of admission policies, flow control and dynamic resources.

Called by the dispatch. As pkg/printers/internalversion/printers.go.
"""

from __future__ import annotations

from typing import Any

from ..objects import Obj, meta
from .cells import AGE, NAME, Cells, Printer, age, column, name_of

_UNSET = "<unset>"


def _params(kind: Obj | None) -> str:
    return f"{kind.get('apiVersion')}/{kind.get('kind')}" if kind else _UNSET


def _policy(field: str) -> Any:
    def row(obj: Obj, now: float) -> Cells:
        spec = obj.get("spec") or {}
        count, kind = len(spec.get(field) or ()), _params(spec.get("paramKind"))
        return [name_of(obj), count, kind, age(obj, now)]

    return row


def _binding(obj: Obj, now: float) -> Cells:
    spec = obj.get("spec") or {}
    reference = spec.get("paramRef")
    shown = _UNSET
    if reference:
        where = reference.get("namespace") or "*"
        shown = f"{where}/{reference.get('name') or '*'}"
    return [name_of(obj), spec.get("policyName", ""), shown, age(obj, now)]


def _flow_schema(obj: Obj, now: float) -> Cells:
    spec = obj.get("spec") or {}
    conditions = (obj.get("status") or {}).get("conditions") or ()
    dangling = [one.get("status") for one in conditions if one.get("type") == "Dangling"]
    return [
        name_of(obj),
        (spec.get("priorityLevelConfiguration") or {}).get("name", ""),
        spec.get("matchingPrecedence", 0),
        (spec.get("distinguisherMethod") or {}).get("type", "<none>"),
        age(obj, now),
        dangling[0] if dangling else "?",
    ]


def _level(obj: Obj, now: float) -> Cells:
    spec = obj.get("spec") or {}
    limited = spec.get("limited") or {}
    queuing = (limited.get("limitResponse") or {}).get("queuing") or {}
    shares = limited.get("nominalConcurrencyShares", "<none>")
    queues = [queuing.get(name, "<none>") for name in ("queues", "handSize", "queueLengthLimit")]
    return [name_of(obj), spec.get("type", ""), shares, *queues, age(obj, now)]


def _claim(obj: Obj, now: float) -> Cells:
    status = obj.get("status") or {}
    states = ["allocated"] if status.get("allocation") else []
    states += ["reserved"] if status.get("reservedFor") else []
    states = ["deleted", *states] if "deletionTimestamp" in meta(obj) else states
    return [name_of(obj), ",".join(states) or "pending", age(obj, now)]


def _slice(obj: Obj, now: float) -> Cells:
    spec = obj.get("spec") or {}
    node = spec.get("nodeName") or ("<all>" if spec.get("allNodes") else "")
    pool = (spec.get("pool") or {}).get("name", "")
    return [name_of(obj), node, spec.get("driver", ""), pool, age(obj, now)]


VALIDATING_POLICY = Printer(
    (NAME, column("Validations", "integer"), column("ParamKind"), AGE), _policy("validations")
)
MUTATING_POLICY = Printer(
    (NAME, column("Mutations", "integer"), column("ParamKind"), AGE), _policy("mutations")
)
POLICY_BINDING = Printer((NAME, column("PolicyName"), column("ParamRef"), AGE), _binding)
FLOW_SCHEMA = Printer(
    (
        NAME,
        column("PriorityLevel"),
        column("MatchingPrecedence", "integer"),
        column("DistinguisherMethod"),
        AGE,
        column("MissingPL"),
    ),
    _flow_schema,
)
PRIORITY_LEVEL = Printer(
    (
        NAME,
        column("Type"),
        column("NominalConcurrencyShares"),
        column("Queues"),
        column("HandSize"),
        column("QueueLengthLimit"),
        AGE,
    ),
    _level,
)
RESOURCE_CLAIM = Printer((NAME, column("State"), AGE), _claim)
RESOURCE_SLICE = Printer((NAME, column("Node"), column("Driver"), column("Pool"), AGE), _slice)
