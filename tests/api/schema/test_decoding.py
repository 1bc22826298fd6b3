"""Decoding objects: what stays, what goes, and what is refused in upstream's words."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from orlop.api import kinds
from orlop.api.kinds import Kind
from orlop.api.schema import Schema
from orlop.errors import BadRequest

Obj = dict[str, Any]


def container(**fields: Any) -> Obj:
    return {"spec": {"containers": [{"name": "a", **fields}]}}


@pytest.mark.parametrize(
    ("kind", "given", "decoded"),
    [
        (kinds.POD, {"metadata": {"labels": None}}, {"metadata": {}}),
        (kinds.POD, {"spec": None}, {}),
        (kinds.POD, {"metadata": {"creationTimestamp": None}}, {"metadata": {}}),
        (kinds.POD, {"spec": {"nodeName": ""}}, {"spec": {}}),
        (kinds.POD, {"spec": {"hostNetwork": False}}, {"spec": {}}),
        (kinds.POD, {"spec": {"hostNetwork": True}}, {"spec": {"hostNetwork": True}}),
        (kinds.POD, {"spec": {"nodeSelector": {}}}, {"spec": {}}),
        (kinds.POD, {"spec": {"volumes": []}}, {"spec": {}}),
        (kinds.POD, {"spec": {"containers": []}}, {"spec": {"containers": []}}),
        (kinds.POD, container(args=[], image=""), container()),
        (kinds.POD, container(args=["", "a"]), container(args=["", "a"])),
        (kinds.POD, container(args=[None]), container(args=[""])),
        (
            kinds.POD,
            {"spec": {"terminationGracePeriodSeconds": 0}},
            {"spec": {"terminationGracePeriodSeconds": 0}},
        ),
        (kinds.DEPLOYMENT, {"spec": {"replicas": 0}}, {"spec": {"replicas": 0}}),
        (kinds.DEPLOYMENT, {"status": {"replicas": 0}}, {"status": {}}),
        (
            kinds.POD,
            {"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}},
            {"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}},
        ),
        (
            kinds.POD,
            {"spec": {"volumes": [{"name": "v", "emptyDir": None}]}},
            {"spec": {"volumes": [{"name": "v"}]}},
        ),
        (
            kinds.POD,
            container(resources={"limits": {"cpu": 0.5, "memory": "1.5Gi", "x/y": 1000}}),
            container(resources={"limits": {"cpu": "500m", "memory": "1536Mi", "x/y": "1k"}}),
        ),
        (
            kinds.POD,
            {"metadata": {"creationTimestamp": "2026-01-02T14:00:00+02:00"}},
            {"metadata": {"creationTimestamp": "2026-01-02T12:00:00Z"}},
        ),
        (
            kinds.LEASE,
            {"spec": {"renewTime": "2026-01-02T12:00:00Z"}},
            {"spec": {"renewTime": "2026-01-02T12:00:00.000000Z"}},
        ),
        (
            kinds.SERVICE,
            {"spec": {"ports": [{"port": 80, "targetPort": "http"}]}},
            {"spec": {"ports": [{"port": 80, "targetPort": "http"}]}},
        ),
        (kinds.SECRET, {"data": {"a": "Yg==", "n": None}}, {"data": {"a": "Yg==", "n": ""}}),
        (kinds.SECRET, {"data": {"a": "Y\ng==\n"}}, {"data": {"a": "Yg=="}}),
        (
            kinds.POD,
            container(resources={"limits": {"cpu": None}}),
            container(resources={"limits": {"cpu": "0"}}),
        ),
        (
            kinds.POD_DISRUPTION_BUDGET,
            {"status": {"disruptedPods": {"p": None}}},
            {"status": {"disruptedPods": {"p": None}}},
        ),
        (kinds.POD, {"spec": {"containers": [None]}}, {"spec": {"containers": [{}]}}),
        (
            kinds.CONTROLLER_REVISION,
            {"data": {"anything": [None, {"at": "all"}]}, "revision": 1},
            {"data": {"anything": [None, {"at": "all"}]}, "revision": 1},
        ),
        (
            kinds.HORIZONTAL_POD_AUTOSCALER,
            {"spec": {"metrics": [{"type": "Resource"}]}},
            {"spec": {"metrics": [{"type": "Resource"}]}},
        ),
    ],
)
def test_what_an_object_becomes(kind: Kind, given: Obj, decoded: Obj, schema: Schema) -> None:
    obj = copy.deepcopy(given)
    assert schema.decode(kind, obj) == []
    assert obj == decoded


@pytest.mark.parametrize(
    ("given", "unknown"),
    [
        ({"spec": {"contianers": []}}, ["spec.contianers"]),
        (container(imagee="x", envv=[]), ["spec.containers[0].imagee", "spec.containers[0].envv"]),
        ({"nonsense": {"deep": 1}}, ["nonsense"]),
        ({"metadata": {"label": {}}, "Spec": {}}, ["metadata.label", "Spec"]),
        (
            {"spec": {"volumes": [{"name": "v", "configMap": {"names": "x"}}]}},
            ["spec.volumes[0].configMap.names"],
        ),
        ({"metadata": {"labels": {"any": "thing"}}}, []),
    ],
)
def test_unknown_fields_go_and_are_named(given: Obj, unknown: list[str], schema: Schema) -> None:
    obj = copy.deepcopy(given)
    assert schema.decode(kinds.POD, obj) == unknown
    assert schema.decode(kinds.POD, obj) == []


@pytest.mark.parametrize(
    ("kind", "given", "message"),
    [
        (
            kinds.DEPLOYMENT,
            {"spec": {"replicas": "three"}},
            'Deployment in version "v1" cannot be handled as a Deployment: json: cannot unmarshal '
            "string into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            kinds.POD,
            {"spec": {"containers": "x"}},
            "json: cannot unmarshal string into Go struct field PodSpec.spec.containers of type "
            "[]v1.Container",
        ),
        (
            kinds.POD,
            {"spec": {"containers": {}}},
            "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type "
            "[]v1.Container",
        ),
        (
            kinds.POD,
            container(env=[{"name": "A", "value": 1}]),
            "json: cannot unmarshal number into Go struct field EnvVar.spec.containers.env.value "
            "of type string",
        ),
        (
            kinds.POD,
            container(tty="yes"),
            "json: cannot unmarshal string into Go struct field Container.spec.containers.tty of "
            "type bool",
        ),
        (
            kinds.POD,
            {"spec": []},
            "json: cannot unmarshal array into Go struct field Pod.spec of type v1.PodSpec",
        ),
        (
            kinds.POD,
            {"spec": {"containers": [1]}},
            "json: cannot unmarshal number into Go struct field PodSpec.spec.containers of type "
            "v1.Container",
        ),
        (
            kinds.POD,
            {"metadata": {"labels": {"a": True}}},
            "json: cannot unmarshal bool into Go struct field ObjectMeta.metadata.labels of type "
            "string",
        ),
        (
            kinds.POD,
            {"metadata": {"labels": ["a"]}},
            "json: cannot unmarshal array into Go struct field ObjectMeta.metadata.labels of type "
            "map[string]string",
        ),
        (
            kinds.POD,
            container(ports=[{"containerPort": 1.5}]),
            "json: cannot unmarshal number 1.5 into Go struct field "
            "ContainerPort.spec.containers.ports.containerPort of type int32",
        ),
        (
            kinds.DEPLOYMENT,
            {"spec": {"replicas": 3000000000}},
            "json: cannot unmarshal number 3000000000 into Go struct field "
            "DeploymentSpec.spec.replicas of type int32",
        ),
        (
            kinds.POD,
            container(resources={"limits": {"cpu": "lots"}}),
            "quantities must match the regular expression "
            "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        (
            kinds.POD,
            {"metadata": {"creationTimestamp": "yesterday"}},
            'parsing time "yesterday" as "2006-01-02T15:04:05Z07:00": cannot parse "yesterday" '
            'as "2006"',
        ),
        (
            kinds.POD,
            {"metadata": {"creationTimestamp": 5}},
            "json: cannot unmarshal number into Go value of type string",
        ),
        (
            kinds.SERVICE,
            {"spec": {"ports": [{"port": 80, "targetPort": True}]}},
            "json: cannot unmarshal bool into Go value of type int32",
        ),
        (kinds.SECRET, {"data": {"a": "!"}}, "illegal base64 data at input byte 0"),
        (kinds.SECRET, {"data": {"a": "abc"}}, "illegal base64 data at input byte"),
        (
            kinds.SECRET,
            {"data": {"a": 5}},
            "json: cannot unmarshal number into Go struct field Secret.data of type []uint8",
        ),
    ],
)
def test_wrong_types_are_refused_in_upstreams_words(
    kind: Kind, given: Obj, message: str, schema: Schema
) -> None:
    with pytest.raises(BadRequest) as caught:
        schema.decode(kind, given)
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (kinds.INGRESS, {"spec": {"rules": [{"http": {"paths": [{"path": "/"}]}}]}}),
        (kinds.CRON_JOB, {"spec": {"jobTemplate": {"spec": {"template": {"spec": {}}}}}}),
    ],
)
def test_decoding_twice_changes_nothing_more(kind: Kind, given: Obj, schema: Schema) -> None:
    schema.decode(kind, given)
    once = copy.deepcopy(given)
    assert schema.decode(kind, given) == []
    assert given == once
