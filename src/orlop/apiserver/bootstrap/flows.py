"""The FlowSchemas and PriorityLevelConfigurations that every cluster has, as upstream's are.

Made at start for those who look: `kubectl get flowschemas` and tools that check for `exempt` and
`catch-all`. Our own fairness, in `request/priority_and_fairness.py`, is by user and has no levels:
these objects say what is upstream's default and change nothing. As
apiserver/pkg/apis/flowcontrol/bootstrap/default.go.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...api import kinds
from ...api.kinds import Kind
from ...api.objects import Obj

_NOTE = {"apf.kubernetes.io/autoupdate-spec": "true"}
# name: shares, percent that may be lent, queues
_LEVELS: dict[str, tuple[int, int, int]] = {
    "system": (30, 33, 64),
    "node-high": (40, 25, 64),
    "leader-election": (10, 0, 16),
    "workload-high": (40, 50, 128),
    "workload-low": (100, 90, 128),
    "global-default": (20, 50, 128),
}
# name: level, precedence, whose requests, groups or users
_FLOWS: dict[str, tuple[str, int, str, tuple[str, ...]]] = {
    "exempt": ("exempt", 1, "Group", ("system:masters",)),
    "probes": ("exempt", 2, "Group", ("system:authenticated",)),
    "system-leader-election": (
        "leader-election", 100, "User", ("system:kube-controller-manager", "system:kube-scheduler"),
    ),
    "system-node-high": ("node-high", 400, "Group", ("system:nodes",)),
    "system-nodes": ("system", 500, "Group", ("system:nodes",)),
    "kube-controller-manager": ("workload-high", 800, "User", ("system:kube-controller-manager",)),
    "kube-scheduler": ("workload-high", 800, "User", ("system:kube-scheduler",)),
    "service-accounts": ("workload-low", 9000, "Group", ("system:serviceaccounts",)),
    "global-default": ("global-default", 9900, "Group", ("system:authenticated",)),
    "catch-all": ("catch-all", 10000, "Group", ("system:authenticated",)),
}  # fmt: skip
_EVERYTHING = {
    "verbs": ["*"],
    "apiGroups": ["*"],
    "resources": ["*"],
    "clusterScope": True,
    "namespaces": ["*"],
}


def objects() -> Iterator[tuple[Kind, Obj]]:
    """Yield all objects of priority and fairness; what is there already is left as it is."""
    exempt = {"lendablePercent": 0, "nominalConcurrencyShares": 0}
    yield kinds.PRIORITY_LEVEL_CONFIGURATION, _level("exempt", {"type": "Exempt", "exempt": exempt})
    reject = {"type": "Reject"}
    yield kinds.PRIORITY_LEVEL_CONFIGURATION, _level("catch-all", _limited(5, 0, reject))
    for name, (shares, lent, queues) in _LEVELS.items():
        queuing = {"queues": queues, "handSize": 6, "queueLengthLimit": 50}
        response = {"type": "Queue", "queuing": queuing}
        yield kinds.PRIORITY_LEVEL_CONFIGURATION, _level(name, _limited(shares, lent, response))
    for name, (level, precedence, kind, who) in _FLOWS.items():
        yield kinds.FLOW_SCHEMA, _flow(name, level, precedence, kind, who)


def _limited(shares: int, lent: int, response: Obj) -> Obj:
    limited = {
        "nominalConcurrencyShares": shares,
        "lendablePercent": lent,
        "limitResponse": response,
    }
    return {"type": "Limited", "limited": limited}


def _level(name: str, spec: Obj) -> Obj:
    return {"metadata": {"name": name, "annotations": dict(_NOTE)}, "spec": spec}


def _flow(name: str, level: str, precedence: int, kind: str, who: tuple[str, ...]) -> Obj:
    subjects = [{"kind": kind, kind.lower(): {"name": one}} for one in who]
    rules: Obj = {
        "subjects": subjects,
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        "resourceRules": [_EVERYTHING],
    }
    if name == "probes":
        urls = ["/healthz", "/readyz", "/livez"]
        rules["nonResourceRules"] = [{"verbs": ["get"], "nonResourceURLs": urls}]
        del rules["resourceRules"]
    spec = {
        "priorityLevelConfiguration": {"name": level},
        "matchingPrecedence": precedence,
        "distinguisherMethod": {"type": "ByUser"},
        "rules": [rules],
    }
    return {"metadata": {"name": name, "annotations": dict(_NOTE)}, "spec": spec}
