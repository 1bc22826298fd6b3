"""Defaults of every other kind."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from orlop.api import kinds
from orlop.api.defaults import apply_defaults
from orlop.api.kinds import Kind

Obj = dict[str, Any]

TEMPLATE = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c"}]}}


def defaulted(kind: Kind, obj: Obj) -> Obj:
    result = copy.deepcopy(obj)
    apply_defaults(kind, result)
    return result


def workload(kind: Kind, **spec: Any) -> Obj:
    result = defaulted(kind, {"metadata": {"name": "w"}, "spec": {"template": TEMPLATE, **spec}})
    found: Obj = result["spec"]
    return found


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (
            kinds.DEPLOYMENT,
            {
                "replicas": 1,
                "revisionHistoryLimit": 10,
                "progressDeadlineSeconds": 600,
                "strategy": {
                    "type": "RollingUpdate",
                    "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"},
                },
            },
        ),
        (kinds.REPLICA_SET, {"replicas": 1}),
        (
            kinds.STATEFUL_SET,
            {
                "replicas": 1,
                "revisionHistoryLimit": 10,
                "podManagementPolicy": "OrderedReady",
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
                "persistentVolumeClaimRetentionPolicy": {
                    "whenDeleted": "Retain",
                    "whenScaled": "Retain",
                },
            },
        ),
        (
            kinds.DAEMON_SET,
            {
                "revisionHistoryLimit": 10,
                "updateStrategy": {
                    "type": "RollingUpdate",
                    "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1},
                },
            },
        ),
        (
            kinds.JOB,
            {
                "parallelism": 1,
                "completions": 1,
                "backoffLimit": 6,
                "completionMode": "NonIndexed",
                "suspend": False,
                "podReplacementPolicy": "TerminatingOrFailed",
            },
        ),
        (kinds.REPLICATION_CONTROLLER, {"replicas": 1, "selector": {"app": "a"}}),
    ],
    ids=lambda value: value.kind if isinstance(value, Kind) else "",
)
def test_a_minimal_workload(kind: Kind, expected: Obj) -> None:
    spec = workload(kind)
    template = spec.pop("template")
    assert spec == expected
    assert template["spec"]["restartPolicy"] == "Always"
    assert template["spec"]["containers"][0]["terminationMessagePolicy"] == "File"


@pytest.mark.parametrize(
    ("kind", "given", "key", "expected"),
    [
        (kinds.DEPLOYMENT, {"replicas": 0}, "replicas", 0),
        (
            kinds.DEPLOYMENT,
            {"strategy": {"type": "Recreate"}},
            "strategy",
            {"type": "Recreate"},
        ),
        (
            kinds.DEPLOYMENT,
            {"strategy": {"rollingUpdate": {"maxSurge": 0}}},
            "strategy",
            {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": "25%"}},
        ),
        (
            kinds.STATEFUL_SET,
            {"updateStrategy": {"type": "OnDelete"}},
            "updateStrategy",
            {"type": "OnDelete"},
        ),
        (
            kinds.STATEFUL_SET,
            {"updateStrategy": {"type": "RollingUpdate"}},
            "updateStrategy",
            {"type": "RollingUpdate"},
        ),
        (
            kinds.DAEMON_SET,
            {"updateStrategy": {"type": "OnDelete"}},
            "updateStrategy",
            {"type": "OnDelete"},
        ),
        (kinds.JOB, {"backoffLimitPerIndex": 1}, "backoffLimit", 2147483647),
        (kinds.JOB, {"podFailurePolicy": {"rules": [{}]}}, "podReplacementPolicy", "Failed"),
        (kinds.JOB, {"suspend": True}, "suspend", True),
    ],
)
def test_what_a_workload_says_decides_the_rest(
    kind: Kind, given: Obj, key: str, expected: object
) -> None:
    assert workload(kind, **copy.deepcopy(given))[key] == expected


def test_a_job_with_parallelism_alone_has_no_completions() -> None:
    assert "completions" not in workload(kinds.JOB, parallelism=3)
    assert workload(kinds.JOB, completions=3)["parallelism"] == 1


def test_a_job_takes_the_labels_of_its_template() -> None:
    job = defaulted(kinds.JOB, {"metadata": {"name": "j"}, "spec": {"template": TEMPLATE}})
    assert job["metadata"]["labels"] == {"app": "a"}
    own = {"metadata": {"name": "j", "labels": {"x": "y"}}, "spec": {"template": TEMPLATE}}
    assert defaulted(kinds.JOB, own)["metadata"]["labels"] == {"x": "y"}


def test_rules_on_conditions_mean_true() -> None:
    rules = [{"onPodConditions": [{"type": "DisruptionTarget"}]}]
    spec = workload(kinds.JOB, podFailurePolicy={"rules": rules})
    assert spec["podFailurePolicy"]["rules"][0]["onPodConditions"][0]["status"] == "True"


def test_a_cron_job_and_the_pods_of_its_jobs() -> None:
    job = {"spec": {"template": {"spec": {"containers": [{"name": "c"}]}}}}
    cron = defaulted(kinds.CRON_JOB, {"spec": {"schedule": "* * * * *", "jobTemplate": job}})
    spec = cron["spec"]
    assert (spec["concurrencyPolicy"], spec["suspend"]) == ("Allow", False)
    assert (spec["successfulJobsHistoryLimit"], spec["failedJobsHistoryLimit"]) == (3, 1)
    assert spec["jobTemplate"]["spec"]["template"]["spec"]["dnsPolicy"] == "ClusterFirst"
    assert "backoffLimit" not in spec["jobTemplate"]["spec"]


def test_claims_of_a_stateful_set_are_whole_objects() -> None:
    claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    spec = workload(kinds.STATEFUL_SET, volumeClaimTemplates=[claim])
    assert spec["volumeClaimTemplates"] == [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data"},
            "spec": {"accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem"},
            "status": {"phase": "Pending"},
        }
    ]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (
            {"ports": [{"port": 80}]},
            {
                "type": "ClusterIP",
                "sessionAffinity": "None",
                "internalTrafficPolicy": "Cluster",
                "ports": [{"port": 80, "targetPort": 80, "protocol": "TCP"}],
            },
        ),
        (
            {"type": "ExternalName", "externalName": "x"},
            {"type": "ExternalName", "externalName": "x", "sessionAffinity": "None"},
        ),
        (
            {"type": "NodePort"},
            {
                "type": "NodePort",
                "sessionAffinity": "None",
                "externalTrafficPolicy": "Cluster",
                "internalTrafficPolicy": "Cluster",
            },
        ),
        (
            {"type": "LoadBalancer"},
            {
                "type": "LoadBalancer",
                "sessionAffinity": "None",
                "externalTrafficPolicy": "Cluster",
                "internalTrafficPolicy": "Cluster",
                "allocateLoadBalancerNodePorts": True,
            },
        ),
        (
            {"sessionAffinity": "ClientIP"},
            {
                "type": "ClusterIP",
                "sessionAffinity": "ClientIP",
                "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}},
                "internalTrafficPolicy": "Cluster",
            },
        ),
        (
            {"sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 5}}},
            {
                "type": "ClusterIP",
                "sessionAffinity": "None",
                "internalTrafficPolicy": "Cluster",
            },
        ),
    ],
)
def test_services(spec: Obj, expected: Obj) -> None:
    service = defaulted(kinds.SERVICE, {"spec": spec})
    assert service["spec"] == expected
    assert service["status"] == {"loadBalancer": {}}


def test_addresses_of_a_load_balancer_are_virtual() -> None:
    ingress = [{"ip": "1.1.1.1"}, {"hostname": "h"}, {"ip": "2.2.2.2", "ipMode": "Proxy"}]
    service = defaulted(
        kinds.SERVICE,
        {"spec": {"type": "LoadBalancer"}, "status": {"loadBalancer": {"ingress": ingress}}},
    )
    modes = [one.get("ipMode") for one in service["status"]["loadBalancer"]["ingress"]]
    assert modes == ["VIP", None, "Proxy"]


def test_a_named_target_port_stays() -> None:
    ports = [{"port": 80, "targetPort": "http", "protocol": "UDP"}]
    assert defaulted(kinds.SERVICE, {"spec": {"ports": ports}})["spec"]["ports"] == ports


CPU = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
}


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        (kinds.SECRET, {}, {"type": "Opaque"}),
        (kinds.SECRET, {"type": "kubernetes.io/tls"}, {"type": "kubernetes.io/tls"}),
        (
            kinds.NAMESPACE,
            {"metadata": {"name": "n"}},
            {
                "metadata": {"name": "n", "labels": {"kubernetes.io/metadata.name": "n"}},
                "status": {"phase": "Active"},
            },
        ),
        (
            kinds.NODE,
            {"status": {"capacity": {"cpu": "2"}}},
            {"status": {"capacity": {"cpu": "2"}, "allocatable": {"cpu": "2"}}},
        ),
        (kinds.NODE, {}, {}),
        (kinds.CONFIG_MAP, {"data": {}}, {"data": {}}),
        (
            kinds.PERSISTENT_VOLUME,
            {"spec": {"hostPath": {"path": "/x"}}},
            {
                "spec": {
                    "hostPath": {"path": "/x", "type": ""},
                    "persistentVolumeReclaimPolicy": "Retain",
                    "volumeMode": "Filesystem",
                },
                "status": {"phase": "Pending"},
            },
        ),
        (
            kinds.PERSISTENT_VOLUME_CLAIM,
            {"spec": {"dataSource": {"kind": "S", "name": "x"}}},
            {
                "spec": {
                    "dataSource": {"kind": "S", "name": "x"},
                    "dataSourceRef": {"kind": "S", "name": "x"},
                    "volumeMode": "Filesystem",
                },
                "status": {"phase": "Pending"},
            },
        ),
        (
            kinds.ENDPOINTS,
            {"subsets": [{"ports": [{"port": 1}]}]},
            {"subsets": [{"ports": [{"port": 1, "protocol": "TCP"}]}]},
        ),
        (
            kinds.ENDPOINT_SLICE,
            {"ports": [{"port": 1}]},
            {"ports": [{"port": 1, "name": "", "protocol": "TCP"}]},
        ),
        (
            kinds.LIMIT_RANGE,
            {
                "spec": {
                    "limits": [
                        {"type": "Container", "max": {"cpu": "2"}, "min": {"memory": "1Mi"}},
                        {"type": "Pod", "max": {"cpu": "2"}},
                    ]
                }
            },
            {
                "spec": {
                    "limits": [
                        {
                            "type": "Container",
                            "max": {"cpu": "2"},
                            "min": {"memory": "1Mi"},
                            "default": {"cpu": "2"},
                            "defaultRequest": {"cpu": "2", "memory": "1Mi"},
                        },
                        {"type": "Pod", "max": {"cpu": "2"}},
                    ]
                }
            },
        ),
        (
            kinds.ROLE_BINDING,
            {
                "roleRef": {"kind": "Role", "name": "r"},
                "subjects": [
                    {"kind": "User", "name": "u"},
                    {"kind": "ServiceAccount", "name": "s"},
                ],
            },
            {
                "roleRef": {
                    "kind": "Role",
                    "name": "r",
                    "apiGroup": "rbac.authorization.k8s.io",
                },
                "subjects": [
                    {"kind": "User", "name": "u", "apiGroup": "rbac.authorization.k8s.io"},
                    {"kind": "ServiceAccount", "name": "s"},
                ],
            },
        ),
        (
            kinds.NETWORK_POLICY,
            {"spec": {"ingress": [{"ports": [{"port": 80}]}]}},
            {
                "spec": {
                    "ingress": [{"ports": [{"port": 80, "protocol": "TCP"}]}],
                    "policyTypes": ["Ingress"],
                }
            },
        ),
        (
            kinds.NETWORK_POLICY,
            {"spec": {"egress": [{}]}},
            {"spec": {"egress": [{}], "policyTypes": ["Ingress", "Egress"]}},
        ),
        (
            kinds.INGRESS_CLASS,
            {"spec": {"parameters": {"kind": "K"}}},
            {"spec": {"parameters": {"kind": "K", "scope": "Cluster"}}},
        ),
        (
            kinds.STORAGE_CLASS,
            {},
            {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"},
        ),
        (
            kinds.CSI_DRIVER,
            {"spec": {"attachRequired": False}},
            {
                "spec": {
                    "attachRequired": False,
                    "podInfoOnMount": False,
                    "storageCapacity": False,
                    "fsGroupPolicy": "ReadWriteOnceWithFSType",
                    "requiresRepublish": False,
                    "seLinuxMount": False,
                    "volumeLifecycleModes": ["Persistent"],
                }
            },
        ),
        (kinds.PRIORITY_CLASS, {}, {"preemptionPolicy": "PreemptLowerPriority"}),
        (
            kinds.HORIZONTAL_POD_AUTOSCALER,
            {"spec": {"maxReplicas": 3}},
            {"spec": {"maxReplicas": 3, "minReplicas": 1, "metrics": [CPU]}},
        ),
        (
            kinds.HORIZONTAL_POD_AUTOSCALER_V1,
            {"apiVersion": "autoscaling/v1", "spec": {"maxReplicas": 3}},
            {"apiVersion": "autoscaling/v1", "spec": {"maxReplicas": 3, "minReplicas": 1}},
        ),
        (
            kinds.API_SERVICE,
            {"spec": {"service": {"name": "s"}}},
            {"spec": {"service": {"name": "s", "port": 443}}},
        ),
        (kinds.API_SERVICE, {"spec": {}}, {"spec": {}}),
        (kinds.LEASE, {"spec": {}}, {"spec": {}}),
        (kinds.RESOURCE_QUOTA, {}, {"spec": {}}),
    ],
    ids=lambda value: value.kind if isinstance(value, Kind) else "",
)
def test_defaults(kind: Kind, given: Obj, expected: Obj) -> None:
    assert defaulted(kind, given) == expected


def test_scaling_behaviour_is_completed_once_there_is_any() -> None:
    given = {"spec": {"behavior": {"scaleDown": {"stabilizationWindowSeconds": 5}}}}
    behavior = defaulted(kinds.HORIZONTAL_POD_AUTOSCALER, given)["spec"]["behavior"]
    assert behavior["scaleDown"]["stabilizationWindowSeconds"] == 5
    assert behavior["scaleDown"]["policies"][0]["value"] == 100
    assert behavior["scaleUp"]["stabilizationWindowSeconds"] == 0
    assert [policy["type"] for policy in behavior["scaleUp"]["policies"]] == ["Pods", "Percent"]


def test_default_metrics_are_not_shared_between_objects() -> None:
    first = defaulted(kinds.HORIZONTAL_POD_AUTOSCALER, {"spec": {}})
    first["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"] = 1
    assert defaulted(kinds.HORIZONTAL_POD_AUTOSCALER, {"spec": {}})["spec"]["metrics"] == [CPU]


@pytest.mark.parametrize(
    ("kind", "reinvocation"),
    [
        (kinds.MUTATING_WEBHOOK_CONFIGURATION, "Never"),
        (kinds.VALIDATING_WEBHOOK_CONFIGURATION, None),
    ],
)
def test_webhooks(kind: Kind, reinvocation: str | None) -> None:
    given = {"webhooks": [{"rules": [{}], "clientConfig": {"service": {"name": "s"}}}]}
    webhook = defaulted(kind, given)["webhooks"][0]
    assert webhook["failurePolicy"] == "Fail"
    assert webhook["matchPolicy"] == "Equivalent"
    assert webhook["namespaceSelector"] == webhook["objectSelector"] == {}
    assert webhook["timeoutSeconds"] == 10
    assert webhook["rules"] == [{"scope": "*"}]
    assert webhook["clientConfig"]["service"]["port"] == 443
    assert webhook.get("reinvocationPolicy") == reinvocation


def test_admission_policies() -> None:
    policy = defaulted(
        kinds.VALIDATING_ADMISSION_POLICY,
        {"spec": {"matchConstraints": {"resourceRules": [{}]}}},
    )
    assert policy["spec"]["failurePolicy"] == "Fail"
    assert policy["spec"]["matchConstraints"]["matchPolicy"] == "Equivalent"
    assert policy["spec"]["matchConstraints"]["resourceRules"] == [{"scope": "*"}]
    binding = defaulted(kinds.VALIDATING_ADMISSION_POLICY_BINDING, {"spec": {"matchResources": {}}})
    assert binding["spec"]["matchResources"]["objectSelector"] == {}


@pytest.mark.parametrize("kind", kinds.STORED, ids=lambda kind: kind.resource)
def test_nothing_breaks_on_an_empty_object_and_twice_is_as_once(kind: Kind) -> None:
    obj: Obj = {}
    apply_defaults(kind, obj)
    once = copy.deepcopy(obj)
    apply_defaults(kind, obj)
    assert obj == once
