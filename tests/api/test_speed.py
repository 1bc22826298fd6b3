"""The path of a write through all of the API's types costs little more than reading its JSON.

Measured against the standard library's round trip of the same pod in the same moment: a ratio
holds on a busy machine, a number of microseconds does not.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import msgspec

from orlop.api import defaults, kinds, strategy, tables, validation
from orlop.api.schema import Schema

POD = msgspec.json.encode(
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "web-7d9c6b5f4-abcde",
            "namespace": "default",
            "labels": {"app": "web", "app.kubernetes.io/name": "web", "tier": "front"},
            "annotations": {"slurm.orlop.dev/partition": "debug"},
        },
        "spec": {
            "containers": [
                {
                    "name": name,
                    "image": "registry.example/web:1.2.3",
                    "command": ["/bin/server", "--port=8080"],
                    "env": [{"name": f"VARIABLE_{n}", "value": "x"} for n in range(10)],
                    "ports": [{"containerPort": 8080, "name": "http"}],
                    "resources": {"limits": {"cpu": "500m", "memory": "1Gi"}},
                    "livenessProbe": {"httpGet": {"path": "/healthz", "port": "http"}},
                    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                }
                for name in ("web", "sidecar")
            ],
            "volumes": [
                {"name": "data", "emptyDir": {}},
                {"name": "c", "configMap": {"name": "c"}},
            ],
            "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoSchedule"}],
        },
    }
)


def round_trips(function: Callable[[], object], times: int = 200) -> float:
    """What a call costs, counted in round trips of the pod by the standard library's json."""
    costs = [(seconds(function, times), seconds(_round_trip, times)) for _ in range(5)]
    return min(cost for cost, _ in costs) / min(plain for _, plain in costs)


def seconds(function: Callable[[], object], times: int) -> float:
    started = time.process_time()
    for _ in range(times):
        function()
    return time.process_time() - started


def _round_trip() -> None:
    json.dumps(json.loads(POD))


def test_creating_a_pod_costs_a_few_round_trips_of_its_json(schema: Schema) -> None:
    def create() -> None:
        pod = msgspec.json.decode(POD)
        assert schema.decode(kinds.POD, pod) == []
        defaults.apply_defaults(kinds.POD, pod)
        strategy.prepare_for_create(kinds.POD, pod, now=0.0, uid="u")
        assert validation.validate_create(kinds.POD, pod) == []

    assert round_trips(create) < 12


def test_a_row_of_a_table_costs_less_than_one(schema: Schema) -> None:
    pod = msgspec.json.decode(POD)
    pod["metadata"]["creationTimestamp"] = "2026-01-02T12:00:00Z"
    pod["status"] = {
        "phase": "Running",
        "containerStatuses": [
            {"name": "web", "ready": True, "restartCount": 0, "state": {"running": {}}}
        ],
    }
    assert round_trips(lambda: tables.row(kinds.POD, pod, 1.8e9)) < 1
