"""No wish of a pod is passed over in silence: the table knows every field there is."""

from __future__ import annotations

import pytest

from orlop.api.schema import build
from orlop.kubelet.planning.field_support import Nested, unsupported

from ..objects import a_container, a_pod, treatment

STRUCTS = {
    "": "PodSpec",
    "containers": "Container",
    "initContainers": "Container",
    "ephemeralContainers": "EphemeralContainer",
    "containers.env": "EnvVar",
    "containers.env.valueFrom": "EnvVarSource",
    "containers.lifecycle": "Lifecycle",
    "containers.lifecycle.postStart": "LifecycleHandler",
    "containers.lifecycle.postStart.httpGet": "HTTPGetAction",
    "containers.lifecycle.preStop": "LifecycleHandler",
    "containers.lifecycle.preStop.httpGet": "HTTPGetAction",
    "containers.livenessProbe": "Probe",
    "containers.livenessProbe.httpGet": "HTTPGetAction",
    "containers.readinessProbe": "Probe",
    "containers.readinessProbe.httpGet": "HTTPGetAction",
    "containers.startupProbe": "Probe",
    "containers.startupProbe.httpGet": "HTTPGetAction",
    "containers.ports": "ContainerPort",
    "containers.resources": "ResourceRequirements",
    "containers.securityContext": "SecurityContext",
    "containers.volumeMounts": "VolumeMount",
    "securityContext": "PodSecurityContext",
    "volumes": "Volume",
    "volumes.emptyDir": "EmptyDirVolumeSource",
    "volumes.projected": "ProjectedVolumeSource",
    "volumes.projected.sources": "VolumeProjection",
}


@pytest.fixture(scope="module")
def schema():
    return build()


@pytest.mark.parametrize("path", STRUCTS, ids=[name or "spec" for name in STRUCTS])
def test_every_field_of_the_schema_is_in_the_table(schema, path):
    fields = schema.struct(f"core_v1.{STRUCTS[path]}").fields
    missing = [name for name in fields if treatment(f"{path}.{name}".lstrip(".")) is None]
    assert missing == []


def test_whatever_is_nested_in_the_table_is_walked_here():
    def nested(entry, path):
        for name, inner in entry.table.items():
            if isinstance(inner, Nested):
                yield f"{path}{name}"
                yield from nested(inner, f"{path}{name}.")

    found = {
        path for top in ("containers", "volumes") for path in nested(treatment(top), f"{top}.")
    }
    assert found == {path for path in STRUCTS if path.startswith(("containers.", "volumes."))}


def findings(pod):
    return {finding.path: finding.refuses for finding in unsupported(pod)}


def test_an_ordinary_pod_has_no_unmet_wishes():
    pod = a_pod(
        a_container(
            command=["sh"],
            args=["-c", "true"],
            env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            envFrom=[{"configMapRef": {"name": "c"}}],
            ports=[{"containerPort": 80, "protocol": "TCP"}],
            resources={"limits": {"cpu": "1", "nvidia.com/gpu": "1"}, "requests": {"cpu": "1"}},
            securityContext={"runAsUser": 5, "readOnlyRootFilesystem": True},
            volumeMounts=[{"name": "v", "mountPath": "/v", "mountPropagation": "None"}],
            imagePullPolicy="Always",
            terminationMessagePath="/dev/termination-log",
            terminationMessagePolicy="File",
        ),
        dnsPolicy="None",
        dnsConfig={"nameservers": ["1.1.1.1"]},
        subdomain="sub",
        schedulerName="default-scheduler",
        securityContext={"fsGroup": 5, "seccompProfile": {"type": "Unconfined"}},
        serviceAccountName="default",
        tolerations=[{"operator": "Exists"}],
        enableServiceLinks=True,
        hostNetwork=True,
        hostUsers=False,
        os={"name": "linux"},
        volumes=[{"name": "v", "emptyDir": {"medium": "Memory"}}],
        shareProcessNamespace=False,
    )
    assert findings(pod) == {}


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"runtimeClassName": "gvisor"}, "spec.runtimeClassName"),
        ({"evictionResponders": [{"name": "example.com/x"}]}, "spec.evictionResponders"),
        (
            {"securityContext": {"seLinuxChangePolicy": "Recursive"}},
            "spec.securityContext.seLinuxChangePolicy",
        ),
        (
            {"securityContext": {"appArmorProfile": {"type": "RuntimeDefault"}}},
            "spec.securityContext.appArmorProfile",
        ),
        ({"inventedIn2030": 1}, "spec.inventedIn2030"),
    ],
)
def test_harmless_wishes_of_a_pod_are_named(spec, path):
    assert findings(a_pod(**spec)) == {path: False}


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        (
            {"securityContext": {"allowPrivilegeEscalation": True}},
            "securityContext.allowPrivilegeEscalation",
        ),
        ({"ports": [{"containerPort": 80, "hostPort": 80}]}, "ports[0].hostPort"),
        (
            {"livenessProbe": {"httpGet": {"port": 80, "protocol": "HTTP2"}}},
            "livenessProbe.httpGet.protocol",
        ),
        ({"resources": {"limits": {"hugepages-2Mi": "1Gi"}}}, "resources.limits"),
    ],
)
def test_harmless_wishes_of_a_container_are_named(fields, path):
    assert findings(a_pod(a_container(**fields))) == {f'spec.containers["main"].{path}': False}


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"volumes": [{"name": "d", "csi": {"driver": "x"}}]}, 'spec.volumes["d"].csi'),
        ({"volumes": [{"name": "d", "iscsi": {"lun": 0}}]}, 'spec.volumes["d"].iscsi'),
        (
            {"volumes": [{"name": "d", "emptyDir": {"medium": "Drum"}}]},
            'spec.volumes["d"].emptyDir.medium',
        ),
        ({"os": {"name": "windows"}}, "spec.os"),
        ({"securityContext": {"sysctls": [{"name": "a"}]}}, "spec.securityContext.sysctls"),
        (
            {"containers": [a_container(volumeMounts=[{"mountPropagation": "Bidirectional"}])]},
            'spec.containers["main"].volumeMounts[0].mountPropagation',
        ),
        (
            {"containers": [a_container(securityContext={"privileged": True})]},
            'spec.containers["main"].securityContext.privileged',
        ),
        (
            {"containers": [a_container(volumeDevices=[{"name": "d"}])]},
            'spec.containers["main"].volumeDevices',
        ),
    ],
)
def test_what_would_run_wrongly_is_refused(spec, path):
    assert findings(a_pod(**spec)) == {path: True}


@pytest.mark.parametrize(
    "fields",
    [
        {"livenessProbe": {"tcpSocket": {"port": 1}}, "readinessProbe": {"grpc": {"port": 2}}},
        {"startupProbe": {"httpGet": {"port": 1}}},
        {"lifecycle": {"preStop": {"sleep": {"seconds": 1}}, "postStart": {"exec": {}}}},
        {"restartPolicy": "Never", "restartPolicyRules": [{"action": "Restart"}]},
    ],
)
def test_the_whole_life_of_a_container_is_as_it_wishes(fields):
    assert findings(a_pod(a_container(**fields))) == {}
    assert findings(a_pod(initContainers=[a_container("side", **fields)])) == {}


@pytest.mark.parametrize(
    "spec",
    [
        {"hostPID": True, "hostIPC": True},
        {"securityContext": {"sysctls": [{"name": "kernel.shmmax", "value": "1"}]}},
        {"volumes": [{"name": "d", "emptyDir": {"medium": "HugePages-2Mi"}}]},
        {"resources": {"limits": {"cpu": "1", "memory": "1Gi"}}},
        {"shareProcessNamespace": True},
        {"ephemeralContainers": [{"name": "debug", "targetContainerName": "main"}]},
    ],
)
def test_much_else_is_met(spec):
    assert findings(a_pod(**spec)) == {}


@pytest.mark.parametrize(
    ("asked", "is_refused"),
    [
        ({"drop": ["ALL"]}, False),
        ({"add": ["CAP_SYS_PTRACE", "net_raw"]}, False),
        ({"add": ["SYS_PTRACER"]}, True),
    ],
)
def test_capabilities_are_given_by_names_that_there_are(asked, is_refused):
    found = findings(a_pod(a_container(securityContext={"capabilities": asked})))
    path = 'spec.containers["main"].securityContext.capabilities'
    assert found == ({path: True} if is_refused else {})


def test_a_port_of_the_node_is_met_on_its_network():
    ports = [{"containerPort": 80, "hostPort": 80}]
    assert findings(a_pod(a_container(ports=ports), hostNetwork=True)) == {}
