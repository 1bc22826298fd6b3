"""`kubectl get pods`: READY, STATUS and RESTARTS as upstream derives them."""

from __future__ import annotations

from typing import Any

import pytest

from orlop.api import kinds, tables, times

Obj = dict[str, Any]
NOW = times.parse("2026-01-02T12:00:00Z")
CREATED = "2026-01-02T11:55:00Z"


def running(*, ready: bool = True, restarts: int = 0, **more: Any) -> Obj:
    return {"state": {"running": {}}, "ready": ready, "restartCount": restarts, **more}


def waiting(reason: str, restarts: int = 0) -> Obj:
    return {"state": {"waiting": {"reason": reason}}, "restartCount": restarts}


def ended(code: int, reason: str = "", **more: Any) -> Obj:
    state = {"exitCode": code, **({"reason": reason} if reason else {}), **more}
    return {"state": {"terminated": state}}


def pod(
    phase: str = "Running",
    statuses: list[Obj] | None = None,
    init: list[Obj] | None = None,
    **status: Any,
) -> Obj:
    statuses = statuses or []
    obj: Obj = {
        "metadata": {"name": "p", "creationTimestamp": CREATED},
        "spec": {"containers": [{"name": f"c{i}"} for i in range(max(1, len(statuses)))]},
        "status": {"phase": phase, "containerStatuses": statuses, **status},
    }
    if init is not None:
        obj["spec"]["initContainers"] = [{"name": f"i{i}"} for i in range(len(init))]
        named = [{"name": f"i{i}", **one} for i, one in enumerate(init)]
        obj["status"]["initContainerStatuses"] = named
    return obj


def cells(obj: Obj) -> dict[str, Any]:
    names = [column["name"] for column in tables.columns(kinds.POD)]
    return dict(zip(names, tables.row(kinds.POD, obj, NOW)["cells"], strict=True))


def true(kind: str) -> Obj:
    return {"type": kind, "status": "True"}


@pytest.mark.parametrize(
    ("obj", "ready", "status"),
    [
        (pod("Pending"), "0/1", "Pending"),
        (pod("Pending", [waiting("ContainerCreating")]), "0/1", "ContainerCreating"),
        (pod("Running", [running()]), "1/1", "Running"),
        (pod("Running", [running(), running(ready=False)]), "1/2", "Running"),
        (pod("Running", [waiting("CrashLoopBackOff", 3)]), "0/1", "CrashLoopBackOff"),
        (pod("Running", [waiting("ImagePullBackOff")]), "0/1", "ImagePullBackOff"),
        (pod("Succeeded", [ended(0, "Completed")]), "0/1", "Completed"),
        (pod("Failed", [ended(1, "Error")]), "0/1", "Error"),
        (pod("Failed", [ended(137, "OOMKilled")]), "0/1", "OOMKilled"),
        (pod("Failed", [ended(3)]), "0/1", "ExitCode:3"),
        (pod("Failed", [ended(0, signal=9)]), "0/1", "Signal:9"),
        (pod("Failed", reason="Evicted"), "0/1", "Evicted"),
        (pod("Failed", reason="DeadlineExceeded"), "0/1", "DeadlineExceeded"),
        (
            pod("Running", [ended(0, "Completed"), running()], conditions=[true("Ready")]),
            "1/2",
            "Running",
        ),
        (pod("Running", [ended(0, "Completed"), running()]), "1/2", "NotReady"),
        (pod("Running", [running(), ended(0, "Completed")]), "1/2", "NotReady"),
        (pod("Running", [ended(1, "Error"), running()]), "1/2", "Error"),
        (pod("Pending", init=[running()]), "0/1", "Init:0/1"),
        (pod("Pending", init=[ended(0), running()]), "0/1", "Init:1/2"),
        (pod("Pending", init=[waiting("PodInitializing")]), "0/1", "Init:0/1"),
        (pod("Pending", init=[waiting("CrashLoopBackOff")]), "0/1", "Init:CrashLoopBackOff"),
        (pod("Failed", init=[ended(2, "Error")]), "0/1", "Init:Error"),
        (pod("Failed", init=[ended(2)]), "0/1", "Init:ExitCode:2"),
        (pod("Failed", init=[ended(0), ended(9, signal=9)]), "0/1", "Init:Signal:9"),
        (pod("Pending", [waiting("PodInitializing")], init=[ended(0)]), "0/1", "PodInitializing"),
        (pod("Running", [running()], init=[ended(0, "Completed")]), "1/1", "Running"),
        (
            pod("Running", [running()], init=[running()], conditions=[true("Initialized")]),
            "1/1",
            "Running",
        ),
        (
            pod("Pending", conditions=[{"type": "PodScheduled", "reason": "SchedulingGated"}]),
            "0/1",
            "SchedulingGated",
        ),
        ({"metadata": {"name": "p"}}, "0/0", "Unknown"),
    ],
)
def test_ready_and_status(obj: Obj, ready: str, status: str) -> None:
    found = cells(obj)
    assert (found["Ready"], found["Status"]) == (ready, status)


@pytest.mark.parametrize(
    ("phase", "reason", "status"),
    [
        ("Running", "", "Terminating"),
        ("Running", "NodeLost", "Unknown"),
        ("Succeeded", "", "Completed"),
        ("Pending", "", "Terminating"),
    ],
)
def test_a_pod_that_is_being_deleted(phase: str, reason: str, status: str) -> None:
    state = ended(0, "Completed") if phase == "Succeeded" else running()
    obj = pod(phase, [state], **({"reason": reason} if reason else {}))
    obj["metadata"]["deletionTimestamp"] = CREATED
    assert cells(obj)["Status"] == status


def test_restarts_say_when_the_last_one_was() -> None:
    last = {"lastState": {"terminated": {"finishedAt": "2026-01-02T11:58:00Z"}}}
    older = {"lastState": {"terminated": {"finishedAt": "2026-01-02T11:00:00Z"}}}
    obj = pod("Running", [running(restarts=2, **last), running(restarts=1, **older)])
    assert cells(obj)["Restarts"] == "3 (2m ago)"
    assert cells(pod("Running", [running(restarts=2)]))["Restarts"] == "2"
    assert cells(pod("Running", [running()]))["Restarts"] == "0"


def test_while_it_initialises_the_init_containers_restarts_count() -> None:
    obj = pod("Pending", init=[{**waiting("CrashLoopBackOff"), "restartCount": 4}])
    assert cells(obj)["Restarts"] == "4"


def test_sidecars_count_as_containers() -> None:
    obj = pod("Running", [running()], init=[running(started=True, restarts=2)])
    obj["spec"]["initContainers"][0]["restartPolicy"] = "Always"
    found = cells(obj)
    assert (found["Ready"], found["Status"], found["Restarts"]) == ("2/2", "Running", "2")


def test_a_sidecar_that_has_not_started_holds_the_pod() -> None:
    obj = pod("Pending", init=[running(started=False)])
    obj["spec"]["initContainers"][0]["restartPolicy"] = "Always"
    assert cells(obj)["Status"] == "Init:0/1"
    assert cells(obj)["Ready"] == "0/2"


@pytest.mark.parametrize(
    ("annotations", "node", "shown"),
    [
        ({}, "", "<none>"),
        ({}, "debug", "debug"),
        ({"slurm.orlop.dev/node-list": "cn[1-2]"}, "debug", "cn[1-2]"),
    ],
)
def test_the_node_is_the_compute_node_where_one_is_known(
    annotations: Obj, node: str, shown: str
) -> None:
    obj = pod()
    obj["metadata"]["annotations"] = annotations
    obj["spec"]["nodeName"] = node
    assert cells(obj)["Node"] == shown


def test_the_wide_columns() -> None:
    obj = pod(
        "Running",
        [running()],
        podIPs=[{"ip": "10.0.0.1"}, {"ip": "::1"}],
        nominatedNodeName="n2",
        conditions=[true("a/b")],
    )
    obj["spec"]["readinessGates"] = [{"conditionType": "a/b"}, {"conditionType": "c/d"}]
    found = cells(obj)
    assert found["IP"] == "10.0.0.1"
    assert found["Nominated Node"] == "n2"
    assert found["Readiness Gates"] == "1/2"
    assert cells(pod(podIP="10.0.0.2"))["IP"] == "10.0.0.2"
    wide = [one["name"] for one in tables.columns(kinds.POD) if one["priority"] == 1]
    assert wide == ["IP", "Node", "Nominated Node", "Readiness Gates"]


def test_the_age() -> None:
    assert cells(pod())["Age"] == "5m"
    assert cells({"metadata": {"name": "p"}})["Age"] == "<unknown>"
