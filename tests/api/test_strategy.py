"""What the server sets itself, and what clients cannot touch."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from orlop.api import kinds, strategy
from orlop.api.kinds import Kind

Obj = dict[str, Any]
NOW = 1_767_355_445.0
SYSTEM = {"uid": "u1", "creationTimestamp": "2026-01-02T12:04:05Z"}


def created(kind: Kind, obj: Obj) -> Obj:
    result = copy.deepcopy(obj)
    strategy.prepare_for_create(kind, result, now=NOW, uid="u1")
    return result


def updated(kind: Kind, new: Obj, old: Obj) -> Obj:
    result = copy.deepcopy(new)
    strategy.prepare_for_update(kind, result, old)
    return result


def test_what_a_client_says_of_system_fields_is_ignored() -> None:
    given = {
        "metadata": {
            "name": "a",
            "uid": "mine",
            "creationTimestamp": "1999-01-01T00:00:00Z",
            "resourceVersion": "5",
            "generation": 9,
            "deletionTimestamp": "1999-01-01T00:00:00Z",
            "deletionGracePeriodSeconds": 5,
            "selfLink": "/x",
            "labels": {"kept": "yes"},
        }
    }
    assert created(kinds.CONFIG_MAP, given)["metadata"] == {
        "name": "a",
        "labels": {"kept": "yes"},
        **SYSTEM,
    }


@pytest.mark.parametrize(
    ("kind", "generation"),
    [(kinds.DEPLOYMENT, 1), (kinds.POD_DISRUPTION_BUDGET, 1), (kinds.SERVICE, None)],
)
def test_generations_start_at_one_where_they_are_kept(kind: Kind, generation: int | None) -> None:
    obj = created(kind, {"metadata": {"name": "a"}, "spec": {}})
    assert obj["metadata"].get("generation") == generation


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (kinds.DEPLOYMENT, None),
        (kinds.JOB, None),
        (kinds.NODE, {"from": "client"}),
        (kinds.NAMESPACE, {"phase": "Active"}),
        (kinds.PERSISTENT_VOLUME, {"phase": "Pending"}),
        (kinds.PERSISTENT_VOLUME_CLAIM, {"phase": "Pending"}),
        (kinds.SERVICE, {"loadBalancer": {}}),
        (kinds.INGRESS, {"loadBalancer": {}}),
        (kinds.CONFIG_MAP, {"from": "client"}),
    ],
    ids=lambda value: value.kind if isinstance(value, Kind) else "",
)
def test_a_status_is_not_born_with_its_object(kind: Kind, status: Obj | None) -> None:
    given = {"metadata": {"name": "a"}, "spec": {"template": {}}, "status": {"from": "client"}}
    assert created(kind, given).get("status") == status


def test_a_pod_is_born_pending_with_its_class() -> None:
    pod = created(kinds.POD, {"metadata": {"name": "p"}, "spec": {"containers": [{}]}})
    assert pod["status"] == {"phase": "Pending", "qosClass": "BestEffort"}


def test_a_gated_pod_says_so() -> None:
    spec = {"containers": [{}], "schedulingGates": [{"name": "example.com/wait"}]}
    pod = created(kinds.POD, {"metadata": {"name": "p"}, "spec": spec})
    assert pod["status"]["conditions"][0]["reason"] == "SchedulingGated"


def test_a_negative_grace_period_is_one_second() -> None:
    spec = {"containers": [], "terminationGracePeriodSeconds": -5}
    pod = created(kinds.POD, {"metadata": {"name": "p"}, "spec": spec})
    assert pod["spec"]["terminationGracePeriodSeconds"] == 1


def test_a_namespace_has_its_finalizer() -> None:
    assert created(kinds.NAMESPACE, {"metadata": {"name": "n"}})["spec"] == {
        "finalizers": ["kubernetes"]
    }
    given = {"metadata": {"name": "n"}, "spec": {"finalizers": ["a/b"]}}
    assert created(kinds.NAMESPACE, given)["spec"] == {"finalizers": ["a/b", "kubernetes"]}


def test_a_job_selects_its_pods_by_its_uid() -> None:
    given = {"metadata": {"name": "j"}, "spec": {"template": {"metadata": {"labels": {"a": "b"}}}}}
    spec = created(kinds.JOB, given)["spec"]
    assert spec["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": "u1"}}
    assert spec["template"]["metadata"]["labels"] == {
        "a": "b",
        "controller-uid": "u1",
        "job-name": "j",
        "batch.kubernetes.io/controller-uid": "u1",
        "batch.kubernetes.io/job-name": "j",
    }


def test_a_job_with_a_selector_of_its_own_is_left_alone() -> None:
    spec = {"manualSelector": True, "selector": {"matchLabels": {"a": "b"}}, "template": {}}
    assert created(kinds.JOB, {"metadata": {"name": "j"}, "spec": spec})["spec"] == spec


def test_string_data_joins_the_data_of_a_secret() -> None:
    given = {"metadata": {"name": "s"}, "data": {"a": "b2xk"}, "stringData": {"a": "new", "b": "ü"}}
    secret = created(kinds.SECRET, given)
    assert secret["data"] == {"a": "bmV3", "b": "w7w="}
    assert "stringData" not in secret
    assert updated(kinds.SECRET, given, secret)["data"] == {"a": "bmV3", "b": "w7w="}


OLD: Obj = {
    "metadata": {"name": "d", "generation": 3, "labels": {"a": "1"}, **SYSTEM},
    "spec": {"replicas": 1},
    "status": {"replicas": 1},
}


def test_an_update_keeps_system_fields_and_status() -> None:
    new = {
        "metadata": {"name": "d", "uid": "other", "generation": 77, "labels": {"b": "2"}},
        "spec": {"replicas": 1},
        "status": {"replicas": 99},
    }
    result = updated(kinds.DEPLOYMENT, new, OLD)
    assert result["metadata"] == {"name": "d", "generation": 3, "labels": {"b": "2"}, **SYSTEM}
    assert result["status"] == {"replicas": 1}


def test_an_update_cannot_undo_a_deletion() -> None:
    old = copy.deepcopy(OLD)
    old["metadata"]["deletionTimestamp"] = "2026-01-02T12:05:00Z"
    result = updated(kinds.DEPLOYMENT, OLD, old)
    assert result["metadata"]["deletionTimestamp"] == "2026-01-02T12:05:00Z"


@pytest.mark.parametrize(
    ("kind", "change", "generation"),
    [
        (kinds.DEPLOYMENT, {"spec": {"replicas": 2}}, 4),
        (kinds.DEPLOYMENT, {"spec": {"replicas": 1}}, 3),
        (kinds.DEPLOYMENT, {"metadata": {"annotations": {"a": "b"}}}, 4),
        (kinds.STATEFUL_SET, {"metadata": {"annotations": {"a": "b"}}}, 3),
        (kinds.STATEFUL_SET, {"spec": {"replicas": 2}}, 4),
        (kinds.POD, {"spec": {"activeDeadlineSeconds": 5}}, 4),
        (kinds.SERVICE, {"spec": {"type": "NodePort"}}, 3),
        (kinds.DEPLOYMENT, {"status": {"replicas": 5}}, 3),
        (kinds.ENDPOINT_SLICE, {"endpoints": [{"addresses": ["10.0.0.1"]}]}, 4),
    ],
)
def test_generations_grow_with_the_spec(kind: Kind, change: Obj, generation: int) -> None:
    result = updated(kind, {**OLD, **change}, OLD)
    assert result["metadata"]["generation"] == generation


def test_a_status_update_changes_the_status_alone() -> None:
    new = {
        "metadata": {"name": "p", "annotations": {"x": "y"}, "ownerReferences": [{"uid": "evil"}]},
        "spec": {"containers": ["changed"]},
        "status": {"phase": "Running"},
    }
    old = {
        "metadata": {"name": "p", "generation": 2, **SYSTEM},
        "spec": {"containers": []},
        "status": {"phase": "Pending", "qosClass": "Burstable"},
    }
    strategy.prepare_for_status_update(kinds.POD, new, old)
    assert new == {
        "metadata": {"name": "p", "annotations": {"x": "y"}, "generation": 2, **SYSTEM},
        "spec": {"containers": []},
        "status": {"phase": "Running", "qosClass": "Burstable"},
    }


def test_a_status_update_brings_back_fields_it_left_out() -> None:
    new: Obj = {"metadata": {"name": "d", "labels": {"x": "y"}}, "extra": 1, "status": {}}
    strategy.prepare_for_status_update(kinds.DEPLOYMENT, new, OLD)
    assert new["spec"] == OLD["spec"]
    assert new["metadata"]["labels"] == {"a": "1"}
    assert "extra" not in new


def test_finalizers_of_a_namespace_are_not_for_plain_updates() -> None:
    old = {"metadata": {"name": "n"}, "spec": {"finalizers": ["kubernetes"]}, "status": {}}
    result = updated(kinds.NAMESPACE, {"metadata": {"name": "n"}}, old)
    assert result["spec"] == {"finalizers": ["kubernetes"]}


SERVICE: Obj = {
    "metadata": {"name": "s"},
    "spec": {
        "type": "NodePort",
        "clusterIP": "10.96.0.7",
        "clusterIPs": ["10.96.0.7"],
        "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
        "ports": [{"port": 80, "protocol": "TCP", "nodePort": 30080}],
    },
}


def test_a_service_keeps_what_was_given_out() -> None:
    new = {
        "metadata": {"name": "s"},
        "spec": {"type": "NodePort", "ports": [{"port": 80}, {"port": 81}]},
    }
    spec = updated(kinds.SERVICE, new, SERVICE)["spec"]
    assert spec["clusterIP"] == "10.96.0.7"
    assert spec["clusterIPs"] == ["10.96.0.7"]
    assert spec["ipFamilyPolicy"] == "SingleStack"
    assert spec["ports"] == [{"port": 80, "nodePort": 30080}, {"port": 81}]


def test_the_port_of_health_checks_stays_with_local_traffic() -> None:
    local = {"type": "LoadBalancer", "externalTrafficPolicy": "Local"}
    old = {"metadata": {"name": "s"}, "spec": {**local, "healthCheckNodePort": 30000}}
    spec = updated(kinds.SERVICE, {"metadata": {"name": "s"}, "spec": local}, old)["spec"]
    assert spec["healthCheckNodePort"] == 30000


def test_a_service_that_names_an_address_is_taken_at_its_word() -> None:
    new = {"metadata": {"name": "s"}, "spec": {"type": "ClusterIP", "clusterIP": "10.96.0.9"}}
    spec = updated(kinds.SERVICE, new, SERVICE)["spec"]
    assert spec["clusterIP"] == "10.96.0.9"
    assert "clusterIPs" not in spec
    external = {"metadata": {"name": "s"}, "spec": {"type": "ExternalName"}}
    assert "clusterIP" not in updated(kinds.SERVICE, external, SERVICE)["spec"]


@pytest.mark.parametrize(
    ("kind", "unconditional", "creates"),
    [
        (kinds.POD, True, False),
        (kinds.LEASE, False, True),
        (kinds.POD_DISRUPTION_BUDGET, False, False),
        (kinds.ROLE, True, True),
        (kinds.EVENT, True, True),
        (kinds.RUNTIME_CLASS, False, False),
    ],
)
def test_how_each_kind_may_be_put(kind: Kind, unconditional: bool, creates: bool) -> None:
    assert strategy.allows_unconditional_update(kind) is unconditional
    assert strategy.allows_create_on_update(kind) is creates
