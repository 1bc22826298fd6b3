"""All other kinds: one mistake at a time, and what upstream says to it."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from orlop.api import kinds
from orlop.api.kinds import Kind
from orlop.api.validation import validate_status_update

from .objects import TEMPLATE, Obj, merged, on_create, on_update

PORT: Obj = {"port": 80}
REFERENCE: Obj = {"kind": "Role", "name": "r"}
PATH: Obj = {
    "path": "/",
    "pathType": "Prefix",
    "backend": {"service": {"name": "s", "port": {"number": 80}}},
}
VALID: dict[Kind, Obj] = {
    kinds.CONFIG_MAP: {"data": {"a": "b"}, "binaryData": {"c": "AA=="}},
    kinds.SECRET: {"data": {"a": "AA=="}},
    kinds.NAMESPACE: {},
    kinds.NODE: {
        "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]},
        "status": {
            "capacity": {"cpu": "4"},
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
        },
    },
    kinds.SERVICE: {"spec": {"ports": [PORT], "selector": {"a": "b"}}},
    kinds.SERVICE_ACCOUNT: {},
    kinds.ENDPOINTS: {"subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [PORT]}]},
    kinds.ENDPOINT_SLICE: {
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.0.0.1"]}],
        "ports": [PORT],
    },
    kinds.EVENT: {"involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"}},
    kinds.EVENTS_EVENT: {
        "regarding": {"kind": "Pod", "namespace": "default", "name": "p"},
        "eventTime": "2026-01-02T12:00:00.000000Z",
        "reportingController": "example.com/c",
        "reportingInstance": "i",
        "action": "Started",
        "reason": "Started",
        "type": "Normal",
    },
    kinds.PERSISTENT_VOLUME: {
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "hostPath": {"path": "/x"},
        }
    },
    kinds.PERSISTENT_VOLUME_CLAIM: {
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        }
    },
    kinds.LIMIT_RANGE: {"spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}}]}},
    kinds.RESOURCE_QUOTA: {"spec": {"hard": {"pods": "5"}}},
    kinds.POD_TEMPLATE: {"template": TEMPLATE},
    kinds.ROLE: {"rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]},
    kinds.CLUSTER_ROLE: {"rules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz"]}]},
    kinds.ROLE_BINDING: {"roleRef": REFERENCE, "subjects": [{"kind": "User", "name": "u"}]},
    kinds.CLUSTER_ROLE_BINDING: {
        "roleRef": {"kind": "ClusterRole", "name": "r"},
        "subjects": [{"kind": "ServiceAccount", "name": "s", "namespace": "n"}],
    },
    kinds.POD_DISRUPTION_BUDGET: {"spec": {"minAvailable": 1, "selector": {}}},
    kinds.HORIZONTAL_POD_AUTOSCALER: {
        "spec": {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "d"}}
    },
    kinds.NETWORK_POLICY: {
        "spec": {"podSelector": {}, "ingress": [{"from": [{"podSelector": {}}], "ports": [{}]}]}
    },
    kinds.INGRESS: {"spec": {"rules": [{"host": "*.a.b", "http": {"paths": [PATH]}}]}},
    kinds.PRIORITY_CLASS: {"value": 5},
    kinds.STORAGE_CLASS: {"provisioner": "example.com/x"},
    kinds.LEASE: {"spec": {"holderIdentity": "me", "leaseDurationSeconds": 15}},
    kinds.RUNTIME_CLASS: {"handler": "crun"},
    kinds.CONTROLLER_REVISION: {"data": {}, "revision": 1},
    kinds.CERTIFICATE_SIGNING_REQUEST: {
        "spec": {"request": "AA==", "signerName": "a.b/c", "usages": ["client auth"]}
    },
}


def change(**spec: Any) -> Obj:
    return {"spec": spec}


def check(found: list[str], expected: list[str]) -> None:
    assert len(found) == len(expected), found
    for one, start in zip(found, expected, strict=True):
        assert one.startswith(start), (one, start)


@pytest.mark.parametrize("kind", VALID, ids=lambda kind: kind.resource)
def test_valid_objects(kind: Kind) -> None:
    assert on_create(kind, VALID[kind]) == []
    assert on_update(kind, VALID[kind], VALID[kind]) == []


CONFIGURATION: list[tuple[Kind, Obj, list[str]]] = [
    (
        kinds.CONFIG_MAP,
        {"data": {"a/b": ""}},
        ['data[a/b]: Invalid value: "a/b": a valid config key must consist of alphanumeric'],
    ),
    (
        kinds.CONFIG_MAP,
        {"data": {"c": ""}},
        ['data[c]: Invalid value: "c": duplicate of key present in binaryData'],
    ),
    (
        kinds.CONFIG_MAP,
        {"data": {"a": "x" * 1048577}},
        [": Too long: may not be more than 1048576"],
    ),
    (kinds.CONFIG_MAP, {"binaryData": {"..": ""}}, ['binaryData[..]: Invalid value: "..": must']),
    (kinds.SECRET, {"data": {"": ""}}, ['data[]: Invalid value: ""']),
    (
        kinds.SECRET,
        {"data": {"a": "A" * 1400000}},
        ["data: Too long: may not be more than 1048576 bytes"],
    ),
    (
        kinds.SECRET,
        {"type": "kubernetes.io/tls"},
        ["data[tls.crt]: Required value", "data[tls.key]: Required value"],
    ),
    (
        kinds.SECRET,
        {"type": "kubernetes.io/basic-auth"},
        ["data[username]: Required value", "data[password]: Required value"],
    ),
    (
        kinds.SECRET,
        {"type": "kubernetes.io/ssh-auth"},
        ["data[ssh-privatekey]: Required value"],
    ),
    (
        kinds.SECRET,
        {"type": "kubernetes.io/service-account-token"},
        ["metadata.annotations[kubernetes.io/service-account.name]: Required value"],
    ),
    (
        kinds.SECRET,
        {"type": "kubernetes.io/dockerconfigjson"},
        ["data[.dockerconfigjson]: Required value"],
    ),
    (
        kinds.SECRET,
        {
            "type": "kubernetes.io/dockercfg",
            "data": {".dockercfg": base64.b64encode(b"{").decode()},
        },
        ['data[.dockercfg]: Invalid value: "<secret contents redacted>"'],
    ),
    (
        kinds.NAMESPACE,
        change(finalizers=["mine"]),
        ['spec.finalizers: Invalid value: "mine": name is neither a standard finalizer name'],
    ),
    (
        kinds.NODE,
        change(taints=[{"key": "a"}]),
        ["spec.taints[0].effect: Required value"],
    ),
    (
        kinds.NODE,
        change(taints=[{"key": "a", "effect": "Sometimes"}]),
        ['spec.taints[0].effect: Unsupported value: "Sometimes"'],
    ),
    (
        kinds.NODE,
        change(taints=[{"key": "a", "effect": "NoSchedule"}] * 2),
        ["spec.taints[1]: Duplicate value"],
    ),
    (
        kinds.NODE,
        {"status": {"addresses": [{"type": "Hostname", "address": "x"}] * 2}},
        ["status.addresses[1]: Duplicate value"],
    ),
    (
        kinds.NODE,
        {"status": {"capacity": {"cpu": "-1"}, "allocatable": {}}},
        ['status.capacity[cpu]: Invalid value: "-1": must be greater than or equal to 0'],
    ),
    (
        kinds.EVENT,
        {"involvedObject": {"namespace": "other"}},
        ['involvedObject.namespace: Invalid value: "other": does not match event.namespace'],
    ),
    (
        kinds.EVENT,
        {"metadata": {"namespace": "other"}, "involvedObject": {"namespace": None}},
        ['involvedObject.namespace: Invalid value: "": does not match event.namespace'],
    ),
    (
        kinds.SECRET,
        {
            "type": "kubernetes.io/dockerconfigjson",
            "data": {".dockerconfigjson": base64.b64encode(b"{}").decode()},
        },
        [],
    ),
    (
        kinds.EVENTS_EVENT,
        {"regarding": {"namespace": "other"}},
        ['regarding.namespace: Invalid value: "other"'],
    ),
    (kinds.EVENTS_EVENT, {"eventTime": None}, ["eventTime: Required value"]),
    (
        kinds.EVENTS_EVENT,
        {"type": "Bad", "action": None, "reason": "x" * 129},
        [
            "action: Required value",
            'reason: Invalid value: "": can have at most 128 characters',
            'type: Invalid value: "": has invalid value: Bad',
        ],
    ),
    (
        kinds.EVENT,
        {"eventTime": "2026-01-02T12:00:00.000000Z", "message": "x" * 1025},
        [
            "reportingController: Required value",
            'reportingController: Invalid value: ""',
            'reportingController: Invalid value: ""',
            "reportingInstance: Required value",
            "action: Required value",
            "reason: Required value",
            'message: Invalid value: "": can have at most 1024 characters',
        ],
    ),
    (
        kinds.LIMIT_RANGE,
        change(limits=[{"type": "Container", "max": {"cpu": "1"}, "min": {"cpu": "2"}}]),
        [
            'spec.limits[0].min[cpu]: Invalid value: "2": min value 2 is greater than max value 1',
            "spec.limits[0].defaultRequest[cpu]: Invalid value: "
            '"1": min value 2 is greater than default request value 1',
            "spec.limits[0].default[cpu]: Invalid value: "
            '"1": min value 2 is greater than default value 1',
        ],
    ),
    (kinds.LIMIT_RANGE, change(limits=[{"type": "x"}]), ["spec.limits[0].type: Unsupported value"]),
    (kinds.RESOURCE_QUOTA, change(hard={"pods": "-1"}), ['spec.hard[pods]: Invalid value: "-1"']),
    (
        kinds.POD_TEMPLATE,
        {"template": {"spec": {"containers": []}}},
        ["template.spec.containers: Required value"],
    ),
]
STORAGE: list[tuple[Kind, Obj, list[str]]] = [
    (kinds.PERSISTENT_VOLUME, change(capacity=None), ["spec.capacity: Required value"]),
    (
        kinds.PERSISTENT_VOLUME,
        change(accessModes=None),
        ["spec.accessModes: Required value: at least 1 access mode is required"],
    ),
    (
        kinds.PERSISTENT_VOLUME,
        change(accessModes=["Sometimes"]),
        ['spec.accessModes: Unsupported value: "Sometimes"'],
    ),
    (
        kinds.PERSISTENT_VOLUME,
        change(accessModes=["ReadWriteOncePod", "ReadOnlyMany"]),
        ["spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes"],
    ),
    (
        kinds.PERSISTENT_VOLUME,
        change(hostPath=None),
        ["spec: Required value: must specify a volume type"],
    ),
    (
        kinds.PERSISTENT_VOLUME,
        change(nfs={"server": "s", "path": "/x"}),
        ["spec.nfs: Forbidden: may not specify more than 1 volume type"],
    ),
    (
        kinds.PERSISTENT_VOLUME,
        change(hostPath=None, local={"path": "/x"}),
        ["spec.nodeAffinity: Required value: Local volume requires node affinity"],
    ),
    (
        kinds.PERSISTENT_VOLUME,
        change(persistentVolumeReclaimPolicy="Burn"),
        ['spec.persistentVolumeReclaimPolicy: Unsupported value: "Burn"'],
    ),
    (
        kinds.PERSISTENT_VOLUME_CLAIM,
        change(resources=None),
        ["spec.resources[storage]: Required value"],
    ),
    (
        kinds.PERSISTENT_VOLUME_CLAIM,
        change(resources={"requests": {"storage": "0"}}),
        ['spec.resources[storage]: Invalid value: "0": must be greater than zero'],
    ),
    (
        kinds.PERSISTENT_VOLUME_CLAIM,
        change(volumeMode="Tape"),
        ['spec.volumeMode: Unsupported value: "Tape"'],
    ),
    (kinds.STORAGE_CLASS, {"provisioner": None}, ["provisioner: Required value"]),
    (
        kinds.STORAGE_CLASS,
        {"volumeBindingMode": "Later"},
        ['volumeBindingMode: Unsupported value: "Later"'],
    ),
]
NETWORK: list[tuple[Kind, Obj, list[str]]] = [
    (kinds.SERVICE, change(ports=None), ["spec.ports: Required value"]),
    (kinds.SERVICE, change(ports=None, clusterIP="None"), []),
    (
        kinds.SERVICE,
        change(ports=[PORT, {"port": 81}]),
        ["spec.ports[0].name: Required value", "spec.ports[1].name: Required value"],
    ),
    (
        kinds.SERVICE,
        change(ports=[{"port": 80, "name": "a"}, {"port": 81, "name": "a"}]),
        ['spec.ports[1].name: Duplicate value: "a"'],
    ),
    (
        kinds.SERVICE,
        change(ports=[{"port": 80, "name": "a"}, {"port": 80, "name": "b"}]),
        ["spec.ports[1]: Duplicate value"],
    ),
    (
        kinds.SERVICE,
        change(ports=[{"port": 0}]),
        ["spec.ports[0].port: Invalid value: 0", "spec.ports[0].targetPort: Invalid value: 0"],
    ),
    (
        kinds.SERVICE,
        change(type="Magic"),
        [
            'spec.type: Unsupported value: "Magic": supported values: "ClusterIP", "ExternalName", '
            '"LoadBalancer", "NodePort"'
        ],
    ),
    (
        kinds.SERVICE,
        change(type="ExternalName"),
        ["spec.externalName: Required value"],
    ),
    (kinds.SERVICE, change(type="ExternalName", externalName="a.b"), []),
    (
        kinds.SERVICE,
        change(type="NodePort", clusterIP="None"),
        [
            "spec.clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' for NodePort "
            "services"
        ],
    ),
    (
        kinds.SERVICE,
        change(type="LoadBalancer", clusterIP="None"),
        [
            "spec.clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' for "
            "LoadBalancer services"
        ],
    ),
    (
        kinds.SERVICE,
        change(type="ExternalName", externalName="a.b", clusterIP="10.0.0.1"),
        ["spec.clusterIP: Forbidden: may not be set for ExternalName services"],
    ),
    (
        kinds.SERVICE,
        change(clusterIPs=["10.0.0.1", "::1", "10.0.0.2"]),
        ['spec.clusterIPs: Invalid value: ["10.0.0.1","::1","10.0.0.2"]: may only hold'],
    ),
    (
        kinds.SERVICE,
        change(clusterIP="nowhere"),
        ['spec.clusterIPs[0]: Invalid value: "nowhere": must be a valid IP address'],
    ),
    (
        kinds.SERVICE,
        change(clusterIP="10.0.0.1", clusterIPs=["10.0.0.2"]),
        ['spec.clusterIPs: Invalid value: ["10.0.0.2"]: first value must match `clusterIP`'],
    ),
    (kinds.SERVICE, change(externalIPs=["x"]), ['spec.externalIPs[0]: Invalid value: "x"']),
    (kinds.SERVICE, change(selector={"-": ""}), ['spec.selector: Invalid value: "-"']),
    (
        kinds.SERVICE,
        change(
            sessionAffinity="ClientIP",
            sessionAffinityConfig={"clientIP": {"timeoutSeconds": 0}},
        ),
        ["spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 0"],
    ),
    (
        kinds.ENDPOINTS,
        {"subsets": [{"addresses": [{"ip": "x"}], "ports": [{}]}]},
        ['subsets[0].addresses[0].ip: Invalid value: "x"', "subsets[0].ports[0].port: Required"],
    ),
    (
        kinds.ENDPOINT_SLICE,
        {"addressType": "FQDN", "endpoints": [{"addresses": ["A"]}], "ports": [PORT, PORT]},
        ['endpoints[0].addresses[0]: Invalid value: "A"', 'ports: Duplicate value: ""'],
    ),
    (
        kinds.ENDPOINT_SLICE,
        {"endpoints": [{"addresses": ["10.0.0.1"]}] * 1001},
        ["endpoints: Too many: 1001: must have at most 1000 items"],
    ),
    (kinds.ENDPOINT_SLICE, {"endpoints": [{"addresses": ["x"]}]}, ["endpoints[0].addresses[0]"]),
    (
        kinds.ENDPOINTS,
        {"subsets": [{"ports": [PORT, {"port": 81}]}]},
        ["subsets[0].ports[0].name: Required value", "subsets[0].ports[1].name: Required value"],
    ),
    (kinds.ENDPOINT_SLICE, {"addressType": None}, ["addressType: Required value"]),
    (kinds.ENDPOINT_SLICE, {"addressType": "IPv9"}, ['addressType: Unsupported value: "IPv9"']),
    (
        kinds.ENDPOINT_SLICE,
        {"endpoints": [{"addresses": ["::1"]}, {}]},
        [
            'endpoints[0].addresses[0]: Invalid value: "::1": must be an IPv4 address',
            "endpoints[1].addresses: Required value: must contain at least 1 address",
        ],
    ),
    (
        kinds.INGRESS,
        change(rules=None),
        ["spec: Invalid value: []: either `defaultBackend` or `rules` must be specified"],
    ),
    (
        kinds.INGRESS,
        change(rules=[{"http": {"paths": [{**PATH, "pathType": None}]}}]),
        [
            "spec.rules[0].http.paths[0].pathType: Required value: pathType must be specified",
        ],
    ),
    (
        kinds.INGRESS,
        change(rules=[{"http": {"paths": [{**PATH, "path": "x"}]}}]),
        ['spec.rules[0].http.paths[0].path: Invalid value: "x": must be an absolute path'],
    ),
    (
        kinds.INGRESS,
        change(rules=[{"host": "A", "http": {"paths": []}}]),
        ['spec.rules[0].host: Invalid value: "A"', "spec.rules[0].http.paths: Required value"],
    ),
    (
        kinds.INGRESS,
        change(defaultBackend={"service": {"port": {}}}),
        [
            "spec.defaultBackend.service.name: Required value",
            "spec.defaultBackend: Required value: port name or number is required",
        ],
    ),
    (
        kinds.NETWORK_POLICY,
        change(ingress=[{"from": [{}]}]),
        ["spec.ingress[0].from[0]: Required value: must specify a peer"],
    ),
    (
        kinds.NETWORK_POLICY,
        change(policyTypes=["Sideways"]),
        ['spec.policyTypes[0]: Unsupported value: "Sideways"'],
    ),
]
POLICY: list[tuple[Kind, Obj, list[str]]] = [
    (
        kinds.ROLE,
        {"rules": [{"resources": ["pods"]}]},
        [
            "rules[0].verbs: Required value: verbs must contain at least one value",
            "rules[0].apiGroups: Required value: resource rules must supply at least one api group",
        ],
    ),
    (
        kinds.ROLE,
        {"rules": [{"verbs": ["get"], "nonResourceURLs": ["/x"]}]},
        ['rules[0].nonResourceURLs: Invalid value: ["/x"]: namespaced rules cannot apply to'],
    ),
    (
        kinds.CLUSTER_ROLE,
        {"aggregationRule": {}},
        ["aggregationRule.clusterRoleSelectors: Required value"],
    ),
    (
        kinds.ROLE_BINDING,
        {"roleRef": {"kind": "Role", "name": ""}},
        ["roleRef.name: Required value"],
    ),
    (
        kinds.ROLE_BINDING,
        {"roleRef": {"kind": "Pod", "name": "x"}},
        ['roleRef.kind: Unsupported value: "Pod": supported values: "Role", "ClusterRole"'],
    ),
    (
        kinds.ROLE_BINDING,
        {"subjects": [{"kind": "Robot", "name": "x"}]},
        [
            'subjects[0].kind: Unsupported value: "Robot": supported values: "ServiceAccount", '
            '"User", "Group"'
        ],
    ),
    (
        kinds.CLUSTER_ROLE_BINDING,
        {"subjects": [{"kind": "ServiceAccount", "name": "s"}]},
        ["subjects[0].namespace: Required value"],
    ),
    (
        kinds.ROLE_BINDING,
        {"subjects": [{"kind": "ServiceAccount", "name": "s", "apiGroup": "x"}]},
        ['subjects[0].apiGroup: Unsupported value: "x": supported values: ""'],
    ),
    (
        kinds.POD_DISRUPTION_BUDGET,
        change(maxUnavailable=1),
        ["spec: Invalid value"],
    ),
    (
        kinds.POD_DISRUPTION_BUDGET,
        change(minAvailable="some"),
        ['spec.minAvailable: Invalid value: "some": a valid percent string'],
    ),
    (
        kinds.HORIZONTAL_POD_AUTOSCALER,
        change(maxReplicas=0),
        ["spec.maxReplicas: Invalid value: 0: must be greater than 0"],
    ),
    (
        kinds.HORIZONTAL_POD_AUTOSCALER,
        change(minReplicas=9),
        ["spec.maxReplicas: Invalid value: 3: must be greater than or equal to `minReplicas`"],
    ),
    (
        kinds.HORIZONTAL_POD_AUTOSCALER,
        change(scaleTargetRef=None),
        ["spec.scaleTargetRef.kind: Required value", "spec.scaleTargetRef.name: Required value"],
    ),
    (
        kinds.PRIORITY_CLASS,
        {"value": 1000000001},
        [
            "value: Forbidden: maximum allowed value of a user defined priority is 1000000000",
        ],
    ),
    (
        kinds.PRIORITY_CLASS,
        {"metadata": {"name": "system-x"}},
        ["metadata.name: Forbidden: priority class names with 'system-' prefix are reserved"],
    ),
    (
        kinds.LEASE,
        change(leaseDurationSeconds=0),
        ["spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"],
    ),
    (
        kinds.LEASE,
        change(leaseTransitions=-1),
        ["spec.leaseTransitions: Invalid value: -1"],
    ),
    (kinds.RUNTIME_CLASS, {"handler": "C"}, ['handler: Invalid value: "C"']),
    (kinds.CONTROLLER_REVISION, {"data": None}, ["data: Required value: data is mandatory"]),
    (
        kinds.CERTIFICATE_SIGNING_REQUEST,
        {"spec": {"request": None, "usages": None}},
        ["spec.request: Required value", "spec.usages: Required value"],
    ),
]


@pytest.mark.parametrize(
    ("kind", "wrong", "expected"),
    CONFIGURATION + STORAGE + NETWORK + POLICY,
    ids=lambda value: value.kind if isinstance(value, Kind) else "",
)
def test_bad_objects(kind: Kind, wrong: Obj, expected: list[str]) -> None:
    check(on_create(kind, merged(VALID[kind], wrong)), expected)


FROZEN = "field is immutable when `immutable` is set"
CLAIM = VALID[kinds.PERSISTENT_VOLUME_CLAIM]


@pytest.mark.parametrize(
    ("kind", "old", "edit", "expected"),
    [
        (kinds.CONFIG_MAP, {"data": {"a": "b"}}, {"data": {"a": "c"}}, []),
        (
            kinds.CONFIG_MAP,
            {"data": {"a": "b"}, "immutable": True},
            {"data": {"a": "c"}},
            [f"data: Forbidden: {FROZEN}"],
        ),
        (
            kinds.CONFIG_MAP,
            {"data": {"a": "b"}, "immutable": True},
            {"immutable": False},
            [f"immutable: Forbidden: {FROZEN}"],
        ),
        (
            kinds.SECRET,
            {"data": {"a": "AA=="}},
            {"type": "example.com/x"},
            ['type: Invalid value: "example.com/x": field is immutable'],
        ),
        (
            kinds.SECRET,
            {"data": {"a": "AA=="}, "immutable": True},
            {"data": {"a": "AQ=="}},
            [f"data: Forbidden: {FROZEN}"],
        ),
        (
            kinds.NODE,
            change(providerID="a"),
            change(providerID="b"),
            ["spec.providerID: Forbidden: node updates may not change providerID"],
        ),
        (kinds.NODE, {"spec": {}}, change(providerID="b", unschedulable=True), []),
        (
            kinds.SERVICE,
            change(ports=[PORT], clusterIP="10.0.0.1"),
            change(clusterIP="10.0.0.2"),
            ['spec.clusterIPs[0]: Invalid value: ["10.0.0.2"]: may not change once set'],
        ),
        (
            kinds.SERVICE,
            change(ports=[PORT], clusterIP="10.0.0.1"),
            change(type="ExternalName", externalName="a.b", clusterIP=None),
            [],
        ),
        (
            kinds.PERSISTENT_VOLUME_CLAIM,
            CLAIM,
            change(accessModes=["ReadOnlyMany"]),
            ["spec: Forbidden: spec is immutable after creation except resources.requests"],
        ),
        (
            kinds.PERSISTENT_VOLUME_CLAIM,
            CLAIM,
            change(resources={"requests": {"storage": "2Gi"}}, volumeName="v"),
            [],
        ),
        (
            kinds.PERSISTENT_VOLUME_CLAIM,
            merged(CLAIM, change(volumeName="v")),
            change(volumeName="w"),
            ["spec: Forbidden"],
        ),
        (
            kinds.PERSISTENT_VOLUME,
            VALID[kinds.PERSISTENT_VOLUME],
            change(hostPath={"path": "/y"}),
            ["spec.persistentvolumesource: Forbidden"],
        ),
        (
            kinds.ROLE_BINDING,
            VALID[kinds.ROLE_BINDING],
            {"roleRef": {"name": "other"}},
            ["roleRef: Invalid value"],
        ),
        (
            kinds.PRIORITY_CLASS,
            {"value": 5},
            {"value": 6},
            ["value: Forbidden: may not be changed in an update."],
        ),
        (
            kinds.STORAGE_CLASS,
            VALID[kinds.STORAGE_CLASS],
            {"provisioner": "other.com/x", "reclaimPolicy": "Retain"},
            [
                "provisioner: Forbidden: updates to provisioner are forbidden.",
                "reclaimPolicy: Forbidden: updates to reclaimPolicy are forbidden.",
            ],
        ),
        (kinds.STORAGE_CLASS, VALID[kinds.STORAGE_CLASS], {"allowVolumeExpansion": True}, []),
        (kinds.RUNTIME_CLASS, {"handler": "a"}, {"handler": "b"}, ["handler: Invalid value"]),
        (
            kinds.ENDPOINT_SLICE,
            VALID[kinds.ENDPOINT_SLICE],
            {"addressType": "IPv6", "endpoints": []},
            ["addressType: Invalid value"],
        ),
        (
            kinds.CONTROLLER_REVISION,
            {"data": {"a": 1}},
            {"data": {"a": 2}},
            ["data: Invalid value"],
        ),
    ],
)
def test_what_may_change(kind: Kind, old: Obj, edit: Obj, expected: list[str]) -> None:
    check(on_update(kind, merged(old, edit), old), expected)


def test_of_a_status_update_only_the_metadata_is_checked() -> None:
    old = {"metadata": {"name": "p", "namespace": "default", "uid": "u"}, "status": {}}
    new = {**old, "status": {"phase": "Running", "anything": 1}}
    assert validate_status_update(kinds.POD, new, old) == []
    broken = {**new, "metadata": {**old["metadata"], "labels": {"-": ""}}}
    assert len(validate_status_update(kinds.POD, broken, old)) == 1
