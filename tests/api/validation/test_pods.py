"""Pods: one mistake at a time, and what upstream says to it."""

from __future__ import annotations

from typing import Any

import pytest

from orlop.api import kinds

from .objects import Obj, merged, on_create, on_update

CONTAINER: Obj = {"name": "c", "image": "busybox:1"}
POD: Obj = {"spec": {"containers": [CONTAINER]}}


def with_container(**change: Any) -> Obj:
    return {"spec": {"containers": [{**CONTAINER, **change}]}}


def with_spec(**change: Any) -> Obj:
    return merged(POD, {"spec": change})


RULES = "spec.containers[0].restartPolicyRules"


def with_rules(rule: Obj, policy: str | None = "Never") -> Obj:
    container = {"name": "c", "image": "x", "restartPolicyRules": [rule]}
    return with_spec(containers=[container | ({"restartPolicy": policy} if policy else {})])


def with_volume(**source: Any) -> Obj:
    return with_spec(volumes=[{"name": "v", **source}])


def with_env(**variable: Any) -> Obj:
    return with_container(env=[{"name": "A", **variable}])


GOOD: dict[str, Obj] = {
    "minimal": POD,
    "ports": with_container(ports=[{"containerPort": 80, "name": "http"}, {"containerPort": 80}]),
    "env": with_env(value="x"),
    "env of a field": with_env(valueFrom={"fieldRef": {"fieldPath": "metadata.name"}}),
    "env of a label": with_env(valueFrom={"fieldRef": {"fieldPath": "metadata.labels['a.b/c']"}}),
    "env of a resource": with_env(valueFrom={"resourceFieldRef": {"resource": "limits.cpu"}}),
    "env of a config map": with_env(valueFrom={"configMapKeyRef": {"name": "c", "key": "k"}}),
    "strange env names": with_container(env=[{"name": "my-strange.name 1", "value": ""}]),
    "env from": with_container(envFrom=[{"configMapRef": {"name": "c"}, "prefix": "P_"}]),
    "mounts": {
        "spec": {
            "containers": [
                {
                    **CONTAINER,
                    "volumeMounts": [
                        {"name": "v", "mountPath": "/a", "subPath": "b/c"},
                        {"name": "v", "mountPath": "/b"},
                    ],
                }
            ],
            "volumes": [{"name": "v", "emptyDir": {}}],
        }
    },
    "resources": with_container(
        resources={"limits": {"cpu": "1", "nvidia.com/gpu": "1"}, "requests": {"cpu": "500m"}}
    ),
    "probes": with_container(
        livenessProbe={"exec": {"command": ["true"]}},
        readinessProbe={"tcpSocket": {"port": "http"}, "successThreshold": 3},
        startupProbe={"grpc": {"port": 5}},
    ),
    "hooks": with_container(lifecycle={"preStop": {"sleep": {"seconds": 1}}}),
    "init containers": with_spec(initContainers=[{"name": "i", "image": "x"}]),
    "sidecar": with_spec(
        initContainers=[
            {
                "name": "i",
                "image": "x",
                "restartPolicy": "Always",
                "livenessProbe": {"exec": {"command": ["true"]}},
            }
        ]
    ),
    "host network": with_spec(
        hostNetwork=True, containers=[{**CONTAINER, "ports": [{"containerPort": 80}]}]
    ),
    "security": with_spec(
        securityContext={"runAsUser": 0, "fsGroup": 5, "seccompProfile": {"type": "RuntimeDefault"}}
    ),
    "everything about where": with_spec(
        nodeSelector={"a": "b"},
        tolerations=[{"operator": "Exists"}, {"key": "k", "effect": "NoSchedule"}],
        affinity={
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "a", "operator": "Exists"}]}
                    ]
                }
            },
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 1, "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname"}}
                ]
            },
        },
        topologySpreadConstraints=[
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
        ],
    ),
    "names": with_spec(hostname="h", subdomain="s", serviceAccountName="sa", nodeName="n1"),
    "dns": with_spec(dnsPolicy="None", dnsConfig={"nameservers": ["10.0.0.1"]}),
    "aliases": with_spec(hostAliases=[{"ip": "::1", "hostnames": ["a.b"]}]),
    "pull secrets": with_spec(imagePullSecrets=[{"name": "s"}, {}]),
    "config map volume": with_volume(
        configMap={"name": "c", "items": [{"key": "k", "path": "a/b"}]}
    ),
    "projected volume": with_volume(
        projected={
            "sources": [
                {"serviceAccountToken": {"path": "token"}},
                {"secret": {"name": "s"}},
                {
                    "downwardAPI": {
                        "items": [{"path": "p", "fieldRef": {"fieldPath": "metadata.labels"}}]
                    }
                },
            ]
        }
    ),
    "claim": with_volume(persistentVolumeClaim={"claimName": "c"}),
    "host path": with_volume(hostPath={"path": "/data", "type": "Directory"}),
    "deadline": with_spec(activeDeadlineSeconds=1),
    "gates": with_spec(schedulingGates=[{"name": "example.com/a"}]),
}


@pytest.mark.parametrize("name", GOOD)
def test_good_pods(name: str) -> None:
    assert on_create(kinds.POD, GOOD[name]) == []


CONTAINERS: list[tuple[Obj, list[str]]] = [
    ({"spec": {"containers": []}}, ["spec.containers: Required value"]),
    ({"spec": {}}, ["spec.containers: Required value"]),
    (with_container(name=""), ["spec.containers[0].name: Required value"]),
    (
        with_container(name="A"),
        ['spec.containers[0].name: Invalid value: "A": a lowercase RFC 1123 label'],
    ),
    (
        {"spec": {"containers": [CONTAINER, CONTAINER]}},
        ['spec.containers[1].name: Duplicate value: "c"'],
    ),
    (with_container(image=""), ["spec.containers[0].image: Required value"]),
    (
        with_container(image=" x"),
        [
            'spec.containers[0].image: Invalid value: " x": must not have leading or trailing '
            "whitespace"
        ],
    ),
    (
        with_container(imagePullPolicy="Sometimes"),
        [
            'spec.containers[0].imagePullPolicy: Unsupported value: "Sometimes": supported values: '
            '"Always", "IfNotPresent", "Never"'
        ],
    ),
    (
        with_container(terminationMessagePolicy="x"),
        ['spec.containers[0].terminationMessagePolicy: Unsupported value: "x"'],
    ),
    (with_container(ports=[{}]), ["spec.containers[0].ports[0].containerPort: Required value"]),
    (
        with_container(ports=[{"containerPort": 70000}]),
        [
            "spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 "
            "and 65535, inclusive"
        ],
    ),
    (
        with_container(ports=[{"containerPort": 1, "protocol": "ICMP"}]),
        [
            'spec.containers[0].ports[0].protocol: Unsupported value: "ICMP": supported values: '
            '"SCTP", "TCP", "UDP"'
        ],
    ),
    (
        with_container(
            ports=[{"containerPort": 1, "name": "a"}, {"containerPort": 2, "name": "a"}]
        ),
        ['spec.containers[0].ports[1].name: Duplicate value: "a"'],
    ),
    (
        with_container(ports=[{"containerPort": 1, "name": "Http"}]),
        ['spec.containers[0].ports[0].name: Invalid value: "Http": must contain only'],
    ),
    (
        with_container(ports=[{"containerPort": 1, "hostPort": 99999}]),
        ["spec.containers[0].ports[0].hostPort: Invalid value: 99999"],
    ),
    (
        with_container(
            ports=[{"containerPort": 1, "hostPort": 5}, {"containerPort": 2, "hostPort": 5}]
        ),
        ['spec.containers[0].ports[1].hostPort: Duplicate value: "TCP//5"'],
    ),
    (with_container(env=[{}]), ["spec.containers[0].env[0].name: Required value"]),
    (
        with_container(env=[{"name": "A=B"}]),
        [
            'spec.containers[0].env[0].name: Invalid value: "A=B": a valid environment variable '
            "name must consist only of printable ASCII characters other than '='"
        ],
    ),
    (
        with_env(value="x", valueFrom={"fieldRef": {"fieldPath": "metadata.name"}}),
        [
            'spec.containers[0].env[0].valueFrom: Invalid value: "": may not be specified when '
            "`value` is not empty"
        ],
    ),
    (
        with_env(valueFrom={}),
        [
            'spec.containers[0].env[0].valueFrom: Invalid value: "": must specify one of: '
            "`fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        ],
    ),
    (
        with_env(
            valueFrom={
                "fieldRef": {"fieldPath": "metadata.name"},
                "secretKeyRef": {"name": "s", "key": "k"},
            }
        ),
        [
            'spec.containers[0].env[0].valueFrom: Invalid value: "": may not have more than one '
            "field specified at a time"
        ],
    ),
    (
        with_env(valueFrom={"fieldRef": {"fieldPath": "spec.image"}}),
        [
            "spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Unsupported value: "
            '"spec.image": supported values: "metadata.name"'
        ],
    ),
    (
        with_env(valueFrom={"fieldRef": {}}),
        ["spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Required value"],
    ),
    (
        with_env(valueFrom={"resourceFieldRef": {"resource": "limits.disk"}}),
        [
            "spec.containers[0].env[0].valueFrom.resourceFieldRef.resource: Unsupported value: "
            '"limits.disk"'
        ],
    ),
    (
        with_env(valueFrom={"secretKeyRef": {}}),
        [
            "spec.containers[0].env[0].valueFrom.secretKeyRef.name: Required value",
            "spec.containers[0].env[0].valueFrom.secretKeyRef.key: Required value",
        ],
    ),
    (
        with_container(envFrom=[{}]),
        [
            'spec.containers[0].envFrom: Invalid value: "": must specify one of: `configMapRef` '
            "or `secretRef`"
        ],
    ),
    (
        with_container(envFrom=[{"secretRef": {}}]),
        ["spec.containers[0].envFrom[0].secretRef.name: Required value"],
    ),
    (
        with_container(volumeMounts=[{"name": "gone", "mountPath": "/x"}]),
        ['spec.containers[0].volumeMounts[0].name: Not found: "gone"'],
    ),
    (
        with_container(volumeDevices=[{"name": "gone"}]),
        [
            'spec.containers[0].volumeDevices[0].name: Not found: "gone"',
            "spec.containers[0].volumeDevices[0].devicePath: Required value",
        ],
    ),
    (
        with_container(resources={"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}),
        [
            'spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal '
            "to cpu limit of 1"
        ],
    ),
    (
        with_container(resources={"requests": {"cpu": "-1"}}),
        [
            'spec.containers[0].resources.requests[cpu]: Invalid value: "-1": must be greater than '
            "or equal to 0"
        ],
    ),
    (
        with_container(resources={"limits": {"gpu": "1"}}),
        [
            'spec.containers[0].resources.limits[gpu]: Invalid value: "gpu": must be a standard '
            "resource type or fully qualified",
            "spec.containers[0].resources.requests[gpu]",
        ],
    ),
    (
        with_container(resources={"requests": {"nvidia.com/gpu": "1"}}),
        [
            "spec.containers[0].resources.limits: Required value: Limit must be set for non "
            "overcommitable resources"
        ],
    ),
    (
        with_container(
            resources={"limits": {"nvidia.com/gpu": "2"}, "requests": {"nvidia.com/gpu": "1"}}
        ),
        [
            'spec.containers[0].resources.requests: Invalid value: "1": must be equal to '
            "nvidia.com/gpu limit of 2"
        ],
    ),
    (
        with_container(resources={"limits": {"nvidia.com/gpu": "1500m"}}),
        [
            'spec.containers[0].resources.limits[nvidia.com/gpu]: Invalid value: "1500m": must be '
            "an integer",
            "spec.containers[0].resources.requests[nvidia.com/gpu]",
        ],
    ),
    (
        with_container(livenessProbe={}),
        ["spec.containers[0].livenessProbe: Required value: must specify a handler type"],
    ),
    (
        with_container(livenessProbe={"exec": {}, "tcpSocket": {"port": 1}}),
        [
            "spec.containers[0].livenessProbe.tcpSocket: Forbidden: may not specify more than 1 "
            "handler type",
            "spec.containers[0].livenessProbe.exec.command: Required value",
        ],
    ),
    (
        with_container(livenessProbe={"httpGet": {"port": 0}}),
        ["spec.containers[0].livenessProbe.httpGet.port: Invalid value: 0: must be between 1"],
    ),
    (
        with_container(livenessProbe={"httpGet": {"port": 1, "scheme": "FTP"}}),
        ['spec.containers[0].livenessProbe.httpGet.scheme: Unsupported value: "FTP"'],
    ),
    (
        with_container(livenessProbe={"tcpSocket": {"port": 1}, "successThreshold": 2}),
        ["spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1"],
    ),
    (
        with_container(readinessProbe={"tcpSocket": {"port": 1}, "periodSeconds": -1}),
        [
            "spec.containers[0].readinessProbe.periodSeconds: Invalid value: -1: must be greater "
            "than or equal to 0"
        ],
    ),
    (
        with_container(
            readinessProbe={"tcpSocket": {"port": 1}, "terminationGracePeriodSeconds": 5}
        ),
        [
            "spec.containers[0].readinessProbe.terminationGracePeriodSeconds: Invalid value: 5: "
            "must not be set for readinessProbes"
        ],
    ),
    (
        with_container(lifecycle={"postStart": {}}),
        ["spec.containers[0].lifecycle.postStart: Required value: must specify a handler type"],
    ),
    (
        with_container(securityContext={"runAsUser": -1}),
        [
            "spec.containers[0].securityContext.runAsUser: Invalid value: -1: must be between 0 "
            "and 4294967295, inclusive"
        ],
    ),
    (
        with_container(securityContext={"privileged": True, "allowPrivilegeEscalation": False}),
        ["spec.containers[0].securityContext: Invalid value"],
    ),
    (
        with_container(securityContext={"seccompProfile": {"type": "Localhost"}}),
        [
            "spec.containers[0].securityContext.seccompProfile.localhostProfile: Required value: "
            "must be set when seccomp type is Localhost"
        ],
    ),
    (
        with_container(
            securityContext={"seccompProfile": {"type": "Unconfined", "localhostProfile": "p"}}
        ),
        [
            "spec.containers[0].securityContext.seccompProfile.localhostProfile: Invalid value: "
            '"p": can only be set when seccomp type is Localhost'
        ],
    ),
    (
        with_spec(initContainers=[{"name": "c", "image": "x"}]),
        ['spec.initContainers[0].name: Duplicate value: "c"'],
    ),
    (
        with_spec(initContainers=[{"name": "i", "image": "x", "livenessProbe": {}}]),
        [
            "spec.initContainers[0].livenessProbe: Forbidden: may not be set for init containers "
            "without restartPolicy=Always"
        ],
    ),
    (
        with_spec(initContainers=[{"name": "i", "image": "x", "restartPolicy": "Sometimes"}]),
        [
            'spec.initContainers[0].restartPolicy: Unsupported value: "Sometimes": supported '
            'values: "Always", "Never", "OnFailure"'
        ],
    ),
    (with_spec(initContainers=[{"name": "i", "image": "x", "restartPolicy": "Never"}]), []),
    (
        with_rules({"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}),
        [],
    ),
    (
        with_rules({"action": "Stop"}),
        [
            f'{RULES}[0].action: Unsupported value: "Stop": supported values: "Restart"',
            f"{RULES}[0].exitCodes: Required value: must be specified",
        ],
    ),
    (
        with_rules({"action": "Restart", "exitCodes": {"operator": "Near", "values": []}}),
        [
            f'{RULES}[0].exitCodes.operator: Unsupported value: "Near": supported values: "In", '
            '"NotIn"',
            f"{RULES}[0].exitCodes.values: Invalid value: 0: must have between 1 and 255 items",
        ],
    ),
    (
        with_rules(
            {"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}}, policy=None
        ),
        [
            "spec.containers[0].restartPolicy: Required value: must specify restartPolicy when "
            "restart rules are used"
        ],
    ),
]
PREFERENCE = (
    "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference"
)
SPECS: list[tuple[Obj, list[str]]] = [
    (
        with_spec(restartPolicy="Sometimes"),
        [
            'spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", '
            '"OnFailure", "Never"'
        ],
    ),
    (with_spec(dnsPolicy="x"), ['spec.dnsPolicy: Unsupported value: "x"']),
    (
        with_spec(activeDeadlineSeconds=0),
        [
            "spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, "
            "inclusive"
        ],
    ),
    (with_spec(nodeSelector={"-": "x"}), ['spec.nodeSelector: Invalid value: "-"']),
    (with_spec(hostname="A"), ['spec.hostname: Invalid value: "A"']),
    (with_spec(subdomain="a.b"), ['spec.subdomain: Invalid value: "a.b": must not contain dots']),
    (with_spec(serviceAccountName="A"), ['spec.serviceAccountName: Invalid value: "A"']),
    (with_spec(nodeName="A"), ['spec.nodeName: Invalid value: "A"']),
    (
        with_spec(dnsPolicy="None"),
        ["spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"],
    ),
    (
        with_spec(dnsPolicy="None", dnsConfig={}),
        [
            "spec.dnsConfig.nameservers: Required value: must provide at least one DNS nameserver "
            "when `dnsPolicy` is None"
        ],
    ),
    (
        with_spec(dnsConfig={"options": [{"name": "ndots"}, {"value": "1"}]}),
        ["spec.dnsConfig.options[1]: Required value: must not be empty"],
    ),
    (
        with_spec(dnsConfig={"nameservers": ["x"]}),
        ['spec.dnsConfig.nameservers[0]: Invalid value: "x": must be a valid IP address'],
    ),
    (
        with_spec(hostAliases=[{"ip": "300.1.1.1"}]),
        ['spec.hostAliases[0].ip: Invalid value: "300.1.1.1": must be a valid IP address'],
    ),
    (
        with_spec(shareProcessNamespace=True, hostPID=True),
        [
            "spec.shareProcessNamespace: Invalid value: true: ShareProcessNamespace and HostPID "
            "cannot both be enabled"
        ],
    ),
    (
        with_spec(ephemeralContainers=[{"name": "e", "image": "x"}]),
        ["spec.ephemeralContainers: Forbidden: cannot be set on create"],
    ),
    (
        with_spec(schedulingGates=[{"name": "a"}], nodeName="n"),
        ["spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared"],
    ),
    (
        with_spec(schedulingGates=[{"name": "a"}, {"name": "a"}]),
        ['spec.schedulingGates[1]: Duplicate value: "a"'],
    ),
    (
        with_spec(tolerations=[{}]),
        ['spec.tolerations[0].operator: Invalid value: "": operator must be Exists when `key` is'],
    ),
    (
        with_spec(tolerations=[{"key": "a", "operator": "Near"}]),
        [
            'spec.tolerations[0].operator: Unsupported value: "Near": supported values: "Equal", '
            '"Exists"'
        ],
    ),
    (
        with_spec(tolerations=[{"key": "a", "operator": "Exists", "value": "x"}]),
        [
            'spec.tolerations[0].operator: Invalid value: "Exists": value must be empty when '
            "`operator` is 'Exists'"
        ],
    ),
    (
        with_spec(tolerations=[{"key": "a", "effect": "Never"}]),
        ['spec.tolerations[0].effect: Unsupported value: "Never"'],
    ),
    (
        with_spec(tolerations=[{"key": "a", "effect": "NoSchedule", "tolerationSeconds": 5}]),
        [
            "spec.tolerations[0].effect: Invalid value: \"NoSchedule\": effect must be 'NoExecute' "
            "when `tolerationSeconds` is set"
        ],
    ),
    (
        with_spec(topologySpreadConstraints=[{"topologyKey": "z"}]),
        [
            "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater",
            'spec.topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value: ""',
        ],
    ),
    (
        with_spec(
            affinity={
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}},
            }
        ),
        [
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution."
            "nodeSelectorTerms: Required value: must have at least one node selector term"
        ],
    ),
    *(
        (
            with_spec(
                affinity={
                    "nodeAffinity": {
                        "preferredDuringSchedulingIgnoredDuringExecution": [
                            {"weight": 1, "preference": {"matchExpressions": [expression]}}
                        ]
                    }
                }
            ),
            [f"{PREFERENCE}.matchExpressions[0].{told}"],
        )
        for expression, told in [
            ({"key": "a", "operator": "In"}, "values: Required value: must be specified when"),
            (
                {"key": "a", "operator": "Exists", "values": ["b"]},
                "values: Forbidden: may not be specified when `operator` is 'Exists'",
            ),
            (
                {"key": "a", "operator": "Gt", "values": ["1", "2"]},
                "values: Required value: must be specified single value when `operator` is 'Lt'",
            ),
            ({"key": "a", "operator": "Near"}, 'operator: Invalid value: "Near": not a valid'),
            ({"key": "-", "operator": "Exists"}, 'key: Invalid value: "-"'),
        ]
    ),
    (
        with_spec(
            affinity={
                "nodeAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 101, "preference": {"matchFields": [{"key": "spec.x"}]}}
                    ]
                }
            }
        ),
        [
            f"{PREFERENCE.removesuffix('.preference')}.weight: Invalid value: 101: must be in the",
            f'{PREFERENCE}.matchFields[0].key: Invalid value: "spec.x": not a valid field selector',
            f"{PREFERENCE}.matchFields[0].values: Required value: must be only one value",
        ],
    ),
    (
        with_spec(
            topologySpreadConstraints=[
                {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "ScheduleAnyway"},
                {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "ScheduleAnyway"},
                {"maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"},
            ]
        ),
        [
            "spec.topologySpreadConstraints[1].{topologyKey, whenUnsatisfiable}: Duplicate value",
            "spec.topologySpreadConstraints[2].topologyKey: Required value: can not be empty",
        ],
    ),
    (
        with_spec(
            affinity={
                "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]},
            }
        ),
        [
            "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]."
            "topologyKey: Required value: can not be empty"
        ],
    ),
    (
        with_spec(securityContext={"fsGroup": -5}),
        ["spec.securityContext.fsGroup: Invalid value: -5: must be between 0 and 4294967295"],
    ),
]
VOLUMES: list[tuple[Obj, list[str]]] = [
    (with_spec(volumes=[{}]), ["spec.volumes[0].name: Required value"]),
    (
        with_spec(volumes=[{"name": "v"}, {"name": "v"}]),
        ['spec.volumes[1].name: Duplicate value: "v"'],
    ),
    (with_spec(volumes=[{"name": "V"}]), ['spec.volumes[0].name: Invalid value: "V"']),
    (
        with_volume(emptyDir={}, hostPath={"path": "/x"}),
        ["spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type"],
    ),
    (with_volume(hostPath={}), ["spec.volumes[0].hostPath.path: Required value"]),
    (
        with_volume(hostPath={"path": "/a/../b"}),
        ["spec.volumes[0].hostPath.path: Invalid value: \"/a/../b\": must not contain '..'"],
    ),
    (
        with_volume(hostPath={"path": "/a", "type": "Folder"}),
        ['spec.volumes[0].hostPath.type: Unsupported value: "Folder"'],
    ),
    (with_volume(configMap={}), ["spec.volumes[0].configMap.name: Required value"]),
    (with_volume(secret={}), ["spec.volumes[0].secret.secretName: Required value"]),
    (
        with_volume(secret={"secretName": "s", "defaultMode": 0o1000}),
        [
            "spec.volumes[0].secret.defaultMode: Invalid value: 512: must be a number between 0 "
            "and 0777 (octal), both inclusive"
        ],
    ),
    (
        with_volume(configMap={"name": "c", "items": [{"key": "k", "path": "/a"}]}),
        ['spec.volumes[0].configMap.items[0].path: Invalid value: "/a": must be a relative path'],
    ),
    (
        with_volume(configMap={"name": "c", "items": [{}]}),
        [
            "spec.volumes[0].configMap.items[0].key: Required value",
            "spec.volumes[0].configMap.items[0].path: Required value",
        ],
    ),
    (
        with_volume(downwardAPI={"items": [{"path": "p"}]}),
        [
            "spec.volumes[0].downwardAPI.items[0]: Required value: one of fieldRef and "
            "resourceFieldRef is required"
        ],
    ),
    (
        with_volume(projected={"sources": [{"serviceAccountToken": {"expirationSeconds": 5}}]}),
        [
            "spec.volumes[0].projected.sources[0].serviceAccountToken.path: Required value",
            "spec.volumes[0].projected.sources[0].serviceAccountToken.expirationSeconds: Invalid "
            "value: 5: may not specify a duration less than 10 minutes",
        ],
    ),
    (
        with_volume(persistentVolumeClaim={}),
        ["spec.volumes[0].persistentVolumeClaim.claimName: Required value"],
    ),
    (
        with_volume(nfs={"path": "x"}),
        [
            "spec.volumes[0].nfs.server: Required value",
            'spec.volumes[0].nfs.path: Invalid value: "x": must be an absolute path',
        ],
    ),
    (
        with_volume(emptyDir={"sizeLimit": "-1"}),
        [
            "spec.volumes[0].emptyDir.sizeLimit: Forbidden: SizeLimit field must be a valid "
            "resource quantity"
        ],
    ),
    (
        with_volume(configMap={"name": "c", "items": [{"key": "k", "path": "..data"}]}),
        ['spec.volumes[0].configMap.items[0].path: Invalid value: "..data": must not start with'],
    ),
    (
        with_volume(
            downwardAPI={
                "items": [
                    {
                        "path": "p",
                        "fieldRef": {"fieldPath": "metadata.name"},
                        "resourceFieldRef": {"resource": "limits.cpu"},
                    },
                    {"path": "q", "resourceFieldRef": {}},
                ]
            }
        ),
        [
            'spec.volumes[0].downwardAPI.items[0]: Invalid value: "resource": fieldRef and',
            "spec.volumes[0].downwardAPI.items[1].resourceFieldRef.containerName: Required value",
            "spec.volumes[0].downwardAPI.items[1].resourceFieldRef.resource: Required value",
        ],
    ),
    (
        with_volume(projected={"sources": [{"secret": {"name": "s"}, "configMap": {"name": "c"}}]}),
        ["spec.volumes[0].projected.sources[0].configMap: Forbidden: may not specify more than 1"],
    ),
    (with_volume(image={}), ["spec.volumes[0].image.reference: Required value"]),
    (
        with_volume(image={"reference": "x", "pullPolicy": "Maybe"}),
        ['spec.volumes[0].image.pullPolicy: Unsupported value: "Maybe"'],
    ),
    (with_volume(csi={}), ["spec.volumes[0].csi.driver: Required value"]),
    (with_volume(ephemeral={}), ["spec.volumes[0].ephemeral.volumeClaimTemplate: Required value"]),
]


@pytest.mark.parametrize(("pod", "expected"), CONTAINERS + SPECS + VOLUMES)
def test_bad_pods(pod: Obj, expected: list[str]) -> None:
    found = on_create(kinds.POD, pod)
    assert len(found) == len(expected), found
    for one, start in zip(found, expected, strict=True):
        assert one.startswith(start)


def test_mount_paths_are_unique_and_stay_inside_the_volume() -> None:
    mounts = [
        {"name": "v", "mountPath": "/a"},
        {"name": "v", "mountPath": "/a", "subPath": "../x"},
        {"name": "v", "mountPath": "/b", "subPath": "x", "subPathExpr": "$(Y)"},
    ]
    pod = {
        "spec": {
            "containers": [{**CONTAINER, "volumeMounts": mounts}],
            "volumes": [{"name": "v"}],
        }
    }
    at = "spec.containers[0].volumeMounts"
    assert on_create(kinds.POD, pod) == [
        f'{at}[1].mountPath: Invalid value: "/a": must be unique',
        f"{at}[1].subPath: Invalid value: \"../x\": must not contain '..'",
        f'{at}[2].subPathExpr: Invalid value: "$(Y)": subPathExpr and subPath are mutually '
        "exclusive",
    ]


def test_with_the_hosts_network_ports_are_the_hosts() -> None:
    container = {**CONTAINER, "ports": [{"containerPort": 80, "hostPort": 81}]}
    found = on_create(kinds.POD, {"spec": {"hostNetwork": True, "containers": [container]}})
    assert found == [
        "spec.containers[0].ports[0].containerPort: Invalid value: 80: must match `hostPort` when "
        "`hostNetwork` is true"
    ]


FIXED = "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (POD, POD, []),
        (POD, with_container(image="busybox:2", imagePullPolicy="IfNotPresent"), []),
        (POD, with_spec(activeDeadlineSeconds=5), []),
        (with_spec(activeDeadlineSeconds=5), with_spec(activeDeadlineSeconds=3), []),
        (
            with_spec(activeDeadlineSeconds=5),
            with_spec(activeDeadlineSeconds=7),
            [
                "spec.activeDeadlineSeconds: Invalid value: 7: must be less than or equal to "
                "previous value"
            ],
        ),
        (
            with_spec(activeDeadlineSeconds=5),
            POD,
            [
                "spec.activeDeadlineSeconds: Invalid value: null: must not update from a positive "
                "integer to nil value"
            ],
        ),
        (POD, with_spec(tolerations=[{"operator": "Exists"}]), []),
        (
            with_spec(tolerations=[{"operator": "Exists"}]),
            POD,
            [
                "spec.tolerations: Forbidden: existing toleration can not be modified except its "
                "tolerationSeconds"
            ],
        ),
        (
            with_spec(tolerations=[{"operator": "Exists", "effect": "NoExecute"}]),
            with_spec(
                tolerations=[{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}]
            ),
            [],
        ),
        (POD, with_container(command=["x"]), [FIXED]),
        (POD, with_container(image=""), ["spec.containers[0].image: Required value"]),
        (POD, with_container(image="x "), ['spec.containers[0].image: Invalid value: "x "']),
        (POD, with_spec(nodeSelector={"a": "b"}), [FIXED]),
        (POD, with_spec(restartPolicy="Never"), [FIXED]),
        (
            POD,
            {"spec": {"containers": [CONTAINER, {"name": "d", "image": "x"}]}},
            ["spec.containers: Forbidden: pod updates may not add or remove containers"],
        ),
        (with_spec(schedulingGates=[{"name": "a"}]), POD, []),
        (
            with_spec(schedulingGates=[{"name": "a"}]),
            with_spec(schedulingGates=[{"name": "a"}], nodeSelector={"a": "b"}),
            [],
        ),
        (
            POD,
            with_spec(schedulingGates=[{"name": "a"}]),
            [
                "spec.schedulingGates: Forbidden: only deletion is allowed, but found new "
                "scheduling gate 'a'"
            ],
        ),
        (POD, merged(POD, {"metadata": {"labels": {"a": "b"}}}), []),
        (POD, with_spec(terminationGracePeriodSeconds=5), [FIXED]),
    ],
)
def test_what_may_change_of_a_pod(old: Obj, new: Obj, expected: list[str]) -> None:
    found = on_update(kinds.POD, new, old)
    assert len(found) == len(expected), found
    for one, start in zip(found, expected, strict=True):
        assert one.startswith(start)
