"""Protobuf bodies: what we write by the same table we read, and what real kubectls send."""

from __future__ import annotations

import base64
import http.server
import json
import os
import shutil
import struct
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orlop.api import kinds, protobuf, times
from orlop.api.kinds import Kinds
from orlop.api.schema import Schema
from orlop.api.schema.model import struct_name
from orlop.api.wire import Wire
from orlop.errors import BadRequest
from tools.kubectl import minor_version

Obj = dict[str, Any]
WIRE = Wire()


def varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def field(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


def number_field(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value)


def encode_message(name: str, obj: Obj) -> bytes:
    """The reverse of the decoder, for round trips."""
    out = b""
    for one in WIRE.message(name).values():
        if one.inline:
            out += field(one.number, encode_message(one.spec[1:], obj))
        elif one.name in obj:
            out += encode_field(one.number, one.spec, obj[one.name])
    return out


def encode_field(number: int, spec: str, value: Any) -> bytes:
    if spec[0] == "[":
        return b"".join(encode_field(number, spec[1:], item) for item in value)
    if spec[0] == "{":
        pairs = value.items()
        return b"".join(
            field(number, field(1, key.encode()) + encode_field(2, _entry(spec), item))
            for key, item in pairs
        )
    if spec in "ilb":
        return number_field(number, int(value))
    if spec == "d":
        return varint(number << 3 | 1) + struct.pack("<d", value)
    return field(number, encode_value(spec, value))


def _entry(spec: str) -> str:
    return "list" if spec[1] == "[" else spec[1:]


def encode_value(spec: str, value: Any) -> bytes:
    match spec:
        case "s":
            return value.encode()
        case "y":
            return base64.b64decode(value)
        case "q":
            return field(1, value.encode())
        case "x":
            kind = 1 if isinstance(value, str) else 0
            rest = field(3, value.encode()) if kind else number_field(2, value)
            return number_field(1, kind) + rest
        case "t" | "T":
            seconds = times.parse(value)
            nanos = round((seconds % 1) * 1e9)
            return number_field(1, int(seconds)) + number_field(2, nanos)
        case "*":
            return field(1, json.dumps(value).encode())
        case "list":
            return b"".join(field(1, item.encode()) for item in value)
    return encode_message(spec[1:], value)


def body(obj: Obj) -> bytes:
    group, _, version = obj["apiVersion"].rpartition("/")
    name = struct_name(group, version, obj["kind"])
    typed = field(1, obj["apiVersion"].encode()) + field(2, obj["kind"].encode())
    unknown = field(1, typed) + field(2, encode_message(name, obj))
    return b"k8s\x00" + unknown + field(3, b"") + field(4, b"")


POD: Obj = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "p",
        "labels": {"a": "b", "empty": ""},
        "creationTimestamp": "2026-01-02T12:04:05Z",
        "finalizers": ["a/b"],
        "managedFields": [{"manager": "m", "fieldsV1": {"f:spec": {}}}],
    },
    "spec": {
        "containers": [
            {
                "name": "c",
                "image": "busybox",
                "command": ["sh", "-c", ""],
                "env": [
                    {"name": "A", "value": "ü"},
                    {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                ],
                "resources": {"limits": {"cpu": "500m", "memory": "1Gi"}},
                "livenessProbe": {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 5},
                "readinessProbe": {"tcpSocket": {"port": 80}},
                "securityContext": {"privileged": False, "runAsUser": 0},
                "tty": True,
            }
        ],
        "volumes": [
            {"name": "v", "emptyDir": {"sizeLimit": "1Gi"}},
            {"name": "w", "configMap": {"name": "c", "optional": False, "defaultMode": 0}},
        ],
        "terminationGracePeriodSeconds": 0,
        "tolerations": [{"key": "k", "operator": "Exists", "tolerationSeconds": 0}],
    },
    "status": {"phase": "Pending", "startTime": "2026-01-02T12:04:05Z"},
}


@pytest.mark.parametrize(
    "obj",
    [
        POD,
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "d"},
            "spec": {
                "replicas": 0,
                "selector": {"matchLabels": {"a": "b"}},
                "template": {
                    "metadata": {"labels": {"a": "b"}},
                    "spec": {"containers": [{"name": "c"}]},
                },
                "strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 0}},
            },
        },
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "l"},
            "spec": {"holderIdentity": "me", "renewTime": "2026-01-02T12:04:05.250000Z"},
        },
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "s"},
            "data": {"a": "AAECAw==", "empty": ""},
            "immutable": False,
        },
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": "e"},
            "involvedObject": {"kind": "Pod", "name": "p"},
            "count": 3,
            "firstTimestamp": "2026-01-02T12:04:05Z",
        },
        {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": "t"},
            "status": {"user": {"username": "u", "extra": {"scopes": ["a", "b"]}}},
        },
        {
            "apiVersion": "apps/v1",
            "kind": "ControllerRevision",
            "metadata": {"name": "r"},
            "data": {"spec": {"any": ["thing", 1, None]}},
            "revision": -1,
        },
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "b"},
            "spec": {"minAvailable": "50%", "selector": {}},
        },
    ],
    ids=lambda obj: obj["kind"],
)
def test_an_object_survives_the_way_there_and_back(obj: Obj) -> None:
    assert protobuf.decode(body(obj)) == obj


def test_zeros_on_the_wire_mean_nothing_unless_go_has_a_pointer() -> None:
    zeros = {"hostNetwork": False, "nodeName": "", "terminationGracePeriodSeconds": 0}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": ""}, "spec": zeros}
    decoded = protobuf.decode(body(pod))
    assert decoded == {
        "apiVersion": "v1",
        "kind": "Pod",
        "spec": {"terminationGracePeriodSeconds": 0},
    }


def test_the_zero_time_is_no_time() -> None:
    metadata = field(1, b"n") + field(8, b"")
    raw = field(1, metadata)
    typed = field(1, b"v1") + field(2, b"ConfigMap")
    decoded = protobuf.decode(b"k8s\x00" + field(1, typed) + field(2, raw))
    assert decoded["metadata"] == {"name": "n"}


def test_unknown_fields_are_skipped() -> None:
    raw = field(1, field(1, b"n")) + number_field(900, 5) + field(901, b"x")
    raw += varint(902 << 3 | 5) + b"1234" + varint(903 << 3 | 1) + b"12345678"
    typed = field(1, b"v1") + field(2, b"ConfigMap")
    decoded = protobuf.decode(b"k8s\x00" + field(1, typed) + field(2, raw))
    assert decoded == {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "n"}}


def test_lists_of_numbers_may_be_packed() -> None:
    packed = field(3, varint(1) + varint(300))
    for values in (packed, number_field(3, 1) + number_field(3, 300)):
        requirement = field(2, b"In") + values
        rule = field(1, b"Ignore") + field(2, requirement)
        spec = field(11, field(1, rule))
        typed = field(1, b"batch/v1") + field(2, b"Job")
        decoded = protobuf.decode(b"k8s\x00" + field(1, typed) + field(2, field(2, spec)))
        rules = decoded["spec"]["podFailurePolicy"]["rules"]
        assert rules[0]["onExitCodes"]["values"] == [1, 300]


DEFINITION: Obj = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "things.example.com"},
    "spec": {
        "group": "example.com",
        "names": {"plural": "things", "kind": "Thing"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "a": {"type": "integer", "minimum": 0.0, "default": 0},
                            "e": {"type": "string", "enum": ["x", 1, None]},
                        },
                    }
                },
            }
        ],
    },
}


def test_a_definition_can_come_as_protobuf() -> None:
    assert protobuf.decode(body(DEFINITION)) == DEFINITION


@pytest.mark.parametrize(
    ("message", "raw", "expected"),
    [
        ("JSONSchemaPropsOrBool", number_field(1, 1), True),
        ("JSONSchemaPropsOrBool", number_field(1, 0), False),
        ("JSONSchemaPropsOrBool", b"", False),
        ("JSONSchemaPropsOrBool", field(2, field(5, b"string")), {"type": "string"}),
        ("JSONSchemaPropsOrArray", field(1, field(5, b"string")), {"type": "string"}),
        ("JSONSchemaPropsOrArray", field(2, b"") + field(2, b""), [{}, {}]),
        ("JSONSchemaPropsOrStringArray", field(2, b"a"), ["a"]),
    ],
)
def test_a_schema_or_something_else_is_what_it_holds(
    message: str, raw: bytes, expected: Any
) -> None:
    found = protobuf._Reader()._value(f"@apiextensions_v1.{message}", memoryview(raw))
    assert found == expected


def test_options_of_a_delete_are_the_same_in_every_group() -> None:
    raw = number_field(1, 0) + field(4, b"Background")
    for api_version in (b"v1", b"apps/v1", b"meta.k8s.io/v1"):
        typed = field(1, api_version) + field(2, b"DeleteOptions")
        decoded = protobuf.decode(b"k8s\x00" + field(1, typed) + field(2, raw))
        assert decoded["gracePeriodSeconds"] == 0
        assert decoded["propagationPolicy"] == "Background"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "expected protobuf"),
        (b'{"kind": "Pod"}', "expected protobuf"),
        (b"k8s\x00" + field(1, field(1, b"v1") + field(2, b"Widget")), 'no kind "Widget" is known'),
        (body(POD)[:-40], "not valid protobuf"),
        (b"k8s\x00\x0a\xff", "not valid protobuf"),
        (b"k8s\x00\x0b", "wire type 3"),
        (b"k8s\x00" + b"\xff" * 12, "longer than ten bytes"),
    ],
)
def test_what_cannot_be_read_is_a_bad_request(data: bytes, message: str) -> None:
    with pytest.raises(BadRequest, match=message):
        protobuf.decode(data)


def test_bodies_are_told_apart_by_their_first_bytes() -> None:
    assert protobuf.is_protobuf(body(POD))
    assert not protobuf.is_protobuf(b"{}")


class Capture(http.server.BaseHTTPRequestHandler):
    """An API server that knows discovery only, and keeps what is posted to it."""

    bodies: list[tuple[str, str, bytes]]

    def log_message(self, *words: object) -> None:
        pass

    def do_GET(self) -> None:
        found = self.documents().get(self.path.partition("?")[0])
        self.answer(200 if found else 404, found or {"kind": "Status", "status": "Failure"})

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        self.bodies.append((self.path.partition("?")[0], self.headers["Content-Type"], data))
        self.answer(500, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 500})

    def answer(self, code: int, obj: Obj) -> None:
        data = json.dumps(obj).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    @staticmethod
    def documents() -> dict[str, Obj]:
        served = Kinds()
        documents: dict[str, Obj] = {"/api": {"kind": "APIVersions", "versions": ["v1"]}}
        groups = []
        for group, versions in served.groups().items():
            names = [f"{group}/{version}" if group else version for version in versions]
            listed = [
                {"groupVersion": name, "version": version}
                for name, version in zip(names, versions, strict=True)
            ]
            if group:
                groups.append({"name": group, "versions": listed, "preferredVersion": listed[0]})
            for name, version in zip(names, versions, strict=True):
                path = f"/apis/{name}" if group else f"/api/{name}"
                documents[path] = {
                    "kind": "APIResourceList",
                    "groupVersion": name,
                    "resources": [
                        {
                            "name": kind.plural,
                            "singularName": kind.singular,
                            "namespaced": kind.namespaced,
                            "kind": kind.kind,
                            "verbs": list(kind.verbs),
                        }
                        for kind in served.of_group_version(group, version)
                    ],
                }
        documents["/apis"] = {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
        return documents


@pytest.fixture
def capture() -> Iterator[tuple[str, list[tuple[str, str, bytes]]]]:
    bodies: list[tuple[str, str, bytes]] = []
    handler = type("Handler", (Capture,), {"bodies": bodies})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", bodies
        server.shutdown()
        thread.join()


CONTAINER = {"name": "busybox", "image": "busybox", "command": ["sleep", "1"]}
COMMANDS: dict[str, Obj] = {
    "create namespace a": {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}},
    "create configmap c --from-literal=a=b": {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c"},
        "data": {"a": "b"},
    },
    "create secret generic s --from-literal=a=b": {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s"},
        "data": {"a": "Yg=="},
    },
    "create deployment d --image=busybox --replicas=2 -- sleep 1": {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "labels": {"app": "d"}},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "d"}},
            "template": {
                "metadata": {"labels": {"app": "d"}},
                "spec": {"containers": [CONTAINER]},
            },
        },
    },
    "create job j --image=busybox -- echo hi": {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {
            "template": {
                "spec": {
                    "containers": [{"name": "j", "image": "busybox", "command": ["echo", "hi"]}],
                    "restartPolicy": "Never",
                }
            }
        },
    },
    "create service nodeport n --tcp=80:8080": {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "n", "labels": {"app": "n"}},
        "spec": {
            "type": "NodePort",
            "selector": {"app": "n"},
            "ports": [{"name": "80-8080", "port": 80, "protocol": "TCP", "targetPort": 8080}],
        },
    },
    "create rolebinding r --clusterrole=view --serviceaccount=default:x": {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "r"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "view",
        },
        "subjects": [{"kind": "ServiceAccount", "name": "x", "namespace": "default"}],
    },
    "create quota q --hard=cpu=1500m,memory=1Gi": {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q"},
        "spec": {"hard": {"cpu": "1500m", "memory": "1Gi"}},
    },
    "create poddisruptionbudget p --selector=a=b --min-available=50%": {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "p"},
        "spec": {"minAvailable": "50%", "selector": {"matchLabels": {"a": "b"}}},
    },
}


@pytest.fixture(scope="module")
def kubectl() -> tuple[str, int]:
    """The kubectl of set-up: from 1.32 on they send typed creates as protobuf."""
    program = shutil.which("kubectl") or ""
    minor = minor_version(program)
    assert minor, "a kubectl must be installed: run tools/setup"
    return program, minor


@pytest.mark.parametrize("command", COMMANDS)
def test_what_a_real_kubectl_creates(
    command: str, capture, kubectl: tuple[str, int], tmp_path: Path, schema: Schema
) -> None:
    program, minor = kubectl
    url, bodies = capture
    environment = {**os.environ, "HOME": str(tmp_path), "KUBECONFIG": str(tmp_path / "none")}
    words = [program, f"--server={url}", *command.split()]
    subprocess.run(words, env=environment, capture_output=True, timeout=60, check=False)
    [(_, content_type, data)] = bodies
    assert (content_type == "application/vnd.kubernetes.protobuf") is (minor >= 32)
    decoded = protobuf.decode(data) if protobuf.is_protobuf(data) else json.loads(data)
    kind = Kinds().by_kind(decoded["apiVersion"], decoded["kind"])
    assert kind is not None
    assert schema.decode(kind, decoded) == []
    decoded.pop("status", None)  # counts of nothing, which Go always writes
    assert decoded == COMMANDS[command]


def test_every_stored_kind_can_come_as_protobuf() -> None:
    for kind in kinds.STORED:
        if Wire().knows(struct_name(kind.group, kind.version, kind.kind)):
            obj = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "x"}}
            assert protobuf.decode(body(obj))["metadata"] == {"name": "x"}
